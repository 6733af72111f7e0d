-- Event subscriptions as the API makes and shows them. Every change happens
-- under the tenant's counter row (LockTenants) and bumps its config_version.

-- name: BumpConfigVersion :exec
UPDATE tenant_counters SET config_version = config_version + 1 WHERE tenant_id = @tenant_id;

-- NotifyConfig wakes the data planes; a lost notification costs a poll.
-- name: NotifyConfig :exec
SELECT pg_notify('hub_config', @tenant_id::text);

-- name: InsertSubscription :exec
INSERT INTO event_subscriptions (
  id, tenant_id, name, description, origin, event_types, schema_major, destination_id, kind,
  verification_state, retry_policy, timeout_ms, headers, disable_on_gone, created_at, updated_at)
VALUES (
  @id, @tenant_id, @name, @description, sqlc.narg('origin'), @event_types, sqlc.narg('schema_major'), @destination_id, @kind,
  @verification_state, @retry_policy, @timeout_ms, @headers, @disable_on_gone, @created_at, @created_at);

-- LockSubscription keeps others from changing a subscription that is about to
-- be written as a whole. The tenant's row is locked before. Served by the
-- primary key.
-- name: LockSubscription :many
SELECT * FROM event_subscriptions
WHERE id = @id AND tenant_id = @tenant_id
FOR UPDATE;

-- UpdateSubscription writes everything that can change of a locked one.
-- name: UpdateSubscription :exec
UPDATE event_subscriptions
SET name = @name, description = @description, origin = sqlc.narg('origin'), event_types = @event_types,
    schema_major = sqlc.narg('schema_major'), destination_id = @destination_id,
    enabled = @enabled, disabled_by = sqlc.narg('disabled_by'), disabled_reason = @disabled_reason, disabled_at = sqlc.narg('disabled_at'),
    verification_state = @verification_state, verification_error = @verification_error,
    retry_policy = @retry_policy, timeout_ms = @timeout_ms, headers = @headers, disable_on_gone = @disable_on_gone,
    deleted_at = sqlc.narg('deleted_at'), version = @version, updated_at = @updated_at
WHERE id = @id;

-- UnverifyOthers asks for a new verification of every subscription of a
-- destination but one, and tells which of them got deliveries until now.
-- Served by event_subscriptions_destination.
-- name: UnverifyOthers :many
UPDATE event_subscriptions s
SET verification_state = 'PENDING', verification_error = '', updated_at = @now::timestamptz
FROM (
  SELECT o.id, (o.enabled AND o.verification_state = 'ACTIVE')::boolean AS deliverable
  FROM event_subscriptions o
  WHERE o.destination_id = @destination_id AND o.id <> @but AND o.deleted_at IS NULL AND o.verification_state <> 'PENDING'
  ORDER BY o.id
  FOR UPDATE
) was
WHERE s.id = was.id
RETURNING s.id, was.deliverable;

-- Those that exist still. Served by event_subscriptions_destination.
-- name: SubscriptionsOfDestination :many
SELECT * FROM event_subscriptions
WHERE destination_id = @destination_id AND deleted_at IS NULL
ORDER BY id;

-- Deleted ones too, so that history can name them. Served by the primary key.
-- name: SubscriptionsByID :many
SELECT * FROM event_subscriptions WHERE id = ANY(@ids::uuid[]);

-- Served by event_subscriptions_tenant.
-- name: SubscriptionPageOfTenant :many
SELECT * FROM event_subscriptions
WHERE tenant_id = @tenant_id AND id < @before AND deleted_at IS NULL
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: SubscriptionPage :many
SELECT * FROM event_subscriptions
WHERE id < @before AND deleted_at IS NULL
ORDER BY id DESC
LIMIT @page;
