-- Secrets at rest: those that sign, and what destinations ask beside that.

-- name: InsertSecret :exec
INSERT INTO destination_secrets (
  id, tenant_id, destination_id, version, key_id, wrapped_key, ciphertext, created_at, not_after)
VALUES (@id, @tenant_id, @destination_id, @version, @key_id, @wrapped_key, @ciphertext, @created_at, sqlc.narg('not_after'));

-- Those that sign now, newest first. Served by the unique key.
-- name: SecretsOfDestination :many
SELECT * FROM destination_secrets
WHERE destination_id = @destination_id AND (not_after IS NULL OR not_after > now())
ORDER BY version DESC;

-- Those that sign now, newest first. Served by the unique key.
-- name: SigningKeys :many
SELECT destination_id, version, created_at, not_after FROM destination_secrets
WHERE destination_id = ANY(@destination_ids::uuid[]) AND (not_after IS NULL OR not_after > now())
ORDER BY destination_id, version DESC;

-- EndSecret sets the end of a secret's overlap.
-- name: EndSecret :exec
UPDATE destination_secrets SET not_after = @not_after::timestamptz
WHERE destination_id = @destination_id AND version = @version AND not_after IS DISTINCT FROM @not_after::timestamptz;

-- DropSecrets removes the secrets of a destination but those named: what was
-- revoked or has ended is not kept.
-- name: DropSecrets :exec
DELETE FROM destination_secrets WHERE destination_id = @destination_id AND version <> ALL(@kept::integer[]);

-- Served by the unique key.
-- name: CredentialsOfDestinations :many
SELECT * FROM destination_credentials
WHERE destination_id = ANY(@destination_ids::uuid[])
ORDER BY destination_id, slot;

-- name: DropCredential :exec
DELETE FROM destination_credentials WHERE destination_id = @destination_id AND slot = @slot;

-- name: InsertCredential :exec
INSERT INTO destination_credentials (
  id, tenant_id, destination_id, slot, kind, name, certificate, version, key_id, wrapped_key, ciphertext, created_at)
VALUES (
  @id, @tenant_id, @destination_id, @slot, @kind, @name, @certificate, @version, @key_id, @wrapped_key, @ciphertext, @created_at);

-- KeyUse counts what each key-encryption key wraps. It reads both tables: for
-- people who ask, not for a metric.
-- name: KeyUse :many
SELECT key_id, count(*) FILTER (WHERE kind = 'S')::bigint AS signing_secrets, count(*) FILTER (WHERE kind = 'C')::bigint AS credentials
FROM (
  SELECT key_id, 'S' AS kind FROM destination_secrets
  UNION ALL
  SELECT key_id, 'C' FROM destination_credentials
) used
GROUP BY key_id
ORDER BY key_id;

-- A part of what other keys than the given one wrap, by id. Served by the
-- primary key.
-- name: SecretsToRewrap :many
SELECT id, tenant_id, version, key_id, wrapped_key, ciphertext FROM destination_secrets
WHERE id > @after AND key_id <> @key_id
ORDER BY id
LIMIT @batch;

-- name: CredentialsToRewrap :many
SELECT id, tenant_id, version, key_id, wrapped_key, ciphertext FROM destination_credentials
WHERE id > @after AND key_id <> @key_id
ORDER BY id
LIMIT @batch;

-- RewrapSecrets moves those that still are what was read.
-- name: RewrapSecrets :execrows
UPDATE destination_secrets s
SET key_id = n.key_id, wrapped_key = n.wrapped_key
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@old_key_ids::text[]), unnest(@old_wrapped_keys::bytea[]),
  unnest(@key_ids::text[]), unnest(@wrapped_keys::bytea[])
) AS n(id, old_key_id, old_wrapped_key, key_id, wrapped_key)
WHERE s.id = n.id AND s.key_id = n.old_key_id AND s.wrapped_key = n.old_wrapped_key;

-- name: RewrapCredentials :execrows
UPDATE destination_credentials s
SET key_id = n.key_id, wrapped_key = n.wrapped_key
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@old_key_ids::text[]), unnest(@old_wrapped_keys::bytea[]),
  unnest(@key_ids::text[]), unnest(@wrapped_keys::bytea[])
) AS n(id, old_key_id, old_wrapped_key, key_id, wrapped_key)
WHERE s.id = n.id AND s.key_id = n.old_key_id AND s.wrapped_key = n.old_wrapped_key;
