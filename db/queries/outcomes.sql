-- RecordOutcomes writes a flush of outcomes in one statement: fenced removal
-- of what is settled, fenced rescheduling of what goes on, then attempts, ends
-- without success and the feed, each only for rows whose token still held.
-- It returns the deliveries that were recorded; the rest had lost their lease.
-- name: RecordOutcomes :many
WITH outcome AS (
  SELECT * FROM ROWS FROM (
    unnest(@delivery_ids::uuid[]), unnest(@lease_tokens::bigint[]), unnest(@attempt_ids::uuid[]),
    unnest(@tenant_ids::text[]), unnest(@event_ids::uuid[]), unnest(@subscription_ids::uuid[]),
    unnest(@destination_ids::uuid[]), unnest(@runs::integer[]), unnest(@numbers::integer[]),
    unnest(@started_ats::timestamptz[]), unnest(@total_us::integer[]), unnest(@statuses::integer[]),
    unnest(@error_classes::text[]), unnest(@states::text[]), unnest(@dead_reasons::text[]),
    unnest(@next_ats::timestamptz[]), unnest(@run_attempts::integer[]), unnest(@last_errors::text[]),
    unnest(@details::bytea[]), unnest(@feed_items::bytea[])
  ) AS o(delivery_id, lease_token, attempt_id, tenant_id, event_id, subscription_id,
    destination_id, run, number, started_at, total_us, status, error_class, state, dead_reason,
    next_at, run_attempts, last_error, detail, feed_item)
), settled AS (
  DELETE FROM delivery_queue q
  WHERE q.id = ANY(@settled_ids::uuid[]) AND q.lease_token = ANY(@settled_tokens::bigint[])
  RETURNING q.id, q.lease_token
), rescheduled AS (
  UPDATE delivery_queue q
  SET due_at = o.next_at, attempts = o.number, run_attempts = o.run_attempts, reclaims = 0,
      first_failed_at = coalesce(q.first_failed_at, o.started_at),
      leased_until = NULL, lease_token = NULL
  FROM outcome o
  WHERE o.state = 'WAITING' AND q.id = o.delivery_id AND q.lease_token = o.lease_token
  RETURNING q.id, o.lease_token
), recorded AS (
  SELECT o.*
  FROM (SELECT id, lease_token FROM settled UNION ALL SELECT id, lease_token FROM rescheduled) held
  JOIN outcome o ON o.delivery_id = held.id AND o.lease_token = held.lease_token
), history AS (
  INSERT INTO attempts (
    id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number,
    started_at, total_us, status, error_class, state, next_at, detail)
  SELECT attempt_id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number,
    started_at, total_us, status, error_class, state,
    CASE WHEN state = 'WAITING' THEN next_at END, detail
  FROM recorded
), ended AS (
  INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason, last_error)
  SELECT attempt_id, tenant_id, delivery_id, run, state, dead_reason, last_error
  FROM recorded WHERE state = 'DEAD'
), feed AS (
  INSERT INTO outcome_feed (id, items)
  SELECT @feed_id::uuid, string_agg(feed_item, '\x0a'::bytea) FROM recorded HAVING count(*) > 0
)
SELECT delivery_id::uuid AS delivery_id FROM recorded;

-- NotifyOutcomes wakes the feed readers. The notification carries nothing:
-- readers look at the table, so a lost one costs a fallback poll.
-- name: NotifyOutcomes :exec
SELECT pg_notify('hub_outcomes', '');
