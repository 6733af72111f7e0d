-- Replays and backfills: a job freezes a set of deliveries, then gives them
-- back to the queue piece by piece. An item leaves PENDING in the transaction
-- that makes its queue row, and every outcome moves its item in the
-- transaction that records it, so that no kill repeats or loses one.

-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE replay_jobs (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  kind text NOT NULL CHECK (kind IN ('REPLAY', 'BACKFILL')),
  state text NOT NULL CHECK (state IN ('PREVIEWING', 'READY', 'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLED', 'EXPIRED', 'FAILED')),
  version integer NOT NULL DEFAULT 1,
  wanted jsonb NOT NULL,
  rate_per_second integer NOT NULL CHECK (rate_per_second BETWEEN 1 AND 10000),
  canary integer NOT NULL CHECK (canary BETWEEN 0 AND 10000),
  pause_above_percent integer NOT NULL CHECK (pause_above_percent BETWEEN 0 AND 100),
  -- The preview.
  scanned_to uuid,
  scanned_seq bigint,
  last_seq bigint,
  total bigint NOT NULL DEFAULT 0,
  already_delivered bigint NOT NULL DEFAULT 0,
  possible_duplicates bigint NOT NULL DEFAULT 0,
  undeliverable bigint NOT NULL DEFAULT 0,
  shares jsonb NOT NULL DEFAULT '[]',
  -- The run.
  next_ordinal bigint NOT NULL DEFAULT 0,
  released bigint NOT NULL DEFAULT 0,
  skipped bigint NOT NULL DEFAULT 0,
  paced_to timestamptz,
  told bigint NOT NULL DEFAULT 0,
  canary_passed boolean NOT NULL DEFAULT false,
  judged_tried bigint NOT NULL DEFAULT 0,
  judged_failed bigint NOT NULL DEFAULT 0,
  paused_by text CHECK (paused_by IN ('USER', 'AUTO')),
  reason text NOT NULL DEFAULT '',
  created_by uuid NOT NULL,
  created_by_name text NOT NULL,
  created_at timestamptz NOT NULL,
  previewed_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  CHECK ((state = 'PAUSED') = (paused_by IS NOT NULL))
);
CREATE INDEX replay_jobs_tenant ON replay_jobs (tenant_id, id);
CREATE INDEX replay_jobs_active ON replay_jobs (id) WHERE state IN ('PREVIEWING', 'READY', 'RUNNING');
COMMENT ON COLUMN replay_jobs.tenant_id IS 'Empty when the job goes over all tenants.';
COMMENT ON COLUMN replay_jobs.wanted IS 'What was asked for: the filter of a REPLAY, the range of a BACKFILL.';
COMMENT ON COLUMN replay_jobs.scanned_to IS 'How far the preview has walked; null before it began.';
COMMENT ON COLUMN replay_jobs.scanned_seq IS 'The same of a BACKFILL, which walks by seq up to last_seq.';
COMMENT ON COLUMN replay_jobs.shares IS 'Items by destination: [{"d": destination, "n": count}].';
COMMENT ON COLUMN replay_jobs.next_ordinal IS 'The item that is released next.';
COMMENT ON COLUMN replay_jobs.paced_to IS 'Up to when the rate is used up.';
COMMENT ON COLUMN replay_jobs.told IS 'The sum of all counts in the last notice of the live feed.';
COMMENT ON COLUMN replay_jobs.judged_tried IS 'Items tried before the last start, which are judged no more; judged_failed likewise.';

-- What outcomes count up, apart from the job and without a foreign key to it:
-- whoever records outcomes never waits for whoever releases items. A job over
-- all tenants has a row for each tenant with an outcome, so that what a tenant
-- does to its own items stays on its side of the wall.
CREATE TABLE replay_progress (
  job_id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  tried bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  delivered bigint NOT NULL DEFAULT 0,
  dead bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (job_id, tenant_id)
) WITH (fillfactor = 50);
COMMENT ON COLUMN replay_progress.tenant_id IS 'Of the items.';
COMMENT ON COLUMN replay_progress.tried IS 'Items that had an outcome.';
COMMENT ON COLUMN replay_progress.failed IS 'Those whose first outcome was a failure.';

CREATE TABLE replay_items (
  job_id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  ordinal bigint NOT NULL,
  delivery_id uuid NOT NULL,
  event_id uuid NOT NULL,
  subscription_id uuid NOT NULL,
  destination_id uuid NOT NULL,
  state text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'RELEASED', 'FAILING', 'DELIVERED', 'DEAD', 'SKIPPED')),
  note text NOT NULL DEFAULT '',
  PRIMARY KEY (job_id, delivery_id)
) PARTITION BY RANGE (job_id);
CREATE INDEX replay_items_order ON replay_items (job_id, ordinal);
COMMENT ON COLUMN replay_items.ordinal IS 'From 0, in the order in which items are released.';
COMMENT ON COLUMN replay_items.note IS 'Why the item was skipped.';

INSERT INTO partitioned_tables (name, step) VALUES ('replay_items', '7 days');
SELECT hub_ensure_partitions(now() + interval '4 days');

ALTER TABLE delivery_queue ADD job_id uuid;
COMMENT ON COLUMN delivery_queue.job_id IS 'The replay job whose item this run of the delivery is.';

-- The API writes items and their progress when it discards deliveries.
SELECT
  hub_wall('replay_jobs', 'SELECT, INSERT, UPDATE'),
  hub_wall('replay_progress', 'SELECT, INSERT, UPDATE'),
  hub_wall('replay_items', 'SELECT, UPDATE');

-- +goose Down
ALTER TABLE delivery_queue DROP COLUMN job_id;
DELETE FROM partitioned_tables WHERE name = 'replay_items';
DROP TABLE replay_items;
DROP TABLE replay_progress;
DROP TABLE replay_jobs;
