-- API tokens.

-- name: InsertToken :exec
INSERT INTO api_tokens (id, tenant_id, name, role, hash, created_at, expires_at)
VALUES (@id, sqlc.narg('tenant_id'), @name, @role, @hash, @created_at, sqlc.narg('expires_at'));

-- Served by the primary key.
-- name: TokenByID :many
SELECT * FROM api_tokens WHERE id = @id;

-- name: ListTokens :many
SELECT * FROM api_tokens
WHERE sqlc.narg('tenant_id')::text IS NULL OR tenant_id = sqlc.narg('tenant_id')
ORDER BY id DESC
LIMIT 1000;

-- Served by the primary key.
-- name: TokensByID :many
SELECT * FROM api_tokens WHERE id = ANY(@ids::uuid[]);

-- Served by api_tokens_tenant.
-- name: TokenPageOfTenant :many
SELECT * FROM api_tokens
WHERE tenant_id = @tenant_id::text AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: TokenPage :many
SELECT * FROM api_tokens
WHERE id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: LockToken :many
SELECT * FROM api_tokens WHERE id = @id FOR UPDATE;

-- name: RevokeToken :one
UPDATE api_tokens SET revoked_at = now() WHERE id = @id
RETURNING *;
