-- The second wall between tenants, inside Postgres: the API works as one of
-- two roles, and row level security shows the role of a tenant only the rows
-- of the tenant that hub.tenant names. Table owners pass by the wall; the data
-- plane is one, so nothing changes for it.

-- +goose Up
SET lock_timeout = '5s';

-- Roles belong to the whole cluster, and other databases of it may be migrated
-- at this moment.
-- +goose StatementBegin
DO $$
DECLARE
  wanted text;
  membership text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
  what_to_do text := format('Let a database administrator run: CREATE ROLE hub_tenant NOLOGIN; CREATE ROLE hub_platform NOLOGIN; '
    'GRANT hub_tenant, hub_platform TO %I; and migrate again. Grant them also to the user of the programs, if that is another one.', current_user);
BEGIN
  FOREACH wanted IN ARRAY ARRAY['hub_tenant', 'hub_platform'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
          RAISE EXCEPTION 'user % may not create the role %', current_user, wanted USING HINT = what_to_do;
      END;
    END IF;
    IF NOT pg_has_role(current_user, wanted, membership) THEN
      BEGIN
        EXECUTE format('GRANT %I TO CURRENT_USER', wanted);
      EXCEPTION
        WHEN duplicate_object OR unique_violation OR internal_error THEN NULL; -- granted at the same moment
        WHEN insufficient_privilege THEN
          RAISE EXCEPTION 'user % may not become the role %', current_user, wanted USING HINT = what_to_do;
      END;
    END IF;
  END LOOP;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO hub_tenant, hub_platform', current_schema());
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION hub_wall(walled regclass, tenant_may text, platform_may text DEFAULT 'SELECT, INSERT, UPDATE, DELETE') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', walled);
  -- Without a tenant the setting is null or empty, and no row has such a one.
  -- IS TRUE keeps the planner from looking rows up by this condition, so that
  -- statements have the same plans behind the wall as before it: a look-up by
  -- id would else walk through all that a large tenant has waiting.
  EXECUTE format('CREATE POLICY of_tenant ON %s TO hub_tenant '
    'USING ((tenant_id = current_setting(''hub.tenant'', true)) IS TRUE) '
    'WITH CHECK ((tenant_id = current_setting(''hub.tenant'', true)) IS TRUE)', walled);
  EXECUTE format('CREATE POLICY of_platform ON %s TO hub_platform USING (true) WITH CHECK (true)', walled);
  IF tenant_may <> '' THEN
    EXECUTE format('GRANT %s ON %s TO hub_tenant', tenant_may, walled);
  END IF;
  EXECUTE format('GRANT %s ON %s TO hub_platform', platform_may, walled);
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION hub_wall IS
  'Puts a table with a tenant_id behind the wall, with what the two roles may do: every migration calls it for each such table that it makes. Partitions need nothing, they are reached through their parent.';

SELECT
  hub_wall('tenant_counters', 'SELECT, INSERT, UPDATE'),
  hub_wall('events', 'SELECT, INSERT'),
  hub_wall('quarantined_records', ''), -- of no tenant for sure
  hub_wall('destinations', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('destination_secrets', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('destination_credentials', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('event_subscriptions', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('api_tokens', 'SELECT, INSERT, UPDATE'),
  hub_wall('delivery_queue', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('deliveries', 'SELECT, INSERT, UPDATE'), -- UPDATE is for row locks
  hub_wall('attempts', 'SELECT'),
  hub_wall('delivery_results', 'SELECT, INSERT'),
  hub_wall('dlq_observations', 'SELECT'),
  hub_wall('circuit_breakers', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('destination_limits', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('destination_slots', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('failure_spans', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('failure_rates', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('lane_chores', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('idempotency_keys', 'SELECT, INSERT, UPDATE, DELETE'),
  hub_wall('audit_log', 'SELECT, INSERT', 'SELECT, INSERT');
-- The feed holds items of all tenants: a change is told there and not read.
GRANT INSERT ON outcome_feed TO hub_tenant, hub_platform;

-- Not even an owner or a superuser changes the audit log. Retention drops its
-- partitions.
-- +goose StatementBegin
CREATE FUNCTION hub_append_only() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'rows of % are only ever added', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
  FOR EACH ROW EXECUTE FUNCTION hub_append_only();
CREATE TRIGGER audit_log_not_emptied BEFORE TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION hub_append_only();

CREATE INDEX api_tokens_tenant ON api_tokens (tenant_id, id);

ALTER TABLE idempotency_keys ADD ran boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN idempotency_keys.ran IS
  'The call has changed something, written in the transaction of its audit entry: it is never run again, even if its answer was lost.';

-- +goose Down
-- The roles stay: other databases of the cluster may use them.
ALTER TABLE idempotency_keys DROP COLUMN ran;
DROP INDEX api_tokens_tenant;
DROP TRIGGER audit_log_not_emptied ON audit_log;
DROP TRIGGER audit_log_append_only ON audit_log;
DROP FUNCTION hub_append_only();
DROP FUNCTION hub_wall(regclass, text, text);
-- +goose StatementBegin
DO $$
DECLARE
  walled regclass;
BEGIN
  FOR walled IN SELECT polrelid FROM pg_policy WHERE polname = 'of_tenant' LOOP
    EXECUTE format('DROP POLICY of_tenant ON %s', walled);
    EXECUTE format('DROP POLICY of_platform ON %s', walled);
    EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', walled);
    EXECUTE format('REVOKE ALL ON %s FROM hub_tenant, hub_platform', walled);
  END LOOP;
  REVOKE ALL ON outcome_feed FROM hub_tenant, hub_platform;
  EXECUTE format('REVOKE ALL ON SCHEMA %I FROM hub_tenant, hub_platform', current_schema());
END
$$;
-- +goose StatementEnd
