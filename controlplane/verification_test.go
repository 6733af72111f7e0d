package controlplane_test

import (
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestVerify_judges_the_answer(t *testing.T) {
	o := newOffice(t)
	for _, row := range []struct {
		rule   string
		answer func(p controlplane.Probe) hub.Attempt
		want   string // part of the error; "" for ACTIVE
	}{
		{"2xx_with_the_challenge", nil, ""},
		{"challenge_inside_other_text", func(p controlplane.Probe) hub.Attempt {
			return hub.Attempt{Answer: hub.Answer{Status: 202, Snippet: "ok " + string(p.Event.Body) + "\n"}}
		}, ""},
		{"2xx_without_it", func(controlplane.Probe) hub.Attempt {
			return hub.Attempt{Answer: hub.Answer{Status: 200, Snippet: "hello"}, Timings: hub.Timings{Total: 12_000}}
		}, `answered HTTP 200 after 12ms, but its body does not hold the challenge: "hello"`},
		{"other_status", func(p controlplane.Probe) hub.Attempt {
			return hub.Attempt{Answer: hub.Answer{Status: 418, Snippet: string(p.Event.Body)}, Failure: hub.Failure{Class: hub.ErrStatus}}
		}, "answered HTTP 418"},
		{"no_answer", func(controlplane.Probe) hub.Attempt {
			return hub.Attempt{Failure: hub.Failure{Class: hub.ErrTimeout, Phase: hub.PhaseAnswer, Detail: "no answer within 15s"}, Timings: hub.Timings{Total: 15_000_000}}
		}, "TIMEOUT: no answer within 15s (after 15s)"},
		{"blocked_address", func(controlplane.Probe) hub.Attempt {
			return hub.Attempt{Failure: hub.Failure{Class: hub.ErrBlocked, Phase: hub.PhaseConnect, Detail: "refused"}}
		}, "BLOCKED_ADDRESS"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			made := o.create(wish("https://a.example/" + row.rule)).Subscription
			o.answer = row.answer
			defer func() { o.answer = nil }()
			v, mistakes, err := o.Verify(t.Context(), acme, made.ID)
			if err != nil || mistakes != nil || v.Probe == nil {
				t.Fatal(mistakes, err)
			}
			want := hub.VerificationActive
			if row.want != "" {
				want = hub.VerificationFailed
			}
			if v.Subscription.VerificationState != want || !strings.Contains(v.Subscription.VerificationError, row.want) || row.want == "" && v.Subscription.VerificationError != "" {
				t.Errorf("%s: %s", v.Subscription.VerificationState, v.Subscription.VerificationError)
			}
			if v.Subscription.Version != made.Version {
				t.Errorf("version %d: a verification is no change of a person", v.Subscription.Version)
			}
		})
	}
	t.Run("hub_stops_is_no_verdict", func(t *testing.T) {
		made := o.create(wish("https://a.example/stopped")).Subscription
		o.answer = func(controlplane.Probe) hub.Attempt {
			return hub.Attempt{Failure: hub.Failure{Class: hub.ErrCancelled}}
		}
		if _, _, err := o.Verify(t.Context(), acme, made.ID); err == nil {
			t.Error("no error")
		}
		if now := o.read(made.ID); now.VerificationState != hub.VerificationPending {
			t.Errorf("it is %s", now.VerificationState)
		}
	})
}

func TestVerify_sends_what_a_delivery_would_have(t *testing.T) {
	o := newOffice(t)
	n := wish("https://a.example/hook")
	n.Headers = []hub.Header{{Name: "X-Team", Value: "loans"}}
	n.Destination.Credential = controlplane.Give(bearer("token"))
	made := o.create(n)
	o.verified(made.Subscription.ID)
	p := o.probes[0]
	if p.URL != "https://a.example/hook" || p.Timeout != hub.DefaultTimeout || len(p.Headers) != 1 || p.Headers[0].Name != "X-Team" ||
		p.CredentialHeader != "Authorization" || string(p.Credential.Reveal()) != "Bearer token" || p.Signer.Keys() != 1 || p.Event.Key() != "hub.verification" {
		t.Errorf("%+v", p)
	}
	t.Run("nothing_is_sent_when_a_secret_does_not_open", func(t *testing.T) {
		for _, table := range []string{"destination_credentials", "destination_secrets"} {
			o.exec(`UPDATE ` + table + ` SET key_id = 'lost'`)
			sent := len(o.probes)
			_, mistakes, err := o.Verify(t.Context(), acme, made.Subscription.ID)
			if err != nil || told(mistakes) != "UNAVAILABLE id" || len(o.probes) != sent {
				t.Errorf("%s: %s, %v, %d probes", table, told(mistakes), err, len(o.probes)-sent)
			}
			o.exec(`UPDATE ` + table + ` SET key_id = 'old'`)
		}
	})
	t.Run("pull_needs_no_probe", func(t *testing.T) {
		pull := wish("")
		pull.Kind = hub.SinkPull
		sent := len(o.probes)
		if v, mistakes, err := o.Verify(t.Context(), acme, o.create(pull).Subscription.ID); err != nil || mistakes != nil || v.Probe != nil || len(o.probes) != sent {
			t.Errorf("%+v %v %v", v, mistakes, err)
		}
	})
}

func TestVerify_enables_in_place_what_the_hub_disabled(t *testing.T) {
	o := newOffice(t)
	made := o.active("https://a.example/hook")
	o.wantChores("verified", lane(made.ID, made.Destination))
	o.verified(made.ID)
	o.wantChores("verified_again", []string{}...)
	o.span(&made)
	o.disabled(made.ID, hub.DisabledByAuto)
	o.answer = func(controlplane.Probe) hub.Attempt {
		return hub.Attempt{Answer: hub.Answer{Status: 500}, Failure: hub.Failure{Class: hub.ErrStatus}}
	}
	if v, _, err := o.Verify(t.Context(), acme, made.ID); err != nil || v.Subscription.Enabled || v.Subscription.VerificationState != hub.VerificationFailed {
		t.Errorf("a probe that failed: %+v, %v", v.Subscription, err)
	}
	o.wantSpans("a_probe_that_failed_forgets_nothing", 1)
	o.answer = nil
	if got := o.verified(made.ID); !got.Enabled || got.DisabledBy != "" || got.DisabledReason != "" || !got.DisabledAt.IsZero() {
		t.Errorf("revived: %+v", got)
	}
	o.wantSpans("success_forgets_the_failures", 0)
	o.wantChores("revived", lane(made.ID, made.Destination))

	o.span(&made)
	o.disabled(made.ID, hub.DisabledByUser)
	if got := o.verified(made.ID); got.Enabled || got.DisabledBy != hub.DisabledByUser {
		t.Errorf("a person's word: %+v", got)
	}
	o.wantSpans("success_of_a_disabled_one_forgets_nothing", 1)
	o.wantChores("it_gets_nothing_as_before")
}

func TestVerify_that_raced_with_a_change_tells_nothing(t *testing.T) {
	o := newOffice(t)
	for name, change := range map[string]func(s hub.EventSubscription){
		"update": func(s hub.EventSubscription) {
			o.update(controlplane.SubscriptionUpdate{ID: s.ID, Version: 1, Name: controlplane.Give("x")})
		},
		"disable": func(s hub.EventSubscription) { _, _, _ = o.Disable(t.Context(), acme, s.ID, "") },
		"delete":  func(s hub.EventSubscription) { _, _, _ = o.Delete(t.Context(), acme, s.ID) },
		"url": func(s hub.EventSubscription) {
			o.update(controlplane.SubscriptionUpdate{ID: s.ID, Version: 1, URL: controlplane.Give("https://c.example/")})
		},
		"credential_by_another_subscription": func(s hub.EventSubscription) {
			other := o.create(wish("https://a.example/credential_by_another_subscription")).Subscription
			o.update(controlplane.SubscriptionUpdate{ID: other.ID, Version: 1, Destination: controlplane.DestinationInput{Credential: controlplane.Give(bearer("t"))}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := o.create(wish("https://a.example/" + name)).Subscription
			o.answer = func(p controlplane.Probe) hub.Attempt {
				o.answer = nil
				change(made)
				return hub.Attempt{Answer: hub.Answer{Status: 200, Snippet: string(p.Event.Body)}}
			}
			_, mistakes, err := o.Verify(t.Context(), acme, made.ID)
			if err != nil || told(mistakes) != "CONFLICT id" {
				t.Errorf("%s, %v", told(mistakes), err)
			}
			if now := o.read(made.ID); now.VerificationState != hub.VerificationPending {
				t.Errorf("it is %s", now.VerificationState)
			}
		})
	}
}
