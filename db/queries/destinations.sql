-- Destinations: where events go, with limits and failure policy.

-- Served by the primary key.
-- name: DestinationsByID :many
SELECT * FROM destinations WHERE id = ANY(@ids::uuid[]);

-- Served by the unique key.
-- name: DestinationByURL :many
SELECT * FROM destinations WHERE tenant_id = @tenant_id AND kind = @kind AND url = @url;

-- Served by the unique key of (tenant_id, kind, url): a tenant has few.
-- name: DestinationPageOfTenant :many
SELECT * FROM destinations
WHERE tenant_id = @tenant_id AND id < @before
  AND (@kind::text = '' OR kind = @kind::text) AND (@url::text = '' OR url = @url::text)
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: DestinationPage :many
SELECT * FROM destinations
WHERE id < @before
  AND (@kind::text = '' OR kind = @kind::text) AND (@url::text = '' OR url = @url::text)
ORDER BY id DESC
LIMIT @page;

-- name: InsertDestination :exec
INSERT INTO destinations (id, tenant_id, kind, url, rate_limit, max_in_flight, failure_policy, created_at)
VALUES (@id, @tenant_id, @kind, @url, sqlc.narg('rate_limit'), sqlc.narg('max_in_flight'), @failure_policy, @created_at);

-- UpdateDestination is made under the tenant's lock.
-- name: UpdateDestination :exec
UPDATE destinations
SET rate_limit = sqlc.narg('rate_limit'), max_in_flight = sqlc.narg('max_in_flight'), failure_policy = @failure_policy,
    version = version + 1
WHERE id = @id;

-- Served by event_subscriptions_destination.
-- name: CountSubscriptions :one
SELECT count(*)::integer FROM event_subscriptions WHERE destination_id = @destination_id AND deleted_at IS NULL;

-- ClearSpan forgets the failures of a subscription in a row.
-- name: ClearSpan :exec
DELETE FROM failure_spans WHERE subscription_id = @subscription_id;

-- ForgetSpan does so too and tells whether there were any.
-- name: ForgetSpan :execrows
DELETE FROM failure_spans WHERE subscription_id = @subscription_id;

-- AddChores asks the data plane to bring the waiting deliveries of
-- subscriptions in line with them, lane by lane.
-- name: AddChores :exec
INSERT INTO lane_chores (id, tenant_id, subscription_id, destination_id)
SELECT gen_random_uuid(), @tenant_id::text, c.subscription_id, c.destination_id
FROM ROWS FROM (unnest(@subscription_ids::uuid[]), unnest(@destination_ids::uuid[])) AS c(subscription_id, destination_id);
