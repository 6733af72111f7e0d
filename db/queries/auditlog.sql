-- The audit log: append-only, written in the transaction of what it tells.

-- name: InsertAuditEntries :exec
INSERT INTO audit_log (id, tenant_id, actor_id, actor_name, action, object, before, after)
SELECT a.id, nullif(a.tenant_id, ''), nullif(a.actor_id, '00000000-0000-0000-0000-000000000000'::uuid),
  a.actor_name, a.action, a.object, nullif(a.before, 'null'::jsonb), nullif(a.after, 'null'::jsonb)
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@actor_ids::uuid[]), unnest(@actor_names::text[]),
  unnest(@actions::text[]), unnest(@objects::text[]), unnest(@befores::jsonb[]), unnest(@afters::jsonb[])
) AS a(id, tenant_id, actor_id, actor_name, action, object, before, after);

-- Served by audit_log_tenant.
-- name: AuditPageOfTenant :many
SELECT * FROM audit_log
WHERE tenant_id = @tenant_id::text AND id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: AuditPage :many
SELECT * FROM audit_log
WHERE id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key, in the partitions between lowest and highest.
-- name: AuditByID :many
SELECT * FROM audit_log
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest AND id <= @highest;
