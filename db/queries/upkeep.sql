-- name: EnsurePartitions :one
SELECT hub_ensure_partitions(now() + @ahead::interval)::integer AS made;
