package db_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// The methods of DB, called as if the application's own filter had been
// forgotten.
func TestWall_methods_without_a_filter_show_nothing_foreign(t *testing.T) {
	l := newLab(t)
	d := l.walled(4)
	sub := l.deadLetterOf("acme")
	newest := hub.ID{0xff, 0xff}
	one := func(ctx context.Context) (found map[string]int) {
		found = map[string]int{}
		note := func(what string, n int, err error) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			found[what] = n
		}
		deliveries, err := d.DeliveryPage(ctx, db.DeliveryFilter{}, newest, 10)
		note("DeliveryPage", len(deliveries.Deliveries), err)
		dead, err := d.DeadLetterPage(ctx, db.DeadLetterFilter{}, newest, 10)
		note("DeadLetterPage", len(dead.Deliveries), err)
		byID, err := d.DeliveriesByID(ctx, []hub.DeliveryID{sub.delivery.ID})
		note("DeliveriesByID", len(byID), err)
		events, err := d.EventPage(ctx, newest, 10)
		note("EventPage", len(events.Events), err)
		heads, err := d.EventHeadsByID(ctx, []hub.EventID{sub.delivery.Event})
		note("EventHeadsByID", len(heads), err)
		bodies, err := d.EventBodies(ctx, []hub.EventID{sub.delivery.Event})
		note("EventBodies", len(bodies), err)
		subs, err := d.SubscriptionPage(ctx, "", newest, 10)
		note("SubscriptionPage", len(subs), err)
		subs, err = d.SubscriptionsByID(ctx, []hub.SubscriptionID{sub.delivery.Subscription})
		note("SubscriptionsByID", len(subs), err)
		dests, err := d.DestinationsByID(ctx, []hub.DestinationID{sub.delivery.Destination})
		note("DestinationsByID", len(dests), err)
		tokens, err := d.ListTokens(ctx, "")
		note("ListTokens", len(tokens), err)
		log, err := d.AuditPage(ctx, db.AuditFilter{}, newest, 10)
		note("AuditPage", len(log.Rows), err)
		observed, err := d.ObservationPage(ctx, db.ObservationFilter{}, newest, 10)
		note("ObservationPage", len(observed.Rows), err)
		return found
	}
	for _, of := range []struct {
		who  string
		ctx  context.Context
		want int
	}{
		{"acme", db.OfTenant(t.Context(), "acme"), 1}, {"platform", db.OfPlatform(t.Context()), 1}, {"stranger", db.OfTenant(t.Context(), "stranger"), 0},
	} {
		for method, n := range one(of.ctx) {
			if n != of.want {
				t.Errorf("%s by %s: %d rows, want %d", method, of.who, n, of.want)
			}
		}
	}
	stranger := db.OfTenant(t.Context(), "stranger")
	if found, err := d.RevokeToken(stranger, sub.token); err != nil || found {
		t.Errorf("revoked a foreign token: %t, %v", found, err)
	}
	_, err := d.BeginRun(stranger, db.RunRequest{Delivery: sub.delivery.ID, Tenant: "acme", Action: "redeliver",
		Judge: func(*db.RunState) (bool, error) { return true, nil }})
	if !errors.Is(err, db.ErrChanged) {
		t.Errorf("a run of a foreign delivery: %v", err)
	}
	_, _, err = d.CreateSubscription(stranger, db.NewSubscription{
		Subscription: hub.EventSubscription{ID: hub.SubscriptionID{ID: newID()}, Tenant: "acme", Name: "x", EventTypes: []string{"*"}, Kind: hub.SinkPull, Timeout: hub.MinTimeout, VerificationState: hub.VerificationPending},
		Destination:  hub.Destination{ID: hub.DestinationID{ID: newID()}, Tenant: "acme", Kind: hub.SinkPull},
	})
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		t.Errorf("made a subscription for acme: %v", err)
	}
	l.wantCount("settings of acme changed", 1, `SELECT config_version FROM tenant_counters WHERE tenant_id = 'acme'`)
}

// deadLetter is what one dead letter consists of.
type deadLetter struct {
	delivery hub.Delivery
	token    hub.TokenID
}

// deadLetterOf makes one row of everything that the API shows a tenant.
func (l *lab) deadLetterOf(tenant hub.TenantID) (d deadLetter) {
	l.Helper()
	d.delivery = hub.Delivery{
		ID: hub.DeliveryID{ID: newID()}, Event: hub.EventID{ID: newID()}, Tenant: tenant,
		Subscription: hub.SubscriptionID{ID: newID()}, Destination: hub.DestinationID{ID: newID()},
	}
	d.token = hub.TokenID{ID: newID()}
	event, sub, dest, delivery := text(d.delivery.Event), text(d.delivery.Subscription), text(d.delivery.Destination), text(d.delivery.ID)
	l.exec(`INSERT INTO tenant_counters (tenant_id) VALUES ($1)`, string(tenant))
	l.exec(`INSERT INTO destinations (id, tenant_id, kind, url, created_at) VALUES ($1, $2, 'WEBHOOK', 'https://example.com/', now())`, dest, string(tenant))
	l.exec(`INSERT INTO destination_secrets (id, tenant_id, destination_id, version, key_id, wrapped_key, ciphertext, created_at) VALUES ($1, $2, $3, 1, 'k', '', '', now())`, text(newID()), string(tenant), dest)
	l.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, created_at, updated_at) VALUES ($1, $2, 'x', '{*}', $3, 'WEBHOOK', now(), now())`, sub, string(tenant), dest)
	l.exec(`INSERT INTO events VALUES ($1, $2, 1, 's', 'c', 'a.b', '1', 1, now(), 't', 0, 0, '{"time":"2026-01-31T12:04:05Z"}', '')`, event, string(tenant))
	l.exec(`INSERT INTO deliveries VALUES ($1, $2, $3, $4, $5)`, delivery, string(tenant), event, sub, dest)
	l.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason) VALUES ($1, $2, $3, 1, 'DEAD', 'EXPIRED')`, text(newID()), string(tenant), delivery)
	l.exec(`INSERT INTO api_tokens (id, tenant_id, name, role, hash, created_at) VALUES ($1, $2, 'x', 'ADMIN', decode(repeat('00', 32), 'hex'), now())`, text(d.token), string(tenant))
	l.exec(`INSERT INTO audit_log (id, tenant_id, actor_name, action, object) VALUES ($1, $2, 'x', 'x', 'x')`, text(newID()), string(tenant))
	l.exec(`INSERT INTO dlq_observations VALUES ($1, $2, 'PRODUCER', 't', 0, 0, NULL, NULL, NULL, now(), '{}', '', 0)`, text(newID()), string(tenant))
	return d
}
