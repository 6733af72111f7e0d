package db_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func TestTenantConfigs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.store(db.IngestWrites{}, "acme", "bolt", "empty")
	dest, pull, foreign := newID(), newID(), newID()
	// Made one after the other: the order of creation is that of their times.
	now := time.Now()
	sub1, sub2, sub3 := hub.NewID(now, rand.Reader), hub.NewID(now.Add(time.Millisecond), rand.Reader), hub.NewID(now.Add(2*time.Millisecond), rand.Reader)
	secretOf := map[int]hub.ID{1: newID(), 2: newID(), 3: newID()}
	l.exec(`INSERT INTO destinations VALUES
		($1, 'acme', 'WEBHOOK', 'https://example.com/', '2026-01-01Z'), ($2, 'acme', 'PULL', '', '2026-01-01Z'),
		($3, 'bolt', 'WEBHOOK', 'https://example.com/', '2026-01-01Z')`, text(dest), text(pull), text(foreign))
	l.exec(`INSERT INTO destination_secrets VALUES
		($2, 'acme', $1, 1, 'k', 'w1', 'c1', now(), now() - interval '1 s'),
		($3, 'acme', $1, 2, 'k', 'w2', 'c2', now(), now() + interval '1 h'),
		($4, 'acme', $1, 3, 'k', 'w3', 'c3', now(), NULL)`, text(dest), text(secretOf[1]), text(secretOf[2]), text(secretOf[3]))
	basic := newID()
	l.exec(`INSERT INTO destination_credentials VALUES ($2, 'acme', $1, 'AUTHORIZATION', 'BASIC', 'me', '', 4, 'k', 'w4', 'c4', '2026-01-01Z')`, text(dest), text(basic))
	l.exec(`UPDATE destinations SET rate_limit = 7, max_in_flight = 3, version = 2 WHERE id = $1`, text(dest))
	insert := `INSERT INTO event_subscriptions (id, tenant_id, name, origin, event_types, schema_major, destination_id, kind, enabled,
		disabled_by, disabled_reason, disabled_at, verification_state, verification_error, retry_policy, timeout_ms, created_at, updated_at)
		VALUES ($1, $2, 'n', $3, ARRAY['loan.*', '*'], $4, $5, $6, $7, $8, $9, $10, 'ACTIVE', 'e', $11, 2500, '2026-01-01Z', '2026-01-01Z')`
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	l.exec(insert, text(sub1), "acme", "lender", 2, text(dest), "WEBHOOK", true, nil, "", nil, `{"kind":"SCHEDULE","stepsMillis":[0,5]}`)
	l.exec(insert, text(sub2), "acme", nil, nil, text(pull), "PULL", false, "AUTO", "sick", at, `{"kind":"SCHEDULE","stepsMillis":"none"}`)
	l.exec(insert, text(sub3), "bolt", nil, nil, text(foreign), "WEBHOOK", true, nil, "", nil, `[]`)
	l.exec(`UPDATE event_subscriptions SET headers = '[{"n": "X-Team", "v": "loans"}]', disable_on_gone = true WHERE id = $1`, text(sub1))
	l.exec(insert, text(newID()), "acme", nil, nil, text(dest), "WEBHOOK", true, nil, "", nil, `{}`)
	l.exec(`UPDATE event_subscriptions SET deleted_at = now() WHERE id <> ALL (ARRAY[$1, $2, $3]::uuid[])`, text(sub1), text(sub2), text(sub3))
	l.exec("UPDATE tenant_counters SET config_version = 7 WHERE tenant_id = 'acme'")

	configs, err := l.db.TenantConfigs(t.Context(), []hub.TenantID{"acme", "bolt", "empty", "unknown"})
	if err != nil {
		t.Fatal(err)
	}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	two := int32(2)
	sub := func(id hub.ID, tenant hub.TenantID, dest hub.ID) hub.EventSubscription {
		return hub.EventSubscription{
			ID: hub.SubscriptionID{ID: id}, Tenant: tenant, Name: "n", CreatedAt: created, UpdatedAt: created, Version: 1,
			EventTypes: []string{"loan.*", "*"}, Destination: hub.DestinationID{ID: dest}, Kind: hub.SinkWebhook, Enabled: true,
			VerificationState: hub.VerificationActive, VerificationError: "e", Timeout: 2500 * time.Millisecond,
		}
	}
	first, second := sub(sub1, "acme", dest), sub(sub2, "acme", pull)
	first.Origin, first.SchemaMajor = "lender", &two
	first.RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0, 5}}
	second.Kind, second.Enabled, second.DisabledBy, second.DisabledReason, second.DisabledAt = hub.SinkPull, false, hub.DisabledByAuto, "sick", at
	config := func(tenant hub.TenantID, id hub.ID, kind hub.SinkKind, url string, secrets ...db.SealedSecret) db.DestinationConfig {
		return db.DestinationConfig{Secrets: secrets, Destination: hub.Destination{
			ID: hub.DestinationID{ID: id}, Tenant: tenant, Kind: kind, URL: url, CreatedAt: created,
			Version: 1, FailurePolicy: hub.FailurePolicy{Kind: hub.FailureSpan},
		}}
	}
	sealed := func(version int, w, c string) db.SealedSecret {
		return db.SealedSecret{
			Sealed:  secret.Sealed{KeyID: "k", WrappedKey: []byte(w), Ciphertext: []byte(c)},
			Binding: secret.Binding{Tenant: "acme", Row: secretOf[version], Version: int32(version)},
		}
	}
	limited := config("acme", dest, hub.SinkWebhook, "https://example.com/", sealed(3, "w3", "c3"), sealed(2, "w2", "c2"))
	limited.Destination.RateLimit, limited.Destination.MaxInFlight, limited.Destination.Version = 7, 3, 2
	limited.Credentials = []db.SealedCredential{{
		Credential: hub.Credential{Kind: hub.CredentialBasic, Name: "me", Version: 4, CreatedAt: created},
		Sealed:     secret.Sealed{KeyID: "k", WrappedKey: []byte("w4"), Ciphertext: []byte("c4")},
		Binding:    secret.Binding{Tenant: "acme", Row: basic, Version: 4},
	}}
	first.Headers, first.DisableOnGone = []hub.Header{{Name: "X-Team", Value: "loans"}}, true
	want := map[hub.TenantID]*db.TenantConfig{
		"acme": {
			Tenant: "acme", Version: 7, Subscriptions: []hub.EventSubscription{first, second},
			Destinations: map[hub.DestinationID]db.DestinationConfig{
				{ID: dest}: limited,
				{ID: pull}: config("acme", pull, hub.SinkPull, ""),
			},
		},
		"bolt": {
			// A policy that is no policy at all is the zero one, which is the curve.
			Tenant: "bolt", Version: 1, Subscriptions: []hub.EventSubscription{sub(sub3, "bolt", foreign)},
			Destinations: map[hub.DestinationID]db.DestinationConfig{
				{ID: foreign}: config("bolt", foreign, hub.SinkWebhook, "https://example.com/"),
			},
		},
		"empty": {Tenant: "empty", Version: 1, Destinations: map[hub.DestinationID]db.DestinationConfig{}},
	}
	if diff := cmp.Diff(want, configs, cmpopts.EquateApproxTime(0), cmpopts.IgnoreFields(db.SealedSecret{}, "NotAfter", "CreatedAt")); diff != "" {
		t.Errorf("configs (-want +got):\n%s", diff)
	}
	keys := configs["acme"].Destinations[hub.DestinationID{ID: dest}].Secrets
	if len(keys) == 2 && (!keys[0].NotAfter.IsZero() || time.Until(keys[1].NotAfter) < 50*time.Minute) {
		t.Errorf("ends of the keys: %s and %s, want none and in an hour", keys[0].NotAfter, keys[1].NotAfter)
	}

	versions, err := l.db.ConfigVersions(t.Context(), []hub.TenantID{"acme", "bolt", "unknown"})
	if diff := cmp.Diff(map[hub.TenantID]int64{"acme": 7, "bolt": 1}, versions); err != nil || diff != "" {
		t.Errorf("versions (-want +got):\n%s %v", diff, err)
	}
}
