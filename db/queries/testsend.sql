-- Test sends: an event that nobody published, for one subscription.

-- InsertTestEvent makes an event outside the tenant's sequence, its delivery
-- and its place in the queue: due at once, one attempt, outside health and
-- statistics. seq 0 keeps it out of every list and feed of events.
-- name: InsertTestEvent :exec
WITH event AS (
  INSERT INTO events (
    id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
    received_at, topic, kafka_partition, kafka_offset, context, body)
  VALUES (
    @event_id, @tenant_id, 0, @source, @ce_id, @event_type, @schema_version, @schema_major,
    now(), '', 0, 0, @context, @body)
), birth AS (
  INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id)
  VALUES (@id, @tenant_id, @event_id, @subscription_id, @destination_id)
)
INSERT INTO delivery_queue (
  id, tenant_id, destination_id, subscription_id, event_id, due_at, last_at, received_at, body_bytes, test)
VALUES (@id, @tenant_id, @destination_id, @subscription_id, @event_id, now(), now(), now(), @body_bytes, true);
