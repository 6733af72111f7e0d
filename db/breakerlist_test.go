package db_test

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// The lists of circuit breakers and failure spans, and the look-ups that
// explain deliveries, keep the plans that their comments name.
func TestHealthPlans(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`CREATE TABLE made AS SELECT gen_random_uuid() AS dest, gen_random_uuid() AS sub, 'tenant' || n % 20 AS tenant, n FROM generate_series(1, 5000) n`)
	l.exec(`INSERT INTO tenant_counters (tenant_id) SELECT DISTINCT tenant FROM made`)
	l.exec(`INSERT INTO destinations (id, tenant_id, kind, url, created_at) SELECT dest, tenant, 'WEBHOOK', dest::text, now() FROM made`)
	l.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, created_at, updated_at)
		SELECT sub, tenant, 'x', '{*}', dest, 'WEBHOOK', now(), now() FROM made`)
	l.exec(`INSERT INTO circuit_breakers (destination_id, tenant_id, version, phase, generation, failures, window_newest, window_attempts, window_failures, cause, open_for_ms, ramp_limit, changed_at)
		SELECT dest, tenant, 1, 'CLOSED', 1, 0, 0, array_fill(0, '{12}'), array_fill(0, '{12}'), '', 0, 0, now() FROM made`)
	l.exec(`INSERT INTO failure_spans (subscription_id, tenant_id, destination_id, first_failure_at, last_failure_at, failure_count, changed_at)
		SELECT sub, tenant, dest, now(), now(), 1, now() FROM made`)
	l.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, changed_at)
		SELECT dest, tenant, 0, 0, 0, now(), 'ACTIVE', now() FROM made`)
	l.exec(`INSERT INTO destination_limits SELECT dest, tenant, now() FROM made`)
	l.exec(`INSERT INTO destination_secrets (id, tenant_id, destination_id, version, key_id, wrapped_key, ciphertext, created_at)
		SELECT gen_random_uuid(), tenant, dest, 1, 'k', '', '', now() FROM made`)
	l.exec(`INSERT INTO destination_credentials (id, tenant_id, destination_id, slot, kind, version, key_id, wrapped_key, ciphertext, created_at)
		SELECT gen_random_uuid(), tenant, dest, 'AUTHORIZATION', 'BEARER', 1, 'k', '', '', now() FROM made`)
	l.exec(`ANALYZE`)
	const (
		top  = `'ffffffff-ffff-ffff-ffff-ffffffffffff'`
		zero = `'00000000-0000-0000-0000-000000000000'`
		ids  = `ARRAY[` + zero + `::uuid]`
	)
	login, walled := l.hotConn(), l.hotConn()
	if _, err := walled.Exec(t.Context(), `SET ROLE hub_tenant; SET hub.tenant = 'tenant3'`); err != nil {
		t.Fatal(err)
	}
	check := func(p hotPlan) {
		t.Run(p.name, func(t *testing.T) { p.check(t, login) })
		t.Run(p.name+"/behind_the_wall", func(t *testing.T) { p.check(t, walled) })
	}
	for _, p := range []hotPlan{
		{name: "BreakersByID", sql: dbsqlc.BreakersByID, args: ids, must: []string{`circuit_breakers_pkey`}},
		{name: "BreakerPage", sql: dbsqlc.BreakerPage, args: top + ", 100",
			must: []string{`Index Scan Backward using circuit_breakers_pkey`, `Index Cond: \(destination_id < `}},
		{name: "BreakerPageOfTenant", sql: dbsqlc.BreakerPageOfTenant, args: "'tenant3', " + top + ", 100",
			must: []string{`Index Scan Backward using circuit_breakers_tenant`, `Index Cond: \(\(tenant_id = .*destination_id < `}},
		{name: "GatesByID", sql: dbsqlc.GatesByID, args: ids,
			must: []string{`destinations_pkey`, `destination_limits_pkey`, `destination_secrets_destination_id_version_key`}},
		{name: "SpansByID", sql: dbsqlc.SpansByID, args: ids, must: []string{`failure_spans_pkey`}},
		{name: "SpanPage", sql: dbsqlc.SpanPage, args: top + ", 100",
			must: []string{`Index Scan Backward using failure_spans_pkey`, `Index Cond: \(subscription_id < `}},
		{name: "SpanPageOfTenant", sql: dbsqlc.SpanPageOfTenant, args: "'tenant3', " + top + ", 100",
			must: []string{`Index Scan Backward using failure_spans_tenant`, `Index Cond: \(\(tenant_id = .*subscription_id < `}},
		{name: "RatesByID", sql: dbsqlc.RatesByID, args: ids, must: []string{`failure_rates_pkey`}},
		{name: "SpanTargets", sql: dbsqlc.SpanTargets, args: ids, must: []string{`event_subscriptions_pkey`, `destinations_pkey`}},
		{name: "LockRate", sql: dbsqlc.LockRate, args: zero, must: []string{`failure_rates_pkey`}},
		{name: "AuthorizationsOfDestinations", sql: dbsqlc.AuthorizationsOfDestinations, args: ids,
			must: []string{`destination_credentials_destination_id_slot_key`}},
	} {
		p.mustNot = append(p.mustNot, `Seq Scan`, `Sort Key`)
		check(p)
	}
	// The subscriptions of one destination are few, so they may be sorted.
	check(hotPlan{name: "SpanPageOfDestination", sql: dbsqlc.SpanPageOfDestination, args: zero + ", " + top + ", 100",
		must: []string{`event_subscriptions_destination`, `failure_spans_pkey`}, mustNot: []string{`Seq Scan`}})
}
