-- Which of some events' deliveries go to which of some subscriptions.

-- Served by deliveries_event. The lowest id prunes the partitions before the
-- events; a backfill can make a delivery at any time after.
-- name: BirthsOfPairs :many
SELECT * FROM deliveries
WHERE event_id = ANY(@event_ids::uuid[]) AND subscription_id = ANY(@subscription_ids::uuid[]) AND id >= @lowest;
