-- Replay jobs as the API makes and shows them, and what outcomes do to their
-- items.

-- name: InsertReplayJob :exec
INSERT INTO replay_jobs (
  id, tenant_id, kind, state, wanted, rate_per_second, canary, pause_above_percent,
  created_by, created_by_name, created_at)
VALUES (
  @id, @tenant_id, @kind, 'PREVIEWING', @wanted, @rate_per_second, @canary, @pause_above_percent,
  @created_by, @created_by_name, @created_at);

-- Served by the primary key.
-- name: ReplayJobsByID :many
SELECT * FROM replay_jobs WHERE id = ANY(@ids::uuid[]);

-- Served by replay_jobs_tenant.
-- name: ReplayJobPageOfTenant :many
SELECT * FROM replay_jobs
WHERE tenant_id = @tenant_id AND id < @before
ORDER BY id DESC
LIMIT @page;

-- Served by the primary key.
-- name: ReplayJobPage :many
SELECT * FROM replay_jobs
WHERE id < @before
ORDER BY id DESC
LIMIT @page;

-- What outcomes have counted, of all tenants. Served by the primary key.
-- name: ReplayProgressOf :many
SELECT job_id, sum(tried)::bigint AS tried, sum(failed)::bigint AS failed,
  sum(delivered)::bigint AS delivered, sum(dead)::bigint AS dead
FROM replay_progress
WHERE job_id = ANY(@job_ids::uuid[])
GROUP BY job_id;

-- Those that the data plane has to do something about; of previews that wait to
-- be started, those that have waited too long. Served by replay_jobs_active.
-- name: ActiveReplayJobs :many
SELECT id, state, created_at FROM replay_jobs
WHERE state IN ('PREVIEWING', 'READY', 'RUNNING')
  AND (state <> 'READY' OR created_at <= now() - @ready_for::interval)
ORDER BY id
LIMIT @most;

-- LockReplayJob waits for whoever is at the job. Served by the primary key.
-- name: LockReplayJob :many
SELECT sqlc.embed(j), now()::timestamptz AS locked_at FROM replay_jobs j
WHERE j.id = @id AND j.tenant_id = @tenant_id
FOR UPDATE;

-- TryReplayJob finds no job while somebody else is at it. Served by the primary
-- key.
-- name: TryReplayJob :many
SELECT sqlc.embed(j), now()::timestamptz AS locked_at FROM replay_jobs j
WHERE j.id = @id
FOR UPDATE SKIP LOCKED;

-- UpdateReplayJob writes what people and the runner change of a locked job.
-- name: UpdateReplayJob :exec
UPDATE replay_jobs
SET state = @state, version = @version, rate_per_second = @rate_per_second, canary = @canary, pause_above_percent = @pause_above_percent,
    next_ordinal = @next_ordinal, released = @released, skipped = @skipped,
    paced_to = sqlc.narg('paced_to'), told = @told, canary_passed = @canary_passed,
    judged_tried = @judged_tried, judged_failed = @judged_failed,
    paused_by = sqlc.narg('paused_by'), reason = @reason,
    previewed_at = sqlc.narg('previewed_at'), started_at = sqlc.narg('started_at'), finished_at = sqlc.narg('finished_at')
WHERE id = @id;

-- MoveReplayItems takes the items of recorded outcomes a step further and
-- counts them. Whoever does holds the queue rows of their deliveries, so nobody
-- else moves them. Progress is locked in the order of jobs and tenants. Served
-- by the primary key of the items.
-- name: MoveReplayItems :exec
WITH outcome AS (
  SELECT i.job_id, i.tenant_id, i.delivery_id, i.state AS was, o.state
  FROM ROWS FROM (unnest(@job_ids::uuid[]), unnest(@delivery_ids::uuid[]), unnest(@states::text[])) AS o(job_id, delivery_id, state)
  JOIN replay_items i ON i.job_id = o.job_id AND i.delivery_id = o.delivery_id
  WHERE i.state IN ('RELEASED', 'FAILING') AND i.state <> o.state
), moved AS (
  UPDATE replay_items i SET state = outcome.state
  FROM outcome
  WHERE i.job_id = outcome.job_id AND i.delivery_id = outcome.delivery_id
)
INSERT INTO replay_progress AS p (job_id, tenant_id, tried, failed, delivered, dead)
SELECT job_id, tenant_id, count(*) FILTER (WHERE was = 'RELEASED'),
  count(*) FILTER (WHERE was = 'RELEASED' AND state <> 'DELIVERED'),
  count(*) FILTER (WHERE state = 'DELIVERED'), count(*) FILTER (WHERE state = 'DEAD')
FROM outcome
GROUP BY job_id, tenant_id
ORDER BY job_id, tenant_id
ON CONFLICT (job_id, tenant_id) DO UPDATE
SET tried = p.tried + excluded.tried, failed = p.failed + excluded.failed,
    delivered = p.delivered + excluded.delivered, dead = p.dead + excluded.dead;
