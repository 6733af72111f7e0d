package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// listBatch rows are inserted by one statement.
const listBatch = 50_000

// history is what fillHistory stored: how many rows of which kind, and whose.
type history struct {
	large, small                      int // deliveries of the first tenant, and of the second
	delivered, waiting, dead, expired int // of the first tenant
	subscription, destination         string
	fingerprint                       string
	from, until                       time.Time
}

// fillHistory stores events, each with a delivery, evenly over the days before
// now. Every other one is of the first tenant, those of the others are all
// delivered. Of a hundred of the first one's, one is dead, one discarded, one
// was dead and then delivered by a replay, one waits for its next attempt, and
// the rest is delivered.
func (r *rig) fillHistory(ctx context.Context) (h history, err error) {
	for _, sql := range []string{pastPartitions(r.o.listDays), `
CREATE TEMP TABLE made (id uuid, n integer, event_id uuid, tenant_id text, seq bigint, kind integer, at timestamptz,
  subscription_id uuid, destination_id uuid)`, `
CREATE TEMP TABLE owners AS
SELECT row_number() OVER (ORDER BY tenant_id) - 1 AS place, tenant_id, id AS subscription_id, destination_id FROM event_subscriptions`,
		`CREATE INDEX ON owners (place)`} {
		if _, err := r.look.Exec(ctx, sql); err != nil {
			return h, fmt.Errorf("prepare a history: %w", err)
		}
	}
	total := r.o.listDeliveries
	for first := 0; first < total; first += listBatch {
		last := min(first+listBatch, total)
		if _, err := r.look.Exec(ctx, "TRUNCATE made"); err != nil {
			return h, err
		}
		if _, err := r.look.Exec(ctx, listMade, first, last-1, total, r.o.listDays, r.o.tenants); err != nil {
			return h, fmt.Errorf("make a history: %w", err)
		}
		for _, sql := range []string{
			strings.Replace(listEvents, "{{body}}", strings.Repeat("x", max(0, r.o.bodyBytes-8)), 1),
			listDeliveries, listQueue, listAttempts, listResults,
		} {
			if _, err := r.look.Exec(ctx, sql); err != nil {
				return h, fmt.Errorf("insert a history: %w", err)
			}
		}
	}
	for _, sql := range []string{
		"VACUUM ANALYZE events", "VACUUM ANALYZE deliveries", "VACUUM ANALYZE attempts", "VACUUM ANALYZE delivery_results",
		"VACUUM ANALYZE delivery_queue",
		"CHECKPOINT", // the lists are measured, not the write-back of a million rows
	} {
		if _, err := r.look.Exec(ctx, sql); err != nil {
			return h, fmt.Errorf("tidy up a history: %w", err)
		}
	}
	now := time.Now()
	h.from, h.until = now.AddDate(0, 0, -r.o.listDays/2), now.AddDate(0, 0, -r.o.listDays/4)
	return h, r.look.QueryRow(ctx, `
SELECT (SELECT count(*) FROM deliveries WHERE tenant_id = $1), (SELECT count(*) FROM deliveries WHERE tenant_id = $2),
  (SELECT count(DISTINCT delivery_id) FROM attempts WHERE tenant_id = $1 AND state = 'DELIVERED'),
  (SELECT count(*) FROM delivery_queue WHERE tenant_id = $1),
  (SELECT count(*) FROM delivery_results WHERE tenant_id = $1 AND state = 'DEAD' AND dead_reason <> 'POISON'),
  (SELECT count(*) FROM delivery_results WHERE tenant_id = $1 AND dead_reason = 'EXPIRED'),
  (SELECT 'sub_' || replace(id::text, '-', '') FROM event_subscriptions WHERE tenant_id = $1),
  (SELECT 'dst_' || replace(id::text, '-', '') FROM destinations WHERE tenant_id = $1),
  (SELECT min(encode(fingerprint, 'hex')) FROM delivery_results WHERE tenant_id = $1)`, tenantName(0), tenantName(1)).
		Scan(&h.large, &h.small, &h.delivered, &h.waiting, &h.dead, &h.expired, &h.subscription, &h.destination, &h.fingerprint)
}

// pastPartitions makes the partitions of the days before now, as they are there
// when a hub has run for so long.
func pastPartitions(days int) string {
	return fmt.Sprintf(`
DO $$
DECLARE
  parent record;
  slot timestamptz;
  leaf text;
BEGIN
  FOR parent IN SELECT name, step FROM partitioned_tables LOOP
    slot := date_bin(parent.step, now() - interval '%d days', timestamptz '1970-01-01 00:00:00+00');
    WHILE slot < now() LOOP
      leaf := parent.name || to_char(slot AT TIME ZONE 'UTC', '"_p"YYYYMMDD"_"HH24');
      IF to_regclass(leaf) IS NULL THEN
        EXECUTE format('CREATE TABLE %%I PARTITION OF %%I FOR VALUES FROM (%%L) TO (%%L)',
          leaf, parent.name, hub_uuid_floor(slot), hub_uuid_floor(slot + parent.step));
      END IF;
      slot := slot + parent.step;
    END LOOP;
  END LOOP;
END
$$`, days)
}

// An id of the time: $n is replaced by what it is the time of.
const listID = `(left(hub_uuid_floor(%s)::text, 14) || '7' || right(gen_random_uuid()::text, 21))::uuid`

var (
	// $1 first and $2 last number, $3 rows in all, $4 days, $5 tenants. The
	// kinds are those of fillHistory, from 1 to 4; 0 is delivered.
	listMade = `
INSERT INTO made
SELECT ` + fmt.Sprintf(listID, "at") + `, n, ` + fmt.Sprintf(listID, "at - interval '2 milliseconds'") + `, tenant_id,
  CASE WHEN n % 2 = 0 THEN n / 2 ELSE (n / 2) / ($5 - 1) END + 1,
  CASE WHEN n % 2 = 0 AND (n / 2) % 100 BETWEEN 1 AND 4 THEN (n / 2) % 100 ELSE 0 END, at, subscription_id, destination_id
FROM (
  SELECT n, now() - interval '1 minute' - make_interval(secs => $4::integer * 86400.0 * ($3::integer - n) / $3) AS at,
    CASE WHEN n % 2 = 0 THEN 0 ELSE 1 + (n / 2) % ($5::integer - 1) END AS place
  FROM generate_series($1::integer, $2::integer) n
) numbers JOIN owners USING (place)
ORDER BY n`

	listEvents = `
INSERT INTO events (id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major, received_at, topic,
  kafka_partition, kafka_offset, context, body)
SELECT event_id, tenant_id, seq, 'bench', 'list-' || n, kind, '1.0.0', 1, at, 'lerian.streaming.bench', n % 8, n / 8,
  json_build_object('type', 'studio.lerian.bench.' || kind, 'resourcetype', split_part(kind, '.', 1),
    'eventtype', split_part(kind, '.', 2), 'time', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    'datacontenttype', 'application/json'),
  convert_to('{"n":"{{body}}"}', 'UTF8')
FROM (SELECT *, (ARRAY['order.created', 'order.paid', 'invoice.sent', 'loan.approved'])[1 + n / 200 % 4] AS kind
  FROM (SELECT event_id, tenant_id, seq, n, at FROM made) m) m`

	listDeliveries = `
INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id)
SELECT id, tenant_id, event_id, subscription_id, destination_id FROM made`

	listQueue = `
INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, first_failed_at,
  attempts, run_attempts, body_bytes)
SELECT id, tenant_id, destination_id, subscription_id, event_id, now() + interval '1 hour', at, at, 1, 1, 1024
FROM made WHERE kind = 4`

	// A delivered one has one attempt, a dead one three, and one that was
	// replayed a fourth.
	listAttempts = `
INSERT INTO attempts (id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number, started_at, total_us,
  status, error_class, state, next_at, detail)
SELECT ` + fmt.Sprintf(listID, "at + number * interval '1 second'") + `, tenant_id, id, event_id, subscription_id, destination_id,
  CASE WHEN number = 4 THEN 2 ELSE 1 END, number, at + number * interval '1 second', 2500,
  CASE WHEN good THEN 200 ELSE 503 END, CASE WHEN good THEN '' ELSE 'STATUS' END,
  CASE WHEN good THEN 'DELIVERED' WHEN number = 3 THEN 'DEAD' ELSE 'WAITING' END,
  CASE WHEN good OR number = 3 THEN NULL ELSE at + (number + 1) * interval '1 second' END,
  convert_to(CASE WHEN good
    THEN '{"firstByteUs":1900,"headers":[{"n":"Content-Type","v":"text/plain"},{"n":"Date","v":"Mon, 30 Nov 2026 00:00:00 GMT"}],"snippet":"ok","remoteIp":"127.0.0.1","counted":true,"reason":"delivered"}'
    ELSE '{"firstByteUs":1900,"headers":[{"n":"Content-Type","v":"text/plain"}],"snippet":"out of order","remoteIp":"127.0.0.1","phase":"ANSWER","failure":"answered 503","counted":true,"reason":"the answer was 503"}' END, 'UTF8')
FROM (
  SELECT *, kind = 0 OR number = 4 AS good FROM made,
    generate_series(1, CASE kind WHEN 0 THEN 1 WHEN 1 THEN 3 WHEN 3 THEN 4 ELSE 1 END) number
) tries`

	// POISON marks those that were replayed, so that they can be told apart.
	listResults = `
INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason, last_error, fingerprint)
SELECT ` + fmt.Sprintf(listID, "at + interval '3 seconds'") + `, tenant_id, id, 1, CASE WHEN kind = 2 THEN 'DISCARDED' ELSE 'DEAD' END,
  CASE WHEN kind = 2 THEN NULL WHEN kind = 3 THEN 'POISON' WHEN n / 200 % 5 = 0 THEN 'EXPIRED' ELSE 'EXHAUSTED' END,
  'answered 503', CASE WHEN kind = 2 THEN NULL ELSE decode(md5('cause ' || n / 200 % 20), 'hex') END
FROM made WHERE kind IN (1, 2, 3)`
)
