-- A fresh run of a settled delivery, in one transaction: its birth row is
-- locked, where it stands is read under that lock, and a queue row is made
-- anew under the same id.

-- LockDelivery makes everybody who asks for a run of a delivery wait for the
-- one before. The data plane never locks birth rows, so nobody else waits.
-- Served by the primary key.
-- name: LockDelivery :many
SELECT * FROM deliveries
WHERE id = @id
FOR UPDATE;

-- InsertRun makes the queue row of a run, due at once, its age counted from
-- now. It finds a row only when the delivery is unfinished.
-- name: InsertRun :execrows
INSERT INTO delivery_queue (
  id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, run, attempts, body_bytes)
VALUES (
  @id, @tenant_id, @destination_id, @subscription_id, @event_id, now(), now(), @run, @attempts, @body_bytes)
ON CONFLICT (id) DO NOTHING;

-- ActionOn counts what was done to an object since then, at most one. Served
-- by audit_log_tenant.
-- name: ActionOn :one
SELECT count(*) FROM (
  SELECT FROM audit_log
  WHERE tenant_id = @tenant_id::text AND id >= @since AND action = @action AND object = @object
  LIMIT 1
) found;
