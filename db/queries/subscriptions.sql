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
  verification_state, retry_policy, timeout_ms, created_at, updated_at)
VALUES (
  @id, @tenant_id, @name, @description, sqlc.narg('origin'), @event_types, sqlc.narg('schema_major'), @destination_id, @kind,
  @verification_state, @retry_policy, @timeout_ms, @created_at, @created_at);

-- SetVerification records what a probe found, if the subscription still is
-- what was probed. revive also enables it: the
-- caller asks so, under the tenant's lock, for what the hub itself disabled. The version stays: it counts people's changes.
-- name: SetVerification :execrows
UPDATE event_subscriptions s
SET verification_state = @state, verification_error = @error, updated_at = @now::timestamptz,
    enabled = s.enabled OR @revive::boolean,
    disabled_reason = CASE WHEN @revive THEN '' ELSE s.disabled_reason END,
    disabled_at = CASE WHEN @revive THEN NULL ELSE s.disabled_at END,
    disabled_by = CASE WHEN @revive THEN NULL ELSE s.disabled_by END
WHERE s.id = @id AND s.version = @version AND s.destination_id = @destination_id;

-- Served by the primary key.
-- name: SubscriptionsByID :many
SELECT * FROM event_subscriptions WHERE id = ANY(@ids::uuid[]);

-- Served by event_subscriptions_tenant.
-- name: SubscriptionPageOfTenant :many
SELECT * FROM event_subscriptions
WHERE tenant_id = @tenant_id AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: SubscriptionPage :many
SELECT * FROM event_subscriptions
WHERE id < @before
ORDER BY id DESC
LIMIT @page;
