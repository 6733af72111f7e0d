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

-- name: FeedSnapshot :one
SELECT pg_current_snapshot()::text AS snapshot;

-- FeedHas asks whether the row of a position is still kept. Served by
-- outcome_feed_order; the id prunes to one partition.
-- name: FeedHas :one
SELECT EXISTS (
  SELECT FROM outcome_feed WHERE xid = (@xid::text)::xid8 AND id = @id
) AS kept;
