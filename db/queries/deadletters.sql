-- Dead letters as the API lists them. A page walks ends downwards by id in
-- chunks and looks up by key whether each delivery still stands at that end,
-- so that its cost is bounded by the chunks, whatever was redelivered since.
-- What else a filter asks for is judged outside: a condition here would make
-- the walk as long as the history.

-- Served by delivery_results_tenant, the newest partition first.
-- name: DeadEndsOfTenant :many
SELECT id, delivery_id, run, state, dead_reason, test FROM delivery_results
WHERE tenant_id = @tenant_id AND id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key, the newest partition first.
-- name: DeadEnds :many
SELECT id, delivery_id, run, state, dead_reason, test FROM delivery_results
WHERE id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- Of one cause, which is one of a destination and so of a tenant. Served by the
-- index of delivery_results by fingerprint and id, the newest partition first.
-- name: DeadEndsOfCause :many
SELECT id, delivery_id, run, state, dead_reason, test FROM delivery_results
WHERE fingerprint = @fingerprint::bytea AND id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key. The bounds prune partitions, which the list alone
-- does not.
-- name: EventTypesByID :many
SELECT id, event_type FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;
