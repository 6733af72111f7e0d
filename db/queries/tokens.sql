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

-- RevokeToken keeps the first revocation.
-- name: RevokeToken :execrows
UPDATE api_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = @id;
