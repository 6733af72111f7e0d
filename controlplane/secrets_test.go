package controlplane_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// accepts reports whether a receiver that knows one secret takes what is signed
// for the destination now.
func (o *office) accepts(dest hub.DestinationID, text string) bool {
	o.Helper()
	_, keys := o.signing(dest)
	body, at := []byte(`{"a":1}`), time.Now()
	standard, _ := signing.NewSigner(keys).Sign("msg", at.Unix(), body)
	receiver, err := standardwebhooks.NewWebhook(text)
	if err != nil {
		o.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", "msg")
	header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	header.Set("webhook-signature", standard)
	return receiver.Verify(body, header) == nil
}

// rotate makes a rotation that has to be fine, and returns the new secret.
func (o *office) rotate(dest hub.DestinationID, overlap time.Duration) string {
	o.Helper()
	done, mistakes, err := o.RotateSecret(o.Context(), acme, controlplane.Rotation{ID: controlplane.GlobalID(controlplane.DestinationIDs, dest.ID), Overlap: overlap})
	if err != nil || len(mistakes) > 0 || !strings.HasPrefix(done.SigningSecret, "whsec_") {
		o.Fatalf("rotate: %v %v", mistakes, err)
	}
	return done.SigningSecret
}

// wantAccepted says which secrets a receiver may know.
func (o *office) wantAccepted(what string, dest hub.DestinationID, known map[string]bool) {
	o.Helper()
	for text, want := range known {
		if got := o.accepts(dest, text); got != want {
			o.Errorf("%s: a receiver that knows %.12s… accepts: %t, want %t", what, text, got, want)
		}
	}
}

func TestRotateSecret(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook"))
	dest, first := made.Subscription.Destination, made.SigningSecret
	version := o.configVersion()
	second := o.rotate(dest, time.Hour)
	if o.configVersion() != version+1 {
		t.Error("the data plane is not told")
	}
	o.wantAccepted("inside_the_overlap_old_and_new_verify", dest, map[string]bool{first: true, second: true})
	if keys := o.destination(dest).Keys; len(keys) != 2 || keys[0].Binding.Version != 2 || !keys[0].NotAfter.IsZero() || !keys[1].NotAfter.Equal(o.clock.Add(time.Hour)) {
		t.Errorf("keys %+v", keys)
	}
	third := o.rotate(dest, 2*time.Hour)
	o.wantAccepted("second_rotation_inside_the_overlap", dest, map[string]bool{first: true, second: true, third: true})
	if keys := o.destination(dest).Keys; !keys[1].NotAfter.Equal(o.clock.Add(2*time.Hour)) || !keys[2].NotAfter.Equal(o.clock.Add(time.Hour)) {
		t.Errorf("ends %s, %s", keys[1].NotAfter, keys[2].NotAfter)
	}
	fourth := o.rotate(dest, time.Hour)
	o.wantAccepted("of_three_old_ones_the_oldest_ends", dest, map[string]bool{first: false, second: true, third: true, fourth: true})
	fifth := o.rotate(dest, 0)
	o.wantAccepted("without_overlap_the_previous_ends", dest, map[string]bool{fourth: false, third: true, second: true, fifth: true})
	if n := o.count(`SELECT count(*) FROM destination_secrets`); n != 3 {
		t.Errorf("%d secrets are kept, want the three that are valid", n)
	}
	t.Run("after_the_overlap_only_the_new_one_signs", func(t *testing.T) {
		o.exec(`UPDATE destination_secrets SET not_after = now() - interval '1 s' WHERE not_after IS NOT NULL`)
		o.wantAccepted("after", dest, map[string]bool{third: false, second: false, fifth: true})
		o.rotate(dest, time.Hour)
		if keys := o.destination(dest).Keys; len(keys) != 2 || !keys[1].NotAfter.Equal(o.clock.Add(time.Hour)) {
			t.Errorf("a later rotation has an overlap of its own: %+v", keys)
		}
	})
	t.Run("audit_tells_versions_and_no_secret", func(t *testing.T) {
		list := o.audited("rotate_signing_secret")
		all := strings.Join(list, "\n") // of one millisecond, in any order
		if len(list) != 5 || !strings.Contains(all, `{"signingKeys":[{"version":1}]} → {"signingKeys":[{"version":2},{"endsAt":`) || strings.Contains(all, "whsec") {
			t.Errorf("%v", list)
		}
	})
	if n := o.count(`SELECT count(*) FROM outcome_feed WHERE convert_from(items, 'UTF8') LIKE '%SECRET_ROTATED%'`); n != 5 {
		t.Errorf("%d notices, want 5", n)
	}
}

func TestRotateSecret_by_subscription_and_import(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook"))
	dest, own := made.Subscription.Destination, ownSecret
	done, mistakes, err := o.RotateSecret(t.Context(), acme, controlplane.Rotation{
		ID: controlplane.GlobalID(controlplane.SubscriptionIDs, made.Subscription.ID.ID), Overlap: time.Hour, Import: &own,
	})
	if err != nil || mistakes != nil || done.SigningSecret != "" || done.Destination.ID != dest {
		t.Fatalf("%+v %v %v", done, mistakes, err)
	}
	o.wantAccepted("imported", dest, map[string]bool{own: true, made.SigningSecret: true})
}

func TestRotateSecret_refusals(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook"))
	pull := wish("")
	pull.Kind = hub.SinkPull
	dst := func(s hub.EventSubscription) string {
		return controlplane.GlobalID(controlplane.DestinationIDs, s.Destination.ID)
	}
	foreign := acme
	foreign.Tenant = "bolt"
	bad := "v1," + ownSecret
	for _, row := range []struct {
		rule  string
		actor controlplane.Actor
		ask   controlplane.Rotation
		want  string
	}{
		{"overlap_above_7_days", acme, controlplane.Rotation{ID: dst(made.Subscription), Overlap: 7*24*time.Hour + time.Microsecond}, "INVALID overlap"},
		{"overlap_below_0", acme, controlplane.Rotation{ID: dst(made.Subscription), Overlap: -1}, "INVALID overlap"},
		{"import_with_version", acme, controlplane.Rotation{ID: dst(made.Subscription), Import: &bad}, "INVALID signingSecret"},
		{"import_of_what_signs_already", acme, controlplane.Rotation{ID: dst(made.Subscription), Import: &made.SigningSecret}, "INVALID signingSecret"},
		{"pull", acme, controlplane.Rotation{ID: dst(o.create(pull).Subscription)}, "INVALID id"},
		{"another_tenant", foreign, controlplane.Rotation{ID: dst(made.Subscription)}, "NOT_FOUND id"},
		{"another_tenants_subscription", foreign, controlplane.Rotation{ID: controlplane.GlobalID(controlplane.SubscriptionIDs, made.Subscription.ID.ID)}, "NOT_FOUND id"},
		{"no_id", acme, controlplane.Rotation{ID: "nonsense"}, "NOT_FOUND id"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if _, mistakes, err := o.RotateSecret(t.Context(), row.actor, row.ask); err != nil || told(mistakes) != row.want {
				t.Errorf("%s, %v; want %s", told(mistakes), err, row.want)
			}
		})
	}
	if texts, _ := o.signing(made.Subscription.Destination); len(texts) != 1 || texts[0] != made.SigningSecret {
		t.Errorf("%v signs", texts)
	}
	t.Run("7_days_and_0_are_fine", func(t *testing.T) {
		o.rotate(made.Subscription.Destination, 7*24*time.Hour)
		o.rotate(made.Subscription.Destination, 0)
	})
}

func TestRevokeSecret(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook"))
	dest, first := made.Subscription.Destination, made.SigningSecret
	second := o.rotate(dest, time.Hour)
	third := o.rotate(dest, time.Hour)
	revoke := func(version int32) (string, string) {
		done, mistakes, err := o.RevokeSecret(t.Context(), acme, controlplane.GlobalID(controlplane.DestinationIDs, dest.ID), version)
		if err != nil {
			t.Fatal(err)
		}
		return done.SigningSecret, told(mistakes)
	}
	if shown, got := revoke(1); shown != "" || got != "" {
		t.Errorf("an old one: shown %q, %s", shown, got)
	}
	o.wantAccepted("old_one_revoked", dest, map[string]bool{first: false, second: true, third: true})
	fourth, _ := revoke(3)
	o.wantAccepted("current_one_revoked", dest, map[string]bool{second: true, third: false, fourth: true})
	for _, version := range []int32{1, 3, 5, 0} {
		if _, got := revoke(version); got != "NOT_FOUND version" {
			t.Errorf("version %d: %s", version, got)
		}
	}
	if n := o.count(`SELECT count(*) FROM destination_secrets`); n != 2 {
		t.Errorf("%d secrets are kept, want 2: a revoked one is not", n)
	}
	if list := o.audited("revoke_signing_secret"); len(list) != 2 {
		t.Errorf("audit: %v", list)
	}
}

func TestRewrapping(t *testing.T) {
	o := newOffice(t)
	const many = 300
	var dests []hub.DestinationID
	for i := range many {
		n := wish(fmt.Sprintf("https://a.example/%d", i))
		if i%10 == 0 {
			n.Destination.Credential = controlplane.Give(bearer("token"))
		}
		dests = append(dests, o.create(n).Subscription.Destination)
	}
	both := keyring(t, newKey+","+oldKey)
	o.keys, o.Keys = both, both

	// A signer goes on opening everything, and people rotate, while it runs.
	stop, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() {
		for stop.Err() == nil {
			configs, err := o.DB.TenantConfigs(t.Context(), []hub.TenantID{"acme"})
			if err != nil {
				t.Error(err)
				return
			}
			for _, d := range configs["acme"].Destinations {
				for _, k := range d.Secrets {
					if _, err := both.Open(k.Sealed, k.Binding); err != nil {
						t.Errorf("a signing secret does not open: %v", err)
					}
				}
				for _, c := range d.Credentials {
					if plain, err := both.Open(c.Sealed, c.Binding); err != nil || string(plain.Reveal()) != "token" {
						t.Errorf("a credential does not open: %v", err)
					}
				}
			}
		}
	})
	rotated := map[hub.DestinationID]string{}
	others.Go(func() {
		for i := 0; i < many && stop.Err() == nil; i += 3 {
			done, mistakes, err := o.RotateSecret(t.Context(), acme, controlplane.Rotation{ID: controlplane.GlobalID(controlplane.DestinationIDs, dests[i].ID)})
			if err != nil || mistakes != nil {
				t.Errorf("a rotation meanwhile: %v %v", mistakes, err)
			}
			rotated[dests[i]] = done.SigningSecret
		}
	})
	steps := 0
	work := controlplane.Rewrapping{DB: o.DB, Keys: both, Random: rand.Reader, Batch: 20, Progress: func(controlplane.Rewrapped) { steps++ }}
	done, err := work.Run(t.Context())
	cancel()
	others.Wait()
	if err != nil || done.Unopened != 0 || done.Moved < many/2 || steps < 5 {
		t.Errorf("%+v after %d batches, %v", done, steps, err)
	}
	if again, err := work.Run(t.Context()); err != nil || again != (controlplane.Rewrapped{}) {
		t.Errorf("a second run: %+v, %v", again, err)
	}
	use, err := o.DB.KeyUse(t.Context())
	if err != nil || len(use) != 1 || use[0] != (db.KeyUse{KeyID: "new", SigningSecrets: many, Credentials: many / 10}) {
		t.Errorf("in use: %+v, %v", use, err)
	}
	for dest, text := range rotated {
		if texts, _ := o.signing(dest); len(texts) != 1 || texts[0] != text {
			t.Errorf("a rotation was undone: %v signs", texts)
		}
	}
	t.Run("the_old_key_is_needed_no_more", func(t *testing.T) {
		o.keys = keyring(t, newKey)
		o.signing(dests[1])
	})
	t.Run("what_was_moved_to_another_row_does_not_open", func(t *testing.T) {
		a, b := o.destination(dests[1]).Keys[0], o.destination(dests[2]).Keys[0]
		if _, err := both.Open(a.Sealed, b.Binding); err == nil {
			t.Error("it opens")
		}
	})
	t.Run("what_nothing_opens_stays", func(t *testing.T) {
		o.exec(`UPDATE destination_secrets SET key_id = 'lost' WHERE destination_id = $1`, dests[1].String())
		if again, err := work.Run(t.Context()); err != nil || again != (controlplane.Rewrapped{Unopened: 1}) {
			t.Errorf("%+v, %v", again, err)
		}
	})
	t.Run("what_changed_since_it_was_read_is_left_alone", func(t *testing.T) {
		for kind, table := range map[db.SecretKind]string{db.SigningSecret: "destination_secrets", db.CredentialSecret: "destination_credentials"} {
			for column, value := range map[string]string{"key_id": "newer", "wrapped_key": "newer"} {
				o.exec(`UPDATE `+table+` SET key_id = 'other' WHERE destination_id = $1`, dests[10].String())
				was, err := o.DB.SecretsToRewrap(t.Context(), kind, "new", hub.ID{}, many)
				if err != nil || len(was) == 0 {
					t.Fatalf("%s: %d, %v", kind, len(was), err)
				}
				last := was[len(was)-1]
				o.exec(`UPDATE `+table+` SET `+column+` = '`+value+`' WHERE id = $1`, last.Binding.Row.String())
				list := []db.Rewrap{{Was: last, Next: secret.Sealed{KeyID: "x", WrappedKey: []byte("x")}}}
				if n, err := o.DB.RewrapSecrets(t.Context(), kind, list); err != nil || n != 0 {
					t.Errorf("%s with another %s: %d changed, %v", kind, column, n, err)
				}
			}
		}
	})
}
