-- Re-admission of quarantined records, asked for by people and done by the
-- data plane; and the audit log of what people did.

-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE quarantined_records
  ADD COLUMN readmit_requested_at timestamptz,
  ADD COLUMN readmitted_at timestamptz,
  ADD COLUMN readmit_result text;
COMMENT ON COLUMN quarantined_records.readmit_requested_at IS 'An operator asked for it to be judged again; null when nothing is asked.';
COMMENT ON COLUMN quarantined_records.readmitted_at IS 'When it was accepted after all; it stays in this table as history.';
COMMENT ON COLUMN quarantined_records.readmit_result IS
  'What the last re-admission came to: accepted, duplicate, skipped, or the reason of the new quarantine.';
CREATE INDEX quarantined_records_asked ON quarantined_records (readmit_requested_at)
  WHERE readmit_requested_at IS NOT NULL;

-- Append-only. One row per action of a person or program on the hub.
CREATE TABLE audit_log (
  id uuid NOT NULL,
  tenant_id text COLLATE "C",
  actor_id uuid,
  actor_name text NOT NULL,
  action text NOT NULL,
  object text NOT NULL,
  before jsonb,
  after jsonb,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id);
COMMENT ON COLUMN audit_log.tenant_id IS 'The tenant it concerns; null for the platform.';
COMMENT ON COLUMN audit_log.actor_id IS 'The API token; null for the hub itself.';
COMMENT ON COLUMN audit_log.object IS 'Global id of what was acted on, or a filter in words.';

-- What producers and consumers wrote to their own dead-letter topics, for
-- sight only.
CREATE TABLE dlq_observations (
  id uuid NOT NULL,
  tenant_id text COLLATE "C",
  writer text NOT NULL CHECK (writer IN ('PRODUCER', 'CONSUMER')),
  topic text NOT NULL,
  kafka_partition integer NOT NULL,
  kafka_offset bigint NOT NULL,
  source_topic text,
  error_class text,
  cause_kind text,
  observed_at timestamptz NOT NULL,
  detail jsonb NOT NULL,
  body bytea NOT NULL,
  body_bytes integer NOT NULL,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX dlq_observations_tenant ON dlq_observations (tenant_id, id);
COMMENT ON COLUMN dlq_observations.tenant_id IS 'As the record claims it, if it names a possible one.';
COMMENT ON COLUMN dlq_observations.detail IS
  'The ce- attributes found and the x-lerian-dlq- headers; the error message in it may hold personal data.';
COMMENT ON COLUMN dlq_observations.body IS 'The first part of the value; body_bytes is its whole size.';

INSERT INTO partitioned_tables (name, step, unique_column) VALUES
  ('audit_log', '30 days', NULL),
  ('dlq_observations', '1 day', NULL);
SELECT hub_ensure_partitions(now() + interval '3 days');

-- +goose Down
DELETE FROM partitioned_tables WHERE name IN ('audit_log', 'dlq_observations');
DROP TABLE dlq_observations;
DROP TABLE audit_log;
DROP INDEX quarantined_records_asked;
ALTER TABLE quarantined_records
  DROP COLUMN readmit_requested_at, DROP COLUMN readmitted_at, DROP COLUMN readmit_result;
