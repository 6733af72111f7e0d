-- What ingest and dispatch know of tenants, read as one version.

-- ConfigVersions is asked again and again to find what changed.
-- name: ConfigVersions :many
SELECT tenant_id, config_version
FROM tenant_counters
WHERE tenant_id = ANY(@tenant_ids::text[]);

-- Deleted ones are not known to the data plane. Served by
-- event_subscriptions_tenant.
-- name: SubscriptionsOfTenants :many
SELECT * FROM event_subscriptions
WHERE tenant_id = ANY(@tenant_ids::text[]) AND deleted_at IS NULL
ORDER BY tenant_id, id;

-- name: DestinationsOfTenants :many
SELECT * FROM destinations
WHERE tenant_id = ANY(@tenant_ids::text[]);

-- SecretsOfTenants are those that sign now: the current one and old ones
-- inside their overlap, newest first.
-- name: SecretsOfTenants :many
SELECT s.*
FROM destinations d
JOIN destination_secrets s ON s.destination_id = d.id
WHERE d.tenant_id = ANY(@tenant_ids::text[]) AND (s.not_after IS NULL OR s.not_after > now())
ORDER BY s.destination_id, s.version DESC;

-- Served by the unique key of each destination.
-- name: CredentialsOfTenants :many
SELECT c.*
FROM destinations d
JOIN destination_credentials c ON c.destination_id = d.id
WHERE d.tenant_id = ANY(@tenant_ids::text[])
ORDER BY c.destination_id, c.slot;
