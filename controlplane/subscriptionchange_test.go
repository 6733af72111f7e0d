package controlplane_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func clear[T any]() controlplane.Given[T] { return controlplane.Given[T]{Set: true} }

func TestUpdate_changes_what_is_given_and_nothing_else(t *testing.T) {
	o := newOffice(t)
	major, lender := int32(2), "lender"
	n := wish("https://a.example/hook")
	n.Description, n.Origin, n.SchemaMajor, n.Headers, n.DisableOnGone = "d", &lender, &major, []hub.Header{{Name: "X-Team", Value: "loans"}}, true
	n.Destination.RateLimit = controlplane.Give(int32(7))
	made := o.create(n).Subscription
	for _, row := range []struct {
		rule   string
		update controlplane.SubscriptionUpdate
		change func(s *hub.EventSubscription)
		audit  string
	}{
		{"name", controlplane.SubscriptionUpdate{Name: controlplane.Give(" New ")}, func(s *hub.EventSubscription) { s.Name = "New" }, `{"name":"Mine"} → {"name":"New"}`},
		{"null_description", controlplane.SubscriptionUpdate{Description: clear[string]()}, func(s *hub.EventSubscription) { s.Description = "" }, `{"description":"d"} → {}`},
		{"null_origin", controlplane.SubscriptionUpdate{Origin: clear[string]()}, func(s *hub.EventSubscription) { s.Origin = "" }, `{"origin":"lender"} → {}`},
		{"null_schema_major", controlplane.SubscriptionUpdate{SchemaMajor: clear[int32]()}, func(s *hub.EventSubscription) { s.SchemaMajor = nil }, `{"schemaMajor":2} → {}`},
		{"null_headers", controlplane.SubscriptionUpdate{Headers: clear[[]hub.Header]()}, func(s *hub.EventSubscription) { s.Headers = nil }, `{"headers":[{"n":"X-Team","v":"loans"}]} → {}`},
		{"headers", controlplane.SubscriptionUpdate{Headers: controlplane.Give([]hub.Header{{Name: "X-A", Value: " b "}})},
			func(s *hub.EventSubscription) { s.Headers = []hub.Header{{Name: "X-A", Value: "b"}} }, `{} → {"headers":[{"n":"X-A","v":"b"}]}`},
		{"event_types", controlplane.SubscriptionUpdate{EventTypes: controlplane.Give([]string{"*"})}, func(s *hub.EventSubscription) { s.EventTypes = []string{"*"} }, `{"eventTypes":["loan.*"]} → {"eventTypes":["*"]}`},
		{"timeout", controlplane.SubscriptionUpdate{Timeout: controlplane.Give(2 * time.Second)}, func(s *hub.EventSubscription) { s.Timeout = 2 * time.Second }, `{"timeoutMs":15000} → {"timeoutMs":2000}`},
		{"retry_policy", controlplane.SubscriptionUpdate{RetryPolicy: controlplane.Give(hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}})},
			func(s *hub.EventSubscription) {
				s.RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}
			}, `{"retryPolicy":{"kind":"CURVE"}} → {"retryPolicy":{"kind":"SCHEDULE","stepsMillis":[0]}}`},
		{"disable_on_gone", controlplane.SubscriptionUpdate{DisableOnGone: controlplane.Give(false)}, func(s *hub.EventSubscription) { s.DisableOnGone = false }, `{"disableOnGone":true} → {}`},
		{"settings_of_the_destination", controlplane.SubscriptionUpdate{Destination: controlplane.DestinationInput{
			RateLimit: clear[int32](), MaxInFlight: controlplane.Give(int32(3)), FailurePolicy: controlplane.Give(hub.FailurePolicy{Kind: hub.FailureRate, Percent: 50}),
		}}, func(*hub.EventSubscription) {},
			`{"failurePolicy":{"kind":"FAILURE_SPAN"},"rateLimit":7} → {"failurePolicy":{"kind":"FAILURE_RATE","percent":50},"maxInFlight":3}`},
	} {
		t.Run(row.rule, func(t *testing.T) {
			before := o.read(made.ID)
			version, entries := o.configVersion(), len(o.audited("update_event_subscription"))
			o.clock = o.clock.Add(time.Second)
			row.update.ID, row.update.Version = made.ID, before.Version
			got := o.update(row.update).Subscription
			want := before
			row.change(&want)
			want.Version, want.UpdatedAt = before.Version+1, o.clock
			normalize(&got, &want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if v := o.configVersion(); v != version+1 {
				t.Errorf("configuration version %d, want %d", v, version+1)
			}
			audit := o.audited("update_event_subscription")
			if len(audit) != entries+1 || audit[entries] != row.audit {
				t.Errorf("audit %v, want %s", audit[entries:], row.audit)
			}
		})
	}
	o.wantChores("none_of_these_moves_deliveries")
}

// normalize makes times comparable.
func normalize(list ...*hub.EventSubscription) {
	for _, s := range list {
		s.CreatedAt, s.UpdatedAt = s.CreatedAt.UTC(), s.UpdatedAt.UTC()
	}
}

func TestUpdate_refusals(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook")).Subscription
	pull := wish("")
	pull.Kind = hub.SinkPull
	filter := o.create(pull).Subscription
	foreign := acme
	foreign.Tenant = "bolt"
	type update = controlplane.SubscriptionUpdate
	for _, row := range []struct {
		rule   string
		actor  controlplane.Actor
		of     hub.EventSubscription
		update update
		want   string
	}{
		{"stale_version", acme, made, update{Version: 2, Name: controlplane.Give("x")}, "CONFLICT version"},
		{"unknown_id", acme, hub.EventSubscription{ID: hub.SubscriptionID{ID: id()}}, update{Version: 1}, "NOT_FOUND id"},
		{"another_tenant", foreign, made, update{Version: 1, Name: controlplane.Give("x")}, "NOT_FOUND id"},
		{"null_where_something_is_needed", acme, made, update{Version: 1, Name: clear[string](), EventTypes: clear[[]string](), RetryPolicy: clear[hub.RetryPolicy](),
			Timeout: clear[time.Duration](), DisableOnGone: clear[bool](), URL: clear[string](), Destination: controlplane.DestinationInput{FailurePolicy: clear[hub.FailurePolicy]()}},
			"INVALID name, INVALID eventTypes, INVALID retryPolicy, INVALID timeout, INVALID disableOnGone, INVALID destination.url, INVALID destination.failurePolicy"},
		{"no_event_types", acme, made, update{Version: 1, EventTypes: controlplane.Give([]string{})}, "INVALID eventTypes"},
		{"every_mistake_at_once", acme, made, update{Version: 1, Name: controlplane.Give(""), Timeout: controlplane.Give(time.Minute), URL: controlplane.Give("ftp://x"),
			Headers: controlplane.Give([]hub.Header{{Name: "webhook-signature", Value: "x"}}), Destination: controlplane.DestinationInput{RateLimit: controlplane.Give(int32(0))}},
			"INVALID name, INVALID timeout, INVALID headers, INVALID destination.url, INVALID destination.rateLimit"},
		{"pull_has_no_url", acme, filter, update{Version: 1, URL: controlplane.Give("https://a.example/")}, "INVALID destination.url"},
		{"pull_has_no_limits", acme, filter, update{Version: 1, Destination: controlplane.DestinationInput{RateLimit: controlplane.Give(int32(1))}}, "INVALID destination.rateLimit"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			version := o.configVersion()
			row.update.ID = row.of.ID
			_, mistakes, err := o.Update(t.Context(), row.actor, row.update)
			if err != nil || told(mistakes) != row.want {
				t.Errorf("%s, %v; want %s", told(mistakes), err, row.want)
			}
			if v := o.configVersion(); v != version {
				t.Errorf("the configuration changed from %d to %d", version, v)
			}
		})
	}
	if now := o.read(made.ID); now.Name != "Mine" || now.Version != 1 {
		t.Errorf("something was changed: %+v", now)
	}
}

func TestUpdate_what_is_malformed_since_long_ago_is_nobodys_mistake(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook")).Subscription
	o.exec(`UPDATE event_subscriptions SET event_types = '{nodot}', retry_policy = '{"kind":"CUBIC"}'`)
	if got := o.update(controlplane.SubscriptionUpdate{ID: made.ID, Version: 1, Name: controlplane.Give("New")}).Subscription; got.Name != "New" || got.EventTypes[0] != "nodot" {
		t.Errorf("%+v", got)
	}
}

func TestUpdate_that_changes_nothing_leaves_no_trace(t *testing.T) {
	o := newOffice(t)
	n := wish("https://a.example/hook")
	n.Headers = []hub.Header{{Name: "X-A", Value: "b"}}
	n.Destination.Credential = controlplane.Give(bearer("token"))
	made := o.verified(o.create(n).Subscription.ID)
	o.chores()
	version := o.configVersion()
	got := o.update(controlplane.SubscriptionUpdate{
		ID: made.ID, Version: 1, Name: controlplane.Give("Mine"), URL: controlplane.Give("https://A.example:443/hook"), Headers: controlplane.Give(n.Headers),
		Description: clear[string](), Destination: controlplane.DestinationInput{Credential: controlplane.Give(bearer("token")), RateLimit: clear[int32]()},
	}).Subscription
	if got.Version != 1 || got.VerificationState != hub.VerificationActive || o.configVersion() != version || len(o.audited("update_event_subscription")) != 0 {
		t.Errorf("%+v, configuration version %d → %d", got, version, o.configVersion())
	}
	o.wantChores("nothing_moves")
}

func bearer(token string) controlplane.NewCredential {
	return controlplane.NewCredential{Credential: hub.Credential{Kind: hub.CredentialBearer}, Secret: secret.New([]byte(token))}
}

func TestUpdate_of_the_URL(t *testing.T) {
	o := newOffice(t)
	n := wish("https://a.example/hook")
	n.Destination = controlplane.DestinationInput{RateLimit: controlplane.Give(int32(7)), Credential: controlplane.Give(bearer("token"))}
	created := o.create(n)
	made := o.verified(created.Subscription.ID)
	o.chores()
	o.span(&made)
	move := func(url string) (hub.EventSubscription, string) {
		now := o.read(made.ID)
		done := o.update(controlplane.SubscriptionUpdate{ID: made.ID, Version: now.Version, URL: controlplane.Give(url)})
		return done.Subscription, done.SigningSecret
	}
	first, shown := move("https://a.example/other")
	t.Run("asks_for_a_new_verification", func(t *testing.T) {
		if first.VerificationState != hub.VerificationPending || first.Version != 2 || first.Destination == made.Destination {
			t.Errorf("%+v", first)
		}
	})
	o.wantChores("both_lanes", lane(made.ID, made.Destination), lane(made.ID, first.Destination))
	o.wantSpans("failures_of_the_old_place_are_forgotten", 0)
	t.Run("takes_settings_and_signing_secrets_along", func(t *testing.T) {
		d := o.destination(first.Destination)
		texts, _ := o.signing(first.Destination)
		if d.Destination.RateLimit != 7 || len(texts) != 1 || texts[0] != created.SigningSecret || shown != "" {
			t.Errorf("rate limit %d, keys %v, shown %q", d.Destination.RateLimit, texts, shown)
		}
	})
	t.Run("credentials_stay_with_scheme_host_and_port", func(t *testing.T) {
		if d := o.destination(first.Destination); len(d.Credentials) != 1 {
			t.Errorf("on the same host: %v", d.Credentials)
		}
		second, _ := move("https://b.example/other")
		if d := o.destination(second.Destination); len(d.Credentials) != 0 || d.Destination.RateLimit != 7 {
			t.Errorf("on another host: %+v", d)
		}
	})
	o.chores()
	t.Run("back_is_the_destination_that_was", func(t *testing.T) {
		back, _ := move("https://a.example/hook")
		if back.Destination != made.Destination || back.VerificationState != hub.VerificationPending {
			t.Errorf("%+v", back)
		}
	})
	t.Run("of_a_shared_destination_moves_one_only", func(t *testing.T) {
		other := o.active("https://a.example/hook")
		o.chores()
		moved, _ := move("https://c.example/hook")
		o.wantChores("those_of_the_mover", lane(made.ID, other.Destination), lane(made.ID, moved.Destination))
		if now := o.read(other.ID); now.VerificationState != hub.VerificationActive || now.Destination != other.Destination {
			t.Errorf("%+v", now)
		}
	})
}

func TestUpdate_of_a_credential_unverifies_all_of_the_destination(t *testing.T) {
	o := newOffice(t)
	one, two := o.active("https://a.example/hook"), o.active("https://a.example/hook")
	failed := o.create(wish("https://a.example/hook")).Subscription
	o.answer = func(controlplane.Probe) hub.Attempt { return hub.Attempt{Answer: hub.Answer{Status: 200}} }
	if v, _, err := o.Verify(t.Context(), acme, failed.ID); err != nil || v.Subscription.VerificationState != hub.VerificationFailed {
		t.Fatal(v, err)
	}
	o.answer = nil
	elsewhere := o.active("https://b.example/hook")
	o.chores()
	give := func(g controlplane.Given[controlplane.NewCredential]) hub.EventSubscription {
		return o.update(controlplane.SubscriptionUpdate{ID: one.ID, Version: o.read(one.ID).Version, Destination: controlplane.DestinationInput{Credential: g}}).Subscription
	}
	give(controlplane.Give(bearer("token")))
	for _, s := range []hub.EventSubscription{one, two, failed} {
		if now := o.read(s.ID); now.VerificationState != hub.VerificationPending {
			t.Errorf("%s is %s", s.ID, now.VerificationState)
		}
	}
	if now := o.read(elsewhere.ID); now.VerificationState != hub.VerificationActive {
		t.Error("one of another destination lost its verification")
	}
	o.wantChores("those_that_got_deliveries", lane(one.ID, one.Destination), lane(two.ID, two.Destination))
	o.verified(one.ID)
	if p := o.probes[len(o.probes)-1]; p.CredentialHeader != "Authorization" || string(p.Credential.Reveal()) != "Bearer token" {
		t.Errorf("the probe has %s: %s", p.CredentialHeader, p.Credential.Reveal())
	}
	o.wantChores("the_one_that_was_verified_goes_on", lane(one.ID, one.Destination))
	give(controlplane.Give(bearer("other")))
	if c := o.destination(one.Destination).Credentials; len(c) != 1 || c[0].Credential.Version != 2 {
		t.Errorf("credentials %+v", c)
	}
	o.verified(one.ID)
	give(clear[controlplane.NewCredential]())
	if c := o.destination(one.Destination).Credentials; len(c) != 0 || o.read(one.ID).VerificationState != hub.VerificationPending {
		t.Errorf("null left %+v", c)
	}
	if all := strings.Join(o.audited("update_event_subscription"), "\n"); strings.Contains(all, "token") || !strings.Contains(all, `{"credential":"BEARER, version 1"`) {
		t.Errorf("audit: %s", all)
	}
}
