package snapshot

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/retry"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func TestTenant_Route(t *testing.T) {
	t.Run("nothing_is_signed_without_a_key", func(t *testing.T) {
		past := time.Now().Add(-time.Second)
		for name, change := range map[string]func(s *scene){
			"no_secret":           func(*scene) {},
			"only_one_that_ended": func(s *scene) { s.keys(t, past) },
			"sealed_by_an_unknown_key": func(s *scene) {
				s.keys(t, time.Time{})
				s.store.configs["acme"].Destinations[s.dest].Secrets[0].Sealed.KeyID = "lost"
			},
			"sealed_for_another_row": func(s *scene) {
				s.keys(t, time.Time{})
				s.store.configs["acme"].Destinations[s.dest].Secrets[0].Binding.Version++
			},
			"one_of_two_does_not_open": func(s *scene) {
				s.keys(t, time.Time{}, time.Now().Add(time.Hour))
				s.store.configs["acme"].Destinations[s.dest].Secrets[0].Sealed.Ciphertext = []byte("x")
			},
			"destination_is_missing": func(s *scene) { s.store.configs["acme"].Destinations = nil },
			"credential_does_not_open": func(s *scene) {
				s.keys(t, time.Time{})
				s.credential(t, hub.Credential{Kind: hub.CredentialBearer}, "token").Sealed.KeyID = "lost"
			},
			"credential_of_another_row": func(s *scene) {
				s.keys(t, time.Time{})
				s.credential(t, hub.Credential{Kind: hub.CredentialBearer}, "token").Binding.Version++
			},
			"certificate_without_its_key": func(s *scene) {
				s.keys(t, time.Time{})
				s.credential(t, hub.Credential{Kind: hub.CredentialCertificate, Certificate: "none"}, "key")
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := newScene(t, nil)
				change(s)
				route := s.get(t).Route(s.sub)
				if route == nil || route.Signer != nil || route.Unsigned == nil || route.Credential != nil || route.Certificate != nil {
					t.Errorf("route = %+v", route)
				}
			})
		}
	})
	t.Run("a_hub_without_key_encryption_keys_signs_nothing", func(t *testing.T) {
		s := newScene(t, func(d *Deps) { d.Keyring = nil })
		s.keys(t, time.Time{})
		if route := s.get(t).Route(s.sub); route.Signer != nil || !errors.Is(route.Unsigned, secret.ErrNoKey) {
			t.Errorf("route = %+v", route)
		}
	})
	t.Run("leads_to_the_destination", func(t *testing.T) {
		s := newScene(t, nil)
		s.keys(t, time.Time{})
		route := s.get(t).Route(s.sub)
		if route.Destination.URL != "https://example.com/" || route.Subscription.ID != s.sub || route.Signer.Keys() != 1 || route.Unsigned != nil {
			t.Errorf("route = %+v", route)
		}
	})
	t.Run("carries_headers_and_credential", func(t *testing.T) {
		s := newScene(t, nil)
		s.keys(t, time.Time{})
		s.store.configs["acme"].Subscriptions[0].Headers = []hub.Header{{Name: "X-Team", Value: "loans"}}
		s.credential(t, hub.Credential{Kind: hub.CredentialBasic, Name: "Aladdin"}, "open sesame")
		route := s.get(t).Route(s.sub)
		if route.Unsigned != nil || len(route.Headers) != 1 || route.Headers[0].Value != "loans" || route.Credential == nil || route.Certificate != nil ||
			route.Credential.Header != "Authorization" || string(route.Credential.Value.Reveal()) != "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" {
			t.Errorf("route = %+v", route)
		}
	})
	t.Run("carries_a_client_certificate", func(t *testing.T) {
		s := newScene(t, nil)
		s.keys(t, time.Time{})
		server := httptest.NewTLSServer(nil) // for its certificate
		defer server.Close()
		pair := server.TLS.Certificates[0]
		raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		block := func(kind string, b []byte) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
		}
		s.credential(t, hub.Credential{Kind: hub.CredentialCertificate, Certificate: block("CERTIFICATE", pair.Certificate[0])}, block("PRIVATE KEY", raw))
		if route := s.get(t).Route(s.sub); route.Unsigned != nil || route.Certificate == nil || route.Credential != nil {
			t.Errorf("route = %+v", route)
		}
	})
	for _, row := range []struct {
		name   string
		stored hub.RetryPolicy
		steps  []time.Duration
		want   hub.RetryKind
		max    int32
		warns  bool
	}{
		{name: "zero_policy_is_the_curve", want: hub.RetryCurve, max: 8},
		{name: "malformed_policy_is_the_curve_and_said", stored: hub.RetryPolicy{Kind: "CUBIC"}, want: hub.RetryCurve, max: 8, warns: true},
		{name: "sound_policy_stays", stored: retry.Workfront(false), want: hub.RetryExponential, max: 11},
		{name: "development_shortens_the_curve", steps: []time.Duration{0, time.Second}, want: hub.RetrySchedule, max: 2},
		{name: "development_shortens_nothing_else", stored: retry.Workfront(false), steps: []time.Duration{0, time.Second}, want: hub.RetryExponential, max: 11},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, func(d *Deps) { d.CurveSteps = row.steps })
			s.store.configs["acme"].Subscriptions[0].RetryPolicy = row.stored
			policy := s.get(t).Route(s.sub).Policy
			if policy.Kind != row.want || retry.MaxAttempts(policy) != row.max {
				t.Errorf("policy = %+v", policy)
			}
			if warned := strings.Contains(s.log.String(), "malformed"); warned != row.warns {
				t.Errorf("log: %s", s.log)
			}
		})
	}
}

// credential gives the destination a credential, sealed.
func (s *scene) credential(t *testing.T, c hub.Credential, plain string) *db.SealedCredential {
	t.Helper()
	c.Version = 1
	binding := secret.Binding{Tenant: "acme", Row: hubtest.NewID(), Version: 1}
	sealed, err := s.keyring.Seal(rand.Reader, secret.New([]byte(plain)), binding)
	if err != nil {
		t.Fatal(err)
	}
	dest := s.store.configs["acme"].Destinations[s.dest]
	dest.Credentials = []db.SealedCredential{{Credential: c, Sealed: sealed, Binding: binding}}
	s.store.configs["acme"].Destinations = map[hub.DestinationID]db.DestinationConfig{s.dest: dest}
	return &dest.Credentials[0]
}
