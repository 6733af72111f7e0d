-- Circuit breakers as the API lists them, the destinations made last first.
-- Rows are few: what is healthy has none. What else a filter asks for is judged
-- outside, so that a page reads a bounded number of rows.

-- Served by the primary key.
-- name: BreakersByID :many
SELECT * FROM circuit_breakers WHERE destination_id = ANY(@ids::uuid[]);

-- Served by circuit_breakers_tenant.
-- name: BreakerPageOfTenant :many
SELECT * FROM circuit_breakers
WHERE tenant_id = @tenant_id AND destination_id < @before
ORDER BY destination_id DESC
LIMIT @page;

-- Served by the primary key.
-- name: BreakerPage :many
SELECT * FROM circuit_breakers
WHERE destination_id < @before
ORDER BY destination_id DESC
LIMIT @page;

-- GatesByID reads what else can make a destination's deliveries wait. Served by
-- the primary keys and the unique key of the secrets.
-- name: GatesByID :many
SELECT d.id,
  (l.free_at IS NOT NULL)::boolean AS limited,
  coalesce(l.free_at, now())::timestamptz AS free_at,
  ARRAY(
    SELECT s.key_id FROM destination_secrets s
    WHERE s.destination_id = d.id AND (s.not_after IS NULL OR s.not_after > now())
  )::text[] AS key_ids
FROM destinations d
LEFT JOIN destination_limits l ON l.destination_id = d.id
WHERE d.id = ANY(@ids::uuid[]);
