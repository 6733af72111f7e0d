package controlplane_test

import (
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// ownSecret is a customer's: 32 bytes of text.
const ownSecret = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="

func TestCreate_checks_the_destination(t *testing.T) {
	o := newOffice(t)
	text := func(s string) *string { return &s }
	header := func(name, value string) controlplane.Given[controlplane.NewCredential] {
		return controlplane.Give(controlplane.NewCredential{Credential: hub.Credential{Kind: hub.CredentialHeader, Name: name}, Secret: secret.New([]byte(value))})
	}
	type input = controlplane.DestinationInput
	for _, row := range []struct {
		rule string
		in   input
		want string // "" for fine
	}{
		{"nothing_given", input{}, ""},
		{"everything_given", input{
			RateLimit: controlplane.Give(int32(10_000)), MaxInFlight: controlplane.Give(int32(1_000)), FailurePolicy: controlplane.Give(hub.FailurePolicy{Kind: hub.FailureRate}),
			Credential: header("X-Api-Key", "k"), SigningSecret: text(ownSecret),
		}, ""},
		{"rate_limit_0", input{RateLimit: controlplane.Give(int32(0))}, "INVALID destination.rateLimit"},
		{"rate_limit_10001", input{RateLimit: controlplane.Give(int32(10_001))}, "INVALID destination.rateLimit"},
		{"max_in_flight_0", input{MaxInFlight: controlplane.Give(int32(0))}, "INVALID destination.maxInFlight"},
		{"max_in_flight_1001", input{MaxInFlight: controlplane.Give(int32(1_001))}, "INVALID destination.maxInFlight"},
		{"policy_above_100_percent", input{FailurePolicy: controlplane.Give(hub.FailurePolicy{Kind: hub.FailureRate, Percent: 101})}, "INVALID destination.failurePolicy"},
		{"span_policy_with_thresholds", input{FailurePolicy: controlplane.Give(hub.FailurePolicy{Kind: hub.FailureSpan, Percent: 50})}, "INVALID destination.failurePolicy"},
		{"credential_in_authorization", input{Credential: header("authorization", "Token k")}, ""},
		{"credential_in_a_header_of_the_hub", input{Credential: header("Webhook-Signature", "k")}, "INVALID destination.credential"},
		{"credential_in_a_header_of_the_prefix", input{Credential: header("X-Lerian-Event-Id", "k")}, "INVALID destination.credential"},
		{"credential_with_line_end", input{Credential: header("X-Api-Key", "k\r\nX-Evil: 1")}, "INVALID destination.credential"},
		{"secret_with_version", input{SigningSecret: text("v1," + ownSecret)}, "INVALID destination.signingSecret"},
		{"certificate_that_is_none", input{Certificate: controlplane.Give(controlplane.NewCredential{Credential: hub.Credential{Kind: hub.CredentialCertificate, Certificate: "x"}})}, "INVALID destination.clientCertificate"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			n := wish("https://a.example/" + row.rule)
			n.Destination = row.in
			made, mistakes, err := o.Create(t.Context(), acme, n)
			if err != nil || told(mistakes) != row.want {
				t.Errorf("%s, %v; want %q", told(mistakes), err, row.want)
			}
			if row.want == "" && made.Subscription.Destination.IsZero() {
				t.Error("nothing was made")
			}
		})
	}
	t.Run("pull_takes_none_of_it", func(t *testing.T) {
		n := wish("")
		n.Kind, n.Headers = hub.SinkPull, []hub.Header{{Name: "X-A", Value: "b"}}
		n.Destination = input{RateLimit: controlplane.Give(int32(1)), SigningSecret: text(ownSecret)}
		_, mistakes, err := o.Create(t.Context(), acme, n)
		if err != nil || told(mistakes) != "INVALID headers, INVALID destination.rateLimit, INVALID destination.signingSecret" {
			t.Errorf("%s, %v", told(mistakes), err)
		}
	})
}

func TestCreate_signing_secret(t *testing.T) {
	o := newOffice(t)
	t.Run("made_by_the_hub_is_shown", func(t *testing.T) {
		made := o.create(wish("https://a.example/1"))
		if texts, _ := o.signing(made.Subscription.Destination); len(texts) != 1 || texts[0] != made.SigningSecret {
			t.Errorf("%v signs, %q was shown", texts, made.SigningSecret)
		}
	})
	t.Run("imported_one_signs_and_is_not_shown", func(t *testing.T) {
		n, own := wish("https://a.example/2"), ownSecret
		n.Destination.SigningSecret = &own
		made := o.create(n)
		if texts, _ := o.signing(made.Subscription.Destination); len(texts) != 1 || texts[0] != own || made.SigningSecret != "" {
			t.Errorf("%v signs, %q was shown", texts, made.SigningSecret)
		}
	})
	t.Run("no_key_to_keep_it_with", func(t *testing.T) {
		o.Keys = keyring(t, "")
		defer func() { o.Keys = o.keys }()
		_, mistakes, err := o.Create(t.Context(), acme, wish("https://a.example/3"))
		if err != nil || told(mistakes) != "UNAVAILABLE " {
			t.Errorf("%s, %v", told(mistakes), err)
		}
	})
}

func TestCreate_on_a_destination_that_is_there(t *testing.T) {
	o := newOffice(t)
	own, other := ownSecret, "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	settings := controlplane.DestinationInput{RateLimit: controlplane.Give(int32(7)), Credential: controlplane.Give(bearer("token")), SigningSecret: &own}
	n := wish("https://a.example/hook")
	n.Destination = settings
	first := o.verified(o.create(n).Subscription.ID)
	o.chores()
	t.Run("with_the_same_settings", func(t *testing.T) {
		if second := o.create(n); second.Subscription.Destination != first.Destination || second.SigningSecret != "" {
			t.Errorf("%+v", second)
		}
	})
	t.Run("without_settings", func(t *testing.T) {
		if second := o.create(wish("https://a.example/hook")); second.Subscription.Destination != first.Destination || second.SigningSecret != "" {
			t.Errorf("%+v", second)
		}
	})
	t.Run("not_behind_the_back_of_others", func(t *testing.T) {
		changed := n
		changed.Destination = controlplane.DestinationInput{
			RateLimit: controlplane.Give(int32(8)), MaxInFlight: controlplane.Give(int32(1)), FailurePolicy: controlplane.Give(hub.FailurePolicy{Kind: hub.FailureRate}),
			Credential: controlplane.Give(bearer("guess")), SigningSecret: &other,
		}
		_, mistakes, err := o.Create(t.Context(), acme, changed)
		if err != nil || told(mistakes) != "CONFLICT destination.rateLimit, CONFLICT destination.maxInFlight, CONFLICT destination.failurePolicy, CONFLICT destination.credential, CONFLICT destination.signingSecret" {
			t.Errorf("%s, %v", told(mistakes), err)
		}
	})
	if now := o.read(first.ID); now.VerificationState != hub.VerificationActive {
		t.Error("the first one lost its verification")
	}
	o.wantChores("nothing_moves")
	t.Run("that_nobody_uses_any_more_takes_new_ones", func(t *testing.T) {
		list, err := o.Page(t.Context(), acme, "", controlplane.Newest, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if _, _, err := o.Delete(t.Context(), acme, s.ID); err != nil {
				t.Fatal(err)
			}
		}
		changed := n
		changed.Destination = controlplane.DestinationInput{RateLimit: controlplane.Give(int32(8)), SigningSecret: &other}
		again := o.create(changed)
		d := o.destination(again.Subscription.Destination)
		texts, _ := o.signing(again.Subscription.Destination)
		if again.Subscription.Destination != first.Destination || d.Destination.RateLimit != 8 || len(texts) != 1 || texts[0] != other || len(d.Credentials) != 1 {
			t.Errorf("%+v signs with %v", d, texts)
		}
	})
}

func TestDestinationPage(t *testing.T) {
	o := newOffice(t)
	one, two := o.create(wish("https://a.example/1")).Subscription, o.create(wish("https://a.example/2")).Subscription
	pull := wish("")
	pull.Kind = hub.SinkPull
	three := o.create(pull).Subscription
	foreign := acme
	foreign.Tenant = "bolt"
	for _, row := range []struct {
		rule   string
		actor  controlplane.Actor
		filter db.DestinationFilter
		want   []hub.DestinationID
	}{
		{"all_the_newest_first", acme, db.DestinationFilter{}, []hub.DestinationID{three.Destination, two.Destination, one.Destination}},
		{"by_kind", acme, db.DestinationFilter{Kind: hub.SinkPull}, []hub.DestinationID{three.Destination}},
		{"by_url_however_it_is_written", acme, db.DestinationFilter{URL: "HTTPS://A.example:443/1"}, []hub.DestinationID{one.Destination}},
		{"by_url_that_is_none", acme, db.DestinationFilter{URL: "nonsense"}, nil},
		{"another_tenant", foreign, db.DestinationFilter{}, nil},
		{"another_tenants_filter", foreign, db.DestinationFilter{Tenant: "acme"}, nil},
		{"platform", controlplane.Actor{Role: hub.Viewer}, db.DestinationFilter{}, []hub.DestinationID{three.Destination, two.Destination, one.Destination}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			list, err := o.DestinationPage(t.Context(), row.actor, row.filter, controlplane.Newest, 10)
			if err != nil || len(list) != len(row.want) {
				t.Fatalf("%v, %v", list, err)
			}
			seen := map[hub.DestinationID]bool{}
			for i, d := range list {
				seen[d.ID] = true
				if i > 0 && strings.Compare(list[i-1].ID.String(), d.ID.String()) < 0 {
					t.Errorf("not in order: %v", list)
				}
			}
			for _, id := range row.want {
				if !seen[id] {
					t.Errorf("%s is missing", id)
				}
			}
		})
	}
}
