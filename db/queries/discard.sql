-- Discards: deliveries that an operator gives up, with the reason.

-- InsertDiscards writes the ends. Of two ends of a run the later one counts.
-- name: InsertDiscards :exec
INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, last_error, test)
SELECT r.id, r.tenant_id, r.delivery_id, r.run, 'DISCARDED', @reason::text, r.test
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@delivery_ids::uuid[]),
  unnest(@runs::integer[]), unnest(@tests::boolean[])
) AS r(id, tenant_id, delivery_id, run, test);
