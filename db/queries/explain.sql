-- Which deliveries some events have.

-- Served by deliveries_event; a condition on the subscription beside it would
-- tempt the planner to read a subscription's whole history. The lowest id
-- prunes the partitions before the events; a backfill can make a delivery at
-- any time after.
-- name: BirthsOfEvents :many
SELECT * FROM deliveries
WHERE event_id = ANY(@event_ids::uuid[]) AND id >= @lowest;
