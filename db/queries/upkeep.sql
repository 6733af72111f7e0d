-- name: EnsurePartitions :one
SELECT hub_ensure_partitions(now() + @ahead::interval)::integer AS made;

-- name: DropPartitions :one
SELECT hub_drop_partitions(@parent::text, now() - @keep::interval)::integer AS dropped;
