package main

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func TestKeys_status_and_rewrap(t *testing.T) {
	const older, newer = "old:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "new:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	dsn := dbtest.New(t)
	d, err := db.Open(t.Context(), db.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	ring, err := secret.ParseKeyring(older)
	if err != nil {
		t.Fatal(err)
	}
	id := hubtest.NewID
	_, _, err = d.CreateSubscription(t.Context(), db.NewSubscription{
		Subscription: hub.EventSubscription{
			ID: hub.SubscriptionID{ID: id()}, Tenant: "acme", Name: "x", EventTypes: []string{"*"}, Kind: hub.SinkWebhook,
			VerificationState: hub.VerificationActive, Timeout: hub.DefaultTimeout, CreatedAt: time.Now(),
		},
		Destination: hub.Destination{ID: hub.DestinationID{ID: id()}, Tenant: "acme", Kind: hub.SinkWebhook, URL: "https://a.example/", CreatedAt: time.Now()},
		SecretID:    id(),
		Seal: func(b secret.Binding) (secret.Sealed, error) {
			_, plain := secret.NewSigning(rand.Reader)
			return ring.Seal(rand.Reader, plain, b)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := func(configured, what string) (string, error) {
		t.Setenv("STREAMING_HUB_KEK_KEYS", configured)
		var out bytes.Buffer
		err := run(t.Context(), []string{"keys", what, "--postgres-dsn", dsn}, &out)
		return strings.Join(strings.Fields(out.String()), " "), err
	}
	for _, step := range []struct {
		rule, configured, what, out string
		fails                       bool
	}{
		{"counts_by_key", newer + "," + older, "status", "KEY SIGNING SECRETS CREDENTIALS new 0 0 encrypts and opens old 1 0 opens", false},
		{"names_a_key_that_is_missing", newer, "status", "KEY SIGNING SECRETS CREDENTIALS new 0 0 encrypts and opens old 1 0 not configured: nothing opens these", true},
		{"leaves_what_it_cannot_open", newer, "rewrap", "0 secrets moved to key new, 0 changed meanwhile, 1 that no configured key opens.", true},
		{"needs_a_key", "", "rewrap", "", true},
		{"moves_all", newer + "," + older, "rewrap", "1 secrets moved to key new, 0 changed meanwhile, 0 that no configured key opens.", false},
		{"moves_nothing_twice", newer, "rewrap", "0 secrets moved to key new, 0 changed meanwhile, 0 that no configured key opens.", false},
		{"the_old_key_can_go", newer, "status", "KEY SIGNING SECRETS CREDENTIALS new 1 0 encrypts and opens", false},
	} {
		t.Run(step.rule, func(t *testing.T) {
			if out, err := keys(step.configured, step.what); out != step.out || (err != nil) != step.fails {
				t.Errorf("%q, %v; want %q", out, err, step.out)
			}
		})
	}
}
