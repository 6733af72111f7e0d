-- Destinations and the secrets that sign for them.

-- Served by the primary key.
-- name: DestinationsByID :many
SELECT * FROM destinations WHERE id = ANY(@ids::uuid[]);

-- Served by the unique key.
-- name: DestinationByURL :many
SELECT * FROM destinations WHERE tenant_id = @tenant_id AND kind = @kind AND url = @url;

-- name: InsertDestination :exec
INSERT INTO destinations (id, tenant_id, kind, url, created_at)
VALUES (@id, @tenant_id, @kind, @url, @created_at);

-- name: InsertSecret :exec
INSERT INTO destination_secrets (
  id, tenant_id, destination_id, version, key_id, wrapped_key, ciphertext, created_at)
VALUES (@id, @tenant_id, @destination_id, @version, @key_id, @wrapped_key, @ciphertext, @created_at);

-- Those that sign now, newest first. Served by the unique key.
-- name: SecretsOfDestination :many
SELECT * FROM destination_secrets
WHERE destination_id = @destination_id AND (not_after IS NULL OR not_after > now())
ORDER BY version DESC;
