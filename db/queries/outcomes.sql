-- Outcomes: one transaction per flush, in two round trips. First the queue
-- rows go or move on, only where the lease token still holds; then history and
-- feed are written for those rows.

-- SettleQueue removes the rows of deliveries that are finished. The session's
-- settings make it one look-up by key for each.
-- name: SettleQueue :many
DELETE FROM delivery_queue q
USING ROWS FROM (unnest(@ids::uuid[]), unnest(@lease_tokens::bigint[])) AS o(id, lease_token)
WHERE q.id = o.id AND q.lease_token = o.lease_token
RETURNING q.id, o.lease_token::bigint AS lease_token;

-- RescheduleQueue puts rows back for their next attempt.
-- name: RescheduleQueue :many
UPDATE delivery_queue q
SET due_at = o.next_at, attempts = o.number, run_attempts = o.run_attempts, reclaims = 0,
    first_failed_at = coalesce(q.first_failed_at, o.started_at), last_at = o.last_at,
    leased_until = NULL, lease_token = NULL, alone = false
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@lease_tokens::bigint[]), unnest(@next_ats::timestamptz[]),
  unnest(@numbers::integer[]), unnest(@run_attempts::integer[]), unnest(@started_ats::timestamptz[]),
  unnest(@last_ats::timestamptz[])
) AS o(id, lease_token, next_at, number, run_attempts, started_at, last_at)
WHERE q.id = o.id AND q.lease_token = o.lease_token
RETURNING q.id, o.lease_token::bigint AS lease_token;

-- name: InsertAttempts :exec
INSERT INTO attempts (
  id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number,
  started_at, total_us, status, error_class, state, next_at, detail)
SELECT a.id, a.tenant_id, a.delivery_id, a.event_id, a.subscription_id, a.destination_id, a.run, a.number,
  a.started_at, a.total_us, a.status, a.error_class, a.state,
  CASE WHEN a.state = 'WAITING' THEN a.next_at END, a.detail
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@delivery_ids::uuid[]),
  unnest(@event_ids::uuid[]), unnest(@subscription_ids::uuid[]), unnest(@destination_ids::uuid[]),
  unnest(@runs::integer[]), unnest(@numbers::integer[]), unnest(@started_ats::timestamptz[]),
  unnest(@total_us::integer[]), unnest(@statuses::integer[]), unnest(@error_classes::text[]),
  unnest(@states::text[]), unnest(@next_ats::timestamptz[]), unnest(@details::bytea[])
) AS a(id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number,
  started_at, total_us, status, error_class, state, next_at, detail);

-- name: InsertDeadResults :exec
INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason, last_error, fingerprint, test)
SELECT r.id, r.tenant_id, r.delivery_id, r.run, 'DEAD', r.dead_reason, r.last_error, nullif(r.fingerprint, ''::bytea), r.test
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@delivery_ids::uuid[]),
  unnest(@runs::integer[]), unnest(@dead_reasons::text[]), unnest(@last_errors::text[]),
  unnest(@fingerprints::bytea[]), unnest(@tests::boolean[])
) AS r(id, tenant_id, delivery_id, run, dead_reason, last_error, fingerprint, test);

-- InsertFeed publishes a flush and wakes the feed readers at its commit. The
-- notification carries nothing: readers look at the table, so a lost one costs
-- a fallback poll.
-- name: InsertFeed :exec
WITH published AS (
  INSERT INTO outcome_feed (id, items, notable) VALUES (@id::uuid, @items::bytea, @notable::boolean)
)
SELECT pg_notify('hub_outcomes', '');
