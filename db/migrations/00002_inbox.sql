-- The inbox: each accepted event once, numbered per tenant.

-- +goose Up
SET lock_timeout = '5s';

-- One row per tenant: the lock that orders the tenant's events, its next seq
-- and the version of its configuration. Every ingest transaction locks its
-- tenants here first, in tenant order, and nothing else orders locks.
CREATE TABLE tenant_counters (
  tenant_id text COLLATE "C" PRIMARY KEY CHECK (length(tenant_id) BETWEEN 1 AND 256),
  next_seq bigint NOT NULL DEFAULT 1 CHECK (next_seq >= 1),
  config_version bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON COLUMN tenant_counters.config_version IS
  'Grows with each change of the tenant''s subscriptions, destinations or secrets, under this row''s lock.';

CREATE TABLE events (
  id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  source text NOT NULL,
  ce_id text NOT NULL,
  event_type text NOT NULL,
  schema_version text NOT NULL,
  schema_major integer NOT NULL,
  received_at timestamptz NOT NULL,
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  context json NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
-- Bodies above 2 KiB go to the side table as they are: compressing them would
-- cost more CPU than the whole of ingest.
ALTER TABLE events ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX events_tenant_seq ON events (tenant_id, seq);
COMMENT ON COLUMN events.event_type IS 'The event type key, <resource>.<event>.';
COMMENT ON COLUMN events.context IS
  'The other attributes: ce-type, resource and event apart, time, subject, content type, schema, extensions, trace.';

-- Dedup: a 16-byte hash of (tenant, source, ce-id) for each event, and of
-- (topic id, partition, offset) for each quarantined record. Kept for longer
-- than the events themselves. Looked up under the tenant's lock; the unique
-- index of each partition is the second wall.
CREATE TABLE event_keys (
  key uuid NOT NULL,
  content_hash uuid NOT NULL,
  event_id uuid NOT NULL
) PARTITION BY RANGE (event_id);

CREATE TABLE quarantined_records (
  id uuid NOT NULL,
  tenant_id text COLLATE "C",
  reason text NOT NULL,
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  headers jsonb NOT NULL,
  body bytea NOT NULL,
  body_bytes integer NOT NULL,
  received_at timestamptz NOT NULL,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
COMMENT ON COLUMN quarantined_records.tenant_id IS 'As the record claims it, if it names a possible one.';
COMMENT ON COLUMN quarantined_records.headers IS 'All headers in order, names and values in base64.';
COMMENT ON COLUMN quarantined_records.body IS 'The first part of the value; body_bytes is its whole size.';

INSERT INTO partitioned_tables (name, step, unique_column) VALUES
  ('events', '1 day', NULL),
  ('event_keys', '15 days', 'key'),
  ('quarantined_records', '7 days', NULL);

-- +goose Down
DELETE FROM partitioned_tables WHERE name IN ('events', 'event_keys', 'quarantined_records');
DROP TABLE quarantined_records;
DROP TABLE event_keys;
DROP TABLE events;
DROP TABLE tenant_counters;
