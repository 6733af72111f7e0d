-- Answers to calls that a caller named by an idempotency key, and the calls
-- under way. Ages are by the database clock.

-- ClaimKey takes a key for a call: a new one, one that is forgotten, or that of
-- a call that changed nothing and whose process is gone. No row when another
-- call has it. Served by the primary key.
-- name: ClaimKey :many
INSERT INTO idempotency_keys AS k (actor_id, tenant_id, key, operation, request_hash, id, created_at)
VALUES (@actor_id, @tenant_id, @key, @operation, @request_hash, @id, now())
ON CONFLICT (actor_id, tenant_id, key) DO UPDATE
SET operation = excluded.operation, request_hash = excluded.request_hash, id = excluded.id, created_at = excluded.created_at,
    ran = false, key_id = NULL, wrapped_key = NULL, answer = NULL
WHERE k.created_at < now() - @kept_for::interval
   OR k.answer IS NULL AND NOT k.ran AND k.created_at < now() - @lease::interval
RETURNING id;

-- Served by the primary key.
-- name: KeyedCall :many
SELECT request_hash, id, ran, key_id, wrapped_key, answer, (created_at < now() - @lease::interval)::boolean AS over
FROM idempotency_keys
WHERE actor_id = @actor_id AND tenant_id = @tenant_id AND key = @key;

-- MarkRan is part of the transaction in which the call changes something.
-- name: MarkRan :execrows
UPDATE idempotency_keys SET ran = true
WHERE actor_id = @actor_id AND tenant_id = @tenant_id AND key = @key AND id = @id;

-- name: KeepAnswer :execrows
UPDATE idempotency_keys SET key_id = sqlc.narg('key_id'), wrapped_key = sqlc.narg('wrapped_key'), answer = @answer
WHERE actor_id = @actor_id AND tenant_id = @tenant_id AND key = @key AND id = @id;

-- ReleaseKey forgets a call that has changed nothing.
-- name: ReleaseKey :exec
DELETE FROM idempotency_keys
WHERE actor_id = @actor_id AND tenant_id = @tenant_id AND key = @key AND id = @id AND NOT ran AND answer IS NULL;

-- Served by idempotency_keys_created.
-- name: ForgetKeys :execrows
DELETE FROM idempotency_keys
WHERE (actor_id, tenant_id, key) IN (
  SELECT f.actor_id, f.tenant_id, f.key FROM idempotency_keys f
  WHERE f.created_at < @before ORDER BY f.created_at LIMIT @batch
);
