-- What the failure policies know, as the API lists it: the spans of event
-- subscriptions, the subscriptions made last first, and the rates of
-- destinations.

-- Served by the primary key.
-- name: SpansByID :many
SELECT * FROM failure_spans WHERE subscription_id = ANY(@ids::uuid[]);

-- Served by failure_spans_tenant.
-- name: SpanPageOfTenant :many
SELECT * FROM failure_spans
WHERE tenant_id = @tenant_id AND subscription_id < @before
ORDER BY subscription_id DESC
LIMIT @page;

-- Served by the primary key.
-- name: SpanPage :many
SELECT * FROM failure_spans
WHERE subscription_id < @before
ORDER BY subscription_id DESC
LIMIT @page;

-- SpanPageOfDestination reads the subscriptions that share a destination, which
-- are few. Served by event_subscriptions_destination and the primary key.
-- name: SpanPageOfDestination :many
SELECT f.* FROM event_subscriptions s
JOIN failure_spans f ON f.subscription_id = s.id
WHERE s.destination_id = @destination_id AND s.id < @before
ORDER BY s.id DESC
LIMIT @page;

-- Served by the primary key.
-- name: RatesByID :many
SELECT * FROM failure_rates WHERE destination_id = ANY(@ids::uuid[]);
