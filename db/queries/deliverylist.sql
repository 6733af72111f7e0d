-- Deliveries as the API lists them. A page walks birth rows downwards by id in
-- chunks and looks up queue, results and attempts of a chunk by key, so that
-- its cost is bounded by the chunks and not by the history. Bounds on the
-- partition key prune partitions, which a list of keys alone does not.

-- Served by deliveries_tenant, the newest partition first.
-- name: BirthsOfTenant :many
SELECT * FROM deliveries
WHERE tenant_id = @tenant_id AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by deliveries_subscription, the newest partition first.
-- name: BirthsOfSubscription :many
SELECT * FROM deliveries
WHERE subscription_id = @subscription_id AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by deliveries_event. An event has at most one delivery for each
-- subscription of its tenant.
-- name: BirthsOfEvent :many
SELECT * FROM deliveries
WHERE event_id = @event_id AND id >= @lowest AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key, the newest partition first.
-- name: Births :many
SELECT * FROM deliveries
WHERE id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: BirthsByID :many
SELECT * FROM deliveries
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- Served by delivery_results_tenant, the newest partition first.
-- name: EndsOfTenant :many
SELECT id, delivery_id, run, state FROM delivery_results
WHERE tenant_id = @tenant_id AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key, the newest partition first.
-- name: Ends :many
SELECT id, delivery_id, run, state FROM delivery_results
WHERE id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: QueuedByID :many
SELECT id, destination_id, run, attempts, run_attempts, received_at, first_failed_at, last_at, test, job_id,
  coalesce(leased_until > now(), false)::boolean AS leased,
  (due_at = 'infinity')::boolean AS held,
  (CASE WHEN due_at = 'infinity' THEN now() ELSE due_at END)::timestamptz AS due_at
FROM delivery_queue
WHERE id = ANY(@ids::uuid[]);

-- The end of the highest run of each. Served by delivery_results_delivery, one
-- probe for each id and partition. With a list of ids instead of the join, or a
-- plain lower bound, the planner reads small partitions whole, by the primary
-- key from lowest on; written as it is, the bound prunes partitions all the same.
-- name: LastEnds :many
SELECT e.id, e.delivery_id, e.run, e.state, e.dead_reason, e.last_error, e.fingerprint
FROM unnest(@delivery_ids::uuid[]) AS d(id)
CROSS JOIN LATERAL (
  SELECT * FROM delivery_results r
  WHERE r.delivery_id = d.id AND (r.id >= @lowest OR r.id = @lowest)
  ORDER BY r.run DESC, r.id DESC
  LIMIT 1
) e;

-- The last attempt of each, without its detail. Served by attempts_delivery.
-- name: LastAttemptHeads :many
SELECT DISTINCT ON (delivery_id) delivery_id, destination_id, run, number, started_at, total_us, state
FROM attempts
WHERE delivery_id = ANY(@delivery_ids::uuid[]) AND id >= @lowest
ORDER BY delivery_id, number DESC, id DESC;

-- name: LastAttempts :many
SELECT DISTINCT ON (delivery_id) *
FROM attempts
WHERE delivery_id = ANY(@delivery_ids::uuid[]) AND id >= @lowest
ORDER BY delivery_id, number DESC, id DESC;

-- The newest hundred of each. Served by attempts_delivery.
-- name: AttemptsOfDeliveries :many
SELECT a.*
FROM unnest(@delivery_ids::uuid[]) AS d(id)
CROSS JOIN LATERAL (
  SELECT * FROM attempts
  WHERE attempts.delivery_id = d.id AND attempts.id >= @lowest
  ORDER BY number DESC
  LIMIT 100
) a
ORDER BY a.delivery_id, a.number;

-- How the destinations of attempts ask the hub to authorize itself, without the
-- secret. Served by the unique key.
-- name: AuthorizationsOfDestinations :many
SELECT destination_id, kind, name FROM destination_credentials
WHERE destination_id = ANY(@destination_ids::uuid[]) AND slot = 'AUTHORIZATION';
