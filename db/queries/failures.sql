-- What the failure policies count, as the data plane keeps it. Rows are locked
-- in the order of their keys.

-- SpansChangedSince finds what replicas wrote lately. Served by
-- failure_spans_changed.
-- name: SpansChangedSince :many
SELECT * FROM failure_spans WHERE changed_at > @since::timestamptz ORDER BY changed_at LIMIT @most;

-- name: LockSpans :many
SELECT * FROM failure_spans
WHERE subscription_id = ANY(@subscription_ids::uuid[])
ORDER BY subscription_id
FOR UPDATE;

-- InsertSpan opens a span; none when a replica was quicker.
-- name: InsertSpan :execrows
INSERT INTO failure_spans (
  subscription_id, tenant_id, destination_id, first_failure_at, last_failure_at, failure_count, mark, tripped_at, changed_at)
VALUES (@subscription_id, @tenant_id, @destination_id, @first_failure_at, @last_failure_at, @failure_count, @mark,
  sqlc.narg('tripped_at'), clock_timestamp())
ON CONFLICT (subscription_id) DO NOTHING;

-- name: UpdateSpan :exec
UPDATE failure_spans
SET first_failure_at = @first_failure_at, last_failure_at = @last_failure_at, failure_count = @failure_count,
    mark = @mark, tripped_at = sqlc.narg('tripped_at'), destination_id = @destination_id, changed_at = clock_timestamp()
WHERE subscription_id = @subscription_id;

-- SpanTargets are those subscriptions that a span is kept of, with their
-- destination: they exist, and no other policy judges them. Served by the
-- primary keys.
-- name: SpanTargets :many
SELECT s.id, s.destination_id FROM event_subscriptions s
JOIN destinations d ON d.id = s.destination_id
WHERE s.id = ANY(@subscription_ids::uuid[]) AND s.deleted_at IS NULL
  AND (d.failure_policy->>'kind')::text IS DISTINCT FROM 'FAILURE_RATE';

-- LongSpans are open spans of enabled subscriptions that began before a moment,
-- behind a place. There are as many as subscriptions that fail for long. A span
-- of another place, or from before another policy, is none.
-- name: LongSpans :many
SELECT f.* FROM failure_spans f
JOIN event_subscriptions s ON s.id = f.subscription_id AND s.destination_id = f.destination_id
JOIN destinations d ON d.id = s.destination_id
WHERE f.first_failure_at <= @before::timestamptz AND f.subscription_id > @after AND s.enabled AND s.deleted_at IS NULL
  AND (d.failure_policy->>'kind')::text IS DISTINCT FROM 'FAILURE_RATE'
ORDER BY f.subscription_id
LIMIT @most;

-- LockSpansOfDestination are the spans of the subscriptions of a destination,
-- which are few. Served by event_subscriptions_destination and the primary key.
-- name: LockSpansOfDestination :many
SELECT f.* FROM failure_spans f
JOIN event_subscriptions s ON s.id = f.subscription_id
WHERE s.destination_id = @destination_id
ORDER BY f.subscription_id
FOR UPDATE OF f;

-- RatesNotActive are the destinations that FAILURE_RATE has switched off. What
-- is left of it under another policy keeps nothing back.
-- name: RatesNotActive :many
SELECT r.* FROM failure_rates r
JOIN destinations d ON d.id = r.destination_id
WHERE r.state <> 'ACTIVE' AND (d.failure_policy->>'kind')::text = 'FAILURE_RATE'
ORDER BY r.destination_id
LIMIT @most;

-- EnsureRates makes rows of destinations that have none, from their creation:
-- of those that FAILURE_RATE judges.
-- name: EnsureRates :exec
INSERT INTO failure_rates (
  destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, changed_at)
SELECT d.id, d.tenant_id, 0, 0, 0, d.created_at, 'ACTIVE', now()
FROM destinations d
WHERE d.id = ANY(@destination_ids::uuid[]) AND (d.failure_policy->>'kind')::text = 'FAILURE_RATE'
ORDER BY d.id
ON CONFLICT (destination_id) DO NOTHING;

-- LockRates leaves out destinations that another policy judges by now.
-- name: LockRates :many
SELECT r.* FROM failure_rates r
JOIN destinations d ON d.id = r.destination_id
WHERE r.destination_id = ANY(@destination_ids::uuid[]) AND (d.failure_policy->>'kind')::text = 'FAILURE_RATE'
ORDER BY r.destination_id
FOR UPDATE OF r;

-- LockRate is that of a destination whatever its policy. Served by the primary
-- key.
-- name: LockRate :many
SELECT * FROM failure_rates WHERE destination_id = @destination_id FOR UPDATE;

-- name: UpdateRate :exec
UPDATE failure_rates
SET attempts = @attempts, failures = @failures, failures_in_row = @failures_in_row, last_success_at = @last_success_at,
    state = @state, state_since = sqlc.narg('state_since'), next_try_at = sqlc.narg('next_try_at'), changed_at = clock_timestamp()
WHERE destination_id = @destination_id;

-- DisableByHub switches a subscription off; none when it was changed or is off
-- already. The caller holds the lock of the tenant.
-- name: DisableByHub :execrows
UPDATE event_subscriptions
SET enabled = false, disabled_by = 'AUTO', disabled_reason = @reason, disabled_at = @now::timestamptz, updated_at = @now::timestamptz
WHERE id = @id AND enabled AND deleted_at IS NULL;
