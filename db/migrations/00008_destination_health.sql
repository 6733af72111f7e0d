-- What the data plane knows of destinations and subscriptions: circuit
-- breakers, limits that replicas share, and the two failure policies. Rows are
-- small, few (nothing is kept of what is healthy) and updated in place.

-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE destinations
  ADD rate_limit integer CHECK (rate_limit BETWEEN 1 AND 10000),
  ADD max_in_flight integer CHECK (max_in_flight BETWEEN 1 AND 1000),
  ADD failure_policy jsonb NOT NULL DEFAULT '{"kind":"FAILURE_SPAN"}',
  ADD version integer NOT NULL DEFAULT 1;
COMMENT ON COLUMN destinations.rate_limit IS 'Attempts per second of all replicas together; null for no limit.';
COMMENT ON COLUMN destinations.max_in_flight IS 'Attempts under way at a time, of all replicas together; null for no limit.';

ALTER TABLE delivery_queue
  ADD last_at timestamptz,
  ADD alone boolean NOT NULL DEFAULT false,
  ADD test boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN delivery_queue.last_at IS
  'From when on the next attempt is the last, by number or by age; null while nobody has said so. Behind an open circuit a delivery runs from then on.';
COMMENT ON COLUMN delivery_queue.alone IS
  'The lease is of a delivery that runs alone, because one of its leases ended without an outcome before.';
COMMENT ON COLUMN delivery_queue.test IS 'A test send: outside health, circuit breaker and statistics.';
-- The way in for last attempts behind an open circuit, and for nothing else.
CREATE INDEX delivery_queue_last ON delivery_queue (tenant_id, destination_id, last_at) WHERE last_at IS NOT NULL;

CREATE TABLE circuit_breakers (
  destination_id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  phase text NOT NULL CHECK (phase IN ('CLOSED', 'OPEN', 'HALF_OPEN')),
  generation bigint NOT NULL,
  failures integer NOT NULL,
  window_newest bigint NOT NULL,
  window_attempts integer[] NOT NULL CHECK (cardinality(window_attempts) = 12),
  window_failures integer[] NOT NULL CHECK (cardinality(window_failures) = 12),
  cause text NOT NULL,
  opened_at timestamptz,
  open_for_ms bigint NOT NULL,
  next_probe_at timestamptz,
  probe_attempt uuid,
  probe_started_at timestamptz,
  closed_at timestamptz,
  ramp_limit integer NOT NULL,
  changed_at timestamptz NOT NULL,
  CHECK ((phase = 'CLOSED') = (opened_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX circuit_breakers_tenant ON circuit_breakers (tenant_id, destination_id);
CREATE INDEX circuit_breakers_changed ON circuit_breakers (changed_at);
COMMENT ON TABLE circuit_breakers IS 'One row per destination that has failed lately; the others are closed.';
COMMENT ON COLUMN circuit_breakers.changed_at IS 'By the database clock, so that replicas find what others wrote.';

-- What the cluster may still start at once of a destination with a limit.
CREATE TABLE destination_limits (
  destination_id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  free_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON COLUMN destination_limits.free_at IS 'When the next attempt may start, by the database clock; in the past while the limit is not used up.';

CREATE TABLE destination_slots (
  destination_id uuid NOT NULL,
  holder uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  slots integer NOT NULL CHECK (slots >= 0),
  wanted integer NOT NULL CHECK (wanted >= 0),
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (destination_id, holder)
) WITH (fillfactor = 50);
COMMENT ON TABLE destination_slots IS 'Of max_in_flight, what each process holds; a process that dies loses it at expires_at.';

-- FAILURE_SPAN: one row per subscription whose last attempt failed.
CREATE TABLE failure_spans (
  subscription_id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  destination_id uuid NOT NULL,
  first_failure_at timestamptz NOT NULL,
  last_failure_at timestamptz NOT NULL CHECK (last_failure_at >= first_failure_at),
  failure_count bigint NOT NULL CHECK (failure_count >= 1),
  mark smallint NOT NULL DEFAULT 0,
  tripped_at timestamptz,
  changed_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX failure_spans_tenant ON failure_spans (tenant_id, subscription_id);
CREATE INDEX failure_spans_changed ON failure_spans (changed_at);
COMMENT ON COLUMN failure_spans.mark IS 'The highest warning given, in per cent of the window.';
COMMENT ON COLUMN failure_spans.tripped_at IS 'When the verdict was found, also when the kill switch kept it from being acted on.';

-- FAILURE_RATE: one row per destination under that policy.
CREATE TABLE failure_rates (
  destination_id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  attempts bigint NOT NULL,
  failures bigint NOT NULL,
  failures_in_row bigint NOT NULL,
  last_success_at timestamptz NOT NULL,
  state text NOT NULL CHECK (state IN ('ACTIVE', 'DISABLED', 'FROZEN')),
  state_since timestamptz,
  next_try_at timestamptz,
  changed_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX failure_rates_tenant ON failure_rates (tenant_id, destination_id);
CREATE INDEX failure_rates_changed ON failure_rates (changed_at);

-- A lane in which deliveries have to be brought in line with what became of
-- their subscription: held, resumed, moved to its present destination, or
-- ended. Written with the change, done by the data plane in batches.
CREATE TABLE lane_chores (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  subscription_id uuid NOT NULL,
  destination_id uuid NOT NULL,
  round smallint NOT NULL DEFAULT 1,
  held boolean NOT NULL DEFAULT false,
  after_due timestamptz NOT NULL DEFAULT 'epoch',
  after_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  not_before timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE INDEX lane_chores_subscription ON lane_chores (subscription_id);
COMMENT ON COLUMN lane_chores.held IS 'The lane was walked; now the held deliveries of the subscription are, by id.';
-- The way to the held deliveries of a subscription, whatever their lane.
CREATE INDEX delivery_queue_held ON delivery_queue (subscription_id, id) WHERE due_at = 'infinity';

-- How far the live feed was turned into events of the reserved tenant _hub.
CREATE TABLE feed_relays (
  name text PRIMARY KEY,
  xid xid8 NOT NULL,
  row_id uuid NOT NULL,
  updated_at timestamptz NOT NULL
);

-- Dead letters are grouped by the fingerprint of their cause.
ALTER TABLE delivery_results ADD fingerprint bytea, ADD test boolean NOT NULL DEFAULT false;
CREATE INDEX delivery_results_fingerprint ON delivery_results (fingerprint, id) WHERE fingerprint IS NOT NULL;
COMMENT ON COLUMN delivery_results.fingerprint IS '16 bytes; null for ends before it was kept, and without a cause.';

COMMENT ON COLUMN delivery_results.test IS 'The end of a test send, which is no dead letter.';

-- What the feed tells besides ordinary outcomes, for those who only want that.
ALTER TABLE outcome_feed ADD notable boolean NOT NULL DEFAULT false;
CREATE INDEX outcome_feed_notable ON outcome_feed (xid, id) WHERE notable;
COMMENT ON COLUMN outcome_feed.notable IS 'It has a notice, or the end of a delivery without success.';

-- +goose Down
DROP INDEX outcome_feed_notable;
ALTER TABLE outcome_feed DROP COLUMN notable;
ALTER TABLE delivery_results DROP COLUMN fingerprint, DROP COLUMN test;
DROP TABLE feed_relays;
DROP INDEX delivery_queue_held;
DROP TABLE lane_chores;
DROP TABLE failure_rates;
DROP TABLE failure_spans;
DROP TABLE destination_slots;
DROP TABLE destination_limits;
DROP TABLE circuit_breakers;
DROP INDEX delivery_queue_last;
ALTER TABLE delivery_queue DROP COLUMN last_at, DROP COLUMN alone, DROP COLUMN test;
ALTER TABLE destinations
  DROP COLUMN rate_limit, DROP COLUMN max_in_flight, DROP COLUMN failure_policy, DROP COLUMN version;
