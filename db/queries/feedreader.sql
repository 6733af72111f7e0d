-- The live feed's reading side. Rows count in the order (xid, id), and only
-- those below every transaction that still runs: whatever commits later is
-- greater than all that was read, so nothing is skipped.

-- FeedRows reads behind a position. Served by outcome_feed_order of each
-- partition.
-- name: FeedRows :many
SELECT xid::text AS commit_xid, id, items
FROM outcome_feed
WHERE (xid, id) > ((@after_xid::text)::xid8, @after_id::uuid)
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY outcome_feed.xid, outcome_feed.id
LIMIT @page;

-- NotableFeedRows is FeedRows for rows that tell of more than ordinary
-- outcomes. Served by outcome_feed_notable of each partition.
-- name: NotableFeedRows :many
SELECT xid::text AS commit_xid, id, items
FROM outcome_feed
WHERE notable AND (xid, id) > ((@after_xid::text)::xid8, @after_id::uuid)
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY outcome_feed.xid, outcome_feed.id
LIMIT @page;

-- name: RelayPlace :many
SELECT xid::text AS commit_xid, row_id FROM feed_relays WHERE name = @name;

-- MoveRelay notes how far the feed was relayed; it never goes back.
-- name: MoveRelay :exec
INSERT INTO feed_relays (name, xid, row_id, updated_at)
VALUES (@name, (@xid::text)::xid8, @row_id, now())
ON CONFLICT (name) DO UPDATE SET xid = excluded.xid, row_id = excluded.row_id, updated_at = now()
WHERE (feed_relays.xid, feed_relays.row_id) < (excluded.xid, excluded.row_id);

-- name: FeedSnapshot :one
SELECT pg_current_snapshot()::text AS snapshot;

-- FeedHas asks whether the row of a position is still kept. Served by
-- outcome_feed_order; the id prunes to one partition.
-- name: FeedHas :one
SELECT EXISTS (
  SELECT FROM outcome_feed WHERE xid = (@xid::text)::xid8 AND id = @id
) AS kept;
