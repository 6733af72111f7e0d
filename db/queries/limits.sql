-- What replicas share out of the limits of a destination. Rows are locked in the
-- order of their keys.

-- name: EnsureLimits :exec
INSERT INTO destination_limits (destination_id, tenant_id, free_at)
SELECT asked.destination_id, asked.tenant_id, clock_timestamp()
FROM ROWS FROM (unnest(@destination_ids::uuid[]), unnest(@tenant_ids::text[])) AS asked(destination_id, tenant_id)
ON CONFLICT DO NOTHING;

-- name: LockLimits :many
SELECT l.destination_id, (extract(epoch FROM l.free_at - clock_timestamp()) * 1000000)::bigint AS free_in_us
FROM destination_limits l
WHERE l.destination_id = ANY(@destination_ids::uuid[])
ORDER BY l.destination_id
FOR UPDATE;

-- SlotsOf are the shares that count: those of processes that are alive.
-- name: SlotsOf :many
SELECT destination_id, holder, slots, wanted FROM destination_slots
WHERE destination_id = ANY(@destination_ids::uuid[]) AND expires_at > clock_timestamp();

-- name: SetLimit :exec
UPDATE destination_limits SET free_at = clock_timestamp() + @free_in::interval
WHERE destination_id = @destination_id;

-- name: SetSlots :exec
INSERT INTO destination_slots (destination_id, holder, tenant_id, slots, wanted, expires_at)
VALUES (@destination_id, @holder, @tenant_id, @slots, @wanted, clock_timestamp() + @ttl::interval)
ON CONFLICT (destination_id, holder) DO UPDATE
SET slots = excluded.slots, wanted = excluded.wanted, expires_at = excluded.expires_at;

-- ForgetSlots removes what dead processes held.
-- name: ForgetSlots :exec
DELETE FROM destination_slots WHERE expires_at < now() - interval '1 hour';
