-- Lane chores: the deliveries of a subscription in one lane are brought in
-- line with what became of it, some at a time.

-- LockChore takes a chore that nobody is at. There are few.
-- name: LockChore :many
SELECT * FROM lane_chores
WHERE not_before <= now()
ORDER BY id
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- ChoreFacts are what decides about the deliveries of a chore now.
-- name: ChoreFacts :many
SELECT (s.enabled AND s.verification_state = 'ACTIVE')::boolean AS deliverable, (s.deleted_at IS NOT NULL)::boolean AS deleted,
  s.destination_id, coalesce(r.state = 'FROZEN' AND (d.failure_policy->>'kind')::text = 'FAILURE_RATE', false)::boolean AS frozen
FROM event_subscriptions s
LEFT JOIN destinations d ON d.id = s.destination_id
LEFT JOIN failure_rates r ON r.destination_id = s.destination_id
WHERE s.id = @subscription_id;

-- LaneStretch walks what waits in a lane in its order, from a place on. Served
-- by the lane index.
-- name: LaneStretch :many
SELECT id, due_at, subscription_id
FROM delivery_queue
WHERE tenant_id = @tenant_id AND destination_id = @destination_id
  AND due_at >= @after_due::timestamptz AND due_at < 'infinity'
  AND (due_at, id) > (@after_due::timestamptz, @after_id::uuid)
ORDER BY due_at, id
LIMIT @most;

-- HeldStretch walks the held deliveries of a subscription. Served by the index
-- of those.
-- name: HeldStretch :many
SELECT id FROM delivery_queue
WHERE subscription_id = @subscription_id AND due_at = 'infinity' AND id > @after_id
ORDER BY id
LIMIT @most;

-- HoldDeliveries takes deliveries out of the lanes. A leased one is left to its
-- holder, who finds out itself.
-- name: HoldDeliveries :execrows
UPDATE delivery_queue q
SET due_at = 'infinity', last_at = NULL, leased_until = NULL, lease_token = NULL, alone = false
WHERE q.id = ANY(@ids::uuid[]) AND (q.leased_until IS NULL OR q.leased_until < now()) AND NOT q.test;

-- ResumeDeliveries puts held ones back, due now, into the lane of the
-- destination that their subscription has now; others only move.
-- name: ResumeDeliveries :execrows
UPDATE delivery_queue q
SET due_at = CASE WHEN q.due_at = 'infinity' THEN now() ELSE q.due_at END, destination_id = @destination_id
WHERE q.id = ANY(@ids::uuid[]) AND (q.leased_until IS NULL OR q.leased_until < now());

-- TakeDeliveries removes rows that nobody has a lease on; what it returns is
-- written as dead letters in the same transaction.
-- name: TakeDeliveries :many
DELETE FROM delivery_queue q
WHERE q.id = ANY(@ids::uuid[]) AND (q.leased_until IS NULL OR q.leased_until < now())
RETURNING q.id, q.tenant_id, q.destination_id, q.subscription_id, q.event_id, q.run, q.attempts, q.test, q.job_id;

-- EventNames are what the live feed tells of events. The bounds prune
-- partitions.
-- name: EventNames :many
SELECT id, event_type, source FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- name: MoveChore :exec
UPDATE lane_chores
SET round = @round, held = @held, after_due = @after_due::timestamptz, after_id = @after_id::uuid, not_before = now() + @rest::interval
WHERE id = @id;

-- name: EndChore :exec
DELETE FROM lane_chores WHERE id = @id;

-- StaleLasts are deliveries old enough to be past an age limit, whose last
-- attempt nobody has fixed: they waited behind an open circuit all the time.
-- Walked by id, that is by age. Served by the primary key.
-- name: StaleLasts :many
SELECT id, tenant_id, subscription_id, due_at, received_at, first_failed_at, run_attempts, job_id FROM delivery_queue
WHERE id > @after AND id < @before AND last_at IS NULL AND due_at < 'infinity'
ORDER BY id
LIMIT @most;

-- name: FixLasts :exec
UPDATE delivery_queue q
SET last_at = o.last_at
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@last_ats::timestamptz[])) AS o(id, last_at)
WHERE q.id = o.id AND q.last_at IS NULL AND q.due_at < 'infinity' AND (q.leased_until IS NULL OR q.leased_until < now());

-- DueInLane are deliveries that wait in a lane. Served by the lane index.
-- name: DueInLane :many
SELECT id FROM delivery_queue
WHERE tenant_id = @tenant_id AND destination_id = @destination_id AND due_at < 'infinity'
  AND (leased_until IS NULL OR leased_until < now()) AND NOT test
ORDER BY due_at
LIMIT @most;

-- HeldTooLong are held deliveries of a subscription that wait since before a
-- moment. Served by the index of held ones.
-- name: HeldTooLong :many
SELECT id FROM delivery_queue
WHERE subscription_id = @subscription_id AND due_at = 'infinity' AND id < @made_before
  AND coalesce(first_failed_at, received_at) <= @waiting_since::timestamptz
ORDER BY id
LIMIT @most;

-- WaitingTooLong are the oldest deliveries, made before a moment. Served by the
-- primary key.
-- name: WaitingTooLong :many
SELECT id FROM delivery_queue
WHERE id < @made_before AND (leased_until IS NULL OR leased_until < now())
ORDER BY id
LIMIT @most;
