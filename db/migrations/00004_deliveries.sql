-- Deliveries: a narrow hot queue of what is unfinished, and append-only
-- history. No wide row is ever updated in place. A delivery's state is its
-- queue row, else the latest of its results.

-- +goose Up
SET lock_timeout = '5s';

-- One row per unfinished delivery, deleted on completion. Not partitioned.
-- The lease is in no index, so that claiming is a HOT update. There is no
-- index by due_at alone on purpose: claims walk lanes (tenant, destination).
CREATE TABLE delivery_queue (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  destination_id uuid NOT NULL,
  subscription_id uuid NOT NULL,
  event_id uuid NOT NULL,
  due_at timestamptz NOT NULL,
  leased_until timestamptz,
  lease_token bigint,
  received_at timestamptz NOT NULL,
  first_failed_at timestamptz,
  run integer NOT NULL DEFAULT 1 CHECK (run >= 1),
  attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  run_attempts integer NOT NULL DEFAULT 0 CHECK (run_attempts >= 0),
  reclaims smallint NOT NULL DEFAULT 0,
  body_bytes integer NOT NULL,
  CHECK ((leased_until IS NULL) = (lease_token IS NULL))
) WITH (
  fillfactor = 50,
  -- A queue bloats within seconds: vacuum by a fixed count of dead rows.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);
CREATE INDEX delivery_queue_lane ON delivery_queue (tenant_id, destination_id, due_at);
COMMENT ON COLUMN delivery_queue.due_at IS 'When the next attempt may start; infinity while HELD.';
COMMENT ON COLUMN delivery_queue.lease_token IS 'Fence: an outcome is written only while the row holds the same token.';
COMMENT ON COLUMN delivery_queue.reclaims IS 'Leases that ended without a recorded outcome since the last recorded one.';

CREATE TABLE deliveries (
  id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  event_id uuid NOT NULL,
  subscription_id uuid NOT NULL,
  destination_id uuid NOT NULL,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX deliveries_tenant ON deliveries (tenant_id, id);
CREATE INDEX deliveries_subscription ON deliveries (subscription_id, id);
CREATE INDEX deliveries_event ON deliveries (event_id);
COMMENT ON TABLE deliveries IS 'Birth rows, inserted once. The id holds the time.';

CREATE TABLE attempts (
  id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  delivery_id uuid NOT NULL,
  event_id uuid NOT NULL,
  subscription_id uuid NOT NULL,
  destination_id uuid NOT NULL,
  run integer NOT NULL,
  number integer NOT NULL,
  started_at timestamptz NOT NULL,
  total_us integer NOT NULL,
  status integer NOT NULL,
  error_class text NOT NULL,
  state text NOT NULL CHECK (state IN ('WAITING', 'DELIVERED', 'DEAD')),
  next_at timestamptz,
  detail bytea NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX attempts_delivery ON attempts (delivery_id);
COMMENT ON COLUMN attempts.status IS 'HTTP status, 0 when no answer came.';
COMMENT ON COLUMN attempts.error_class IS 'Empty on success.';
COMMENT ON COLUMN attempts.state IS 'What the delivery became by this attempt.';
COMMENT ON COLUMN attempts.detail IS 'JSON as bytes: phases, answer, failure, decision. Read by the API, never by a query.';

-- Ends without success, one row per run that ended so; the highest run wins.
CREATE TABLE delivery_results (
  id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  delivery_id uuid NOT NULL,
  run integer NOT NULL,
  state text NOT NULL CHECK (state IN ('DEAD', 'DISCARDED')),
  dead_reason text CHECK ((state = 'DEAD') = (dead_reason IS NOT NULL)),
  last_error text NOT NULL DEFAULT '',
  PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX delivery_results_delivery ON delivery_results (delivery_id);
CREATE INDEX delivery_results_tenant ON delivery_results (tenant_id, id);

-- The live feed: one row per flush of outcomes. Readers go by (xid, id)
-- below the oldest running transaction, so that nothing is ever skipped.
CREATE TABLE outcome_feed (
  id uuid NOT NULL,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  items bytea NOT NULL
) PARTITION BY RANGE (id);
ALTER TABLE outcome_feed ALTER COLUMN items SET STORAGE EXTERNAL;
CREATE INDEX outcome_feed_order ON outcome_feed (xid, id);
COMMENT ON COLUMN outcome_feed.items IS 'One JSON object per line, one line per outcome.';

INSERT INTO partitioned_tables (name, step) VALUES
  ('deliveries', '1 day'),
  ('attempts', '1 day'),
  ('delivery_results', '1 day'),
  ('outcome_feed', '1 day');
SELECT hub_ensure_partitions(now() + interval '3 days');

-- +goose Down
DELETE FROM partitioned_tables WHERE name IN ('deliveries', 'attempts', 'delivery_results', 'outcome_feed');
DROP TABLE outcome_feed;
DROP TABLE delivery_results;
DROP TABLE attempts;
DROP TABLE deliveries;
DROP TABLE delivery_queue;
