package signing_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

func keys(t testing.TB, texts ...string) []secret.Secret {
	t.Helper()
	out := make([]secret.Secret, len(texts))
	for i, text := range texts {
		s, err := secret.ParseSigning(text)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = s
	}
	return out
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/signing.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Name      string
			Secrets   []string `json:"secrets_newest_first"`
			ID        string   `json:"webhook_id"`
			Timestamp int64
			Body      []byte `json:"body_base64"`
			Standard  string `json:"webhook-signature"`
			Lerian    string `json:"X-Lerian-Signature"`
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, row := range vectors.Rows {
		t.Run(row.Name, func(t *testing.T) {
			secrets := keys(t, row.Secrets...)
			signer := signing.NewSigner(secrets)
			for range 2 { // the second time with pooled state
				standard, lerian := signer.Sign(row.ID, row.Timestamp, row.Body)
				if standard != row.Standard || lerian != row.Lerian {
					t.Errorf("Sign = %q, %q; want %q, %q", standard, lerian, row.Standard, row.Lerian)
				}
			}
			for i, key := range secrets {
				if !signing.Verify(key, row.ID, row.Timestamp, row.Body, row.Standard) || !signing.VerifyLerian(key, row.Timestamp, row.Body, row.Lerian) {
					t.Errorf("secret %d does not verify", i)
				}
				verifiedByLibrary(t, row.Secrets[i], row.ID, row.Timestamp, row.Body, row.Standard, true)
			}
		})
	}
	if len(vectors.Rows) < 9 {
		t.Fatalf("only %d rows", len(vectors.Rows))
	}
}

// verifiedByLibrary asks the Standard Webhooks library, which shares no code
// with ours.
func verifiedByLibrary(t *testing.T, key, id string, timestamp int64, body []byte, signature string, want bool) {
	t.Helper()
	library, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(timestamp, 10))
	h.Set("webhook-signature", signature)
	if err := library.VerifyIgnoringTimestamp(body, h); (err == nil) != want {
		t.Errorf("the library says: %v", err)
	}
}

const (
	k1 = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	k2 = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
)

func TestSign_known_requests(t *testing.T) {
	for _, row := range []struct {
		rule, body string
		secrets    []string
		want       string
	}{
		{"decoded_key_over_raw_body", `{"a":1}`, []string{k1}, "v1,o7yBpzPlkH1pp34zMf+7PpiQ1sEZa0UPGAkWkz9ChDM="},
		{"empty_body", "", []string{k1}, "v1,PvI5wx4aJrULS0NIPJpiewoql3YbMQ+RLgFZoYykkQY="},
		{"body_is_not_reformatted", `{"b":2, "a":1.0,"n":12345678901234567890}`, []string{k1}, "v1,GtRzChJPc3Q5y+oHMvHuGcJODMQFeolxQ0GSdvvgvJg="},
		{"overlap_newest_first", `{"a":1}`, []string{k2, k1}, "v1,vowqy9qA+fQYk/MTPA9Mx3qLX50b9ATMwvbupbKSnNs= v1,o7yBpzPlkH1pp34zMf+7PpiQ1sEZa0UPGAkWkz9ChDM="},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, _ := signing.NewSigner(keys(t, row.secrets...)).Sign("msg_fixture_0001", 1700000000, []byte(row.body))
			if got != row.want {
				t.Errorf("Sign = %q, want %q", got, row.want)
			}
		})
	}
}

func TestVerify_refuses_every_change(t *testing.T) {
	key, other := keys(t, k1)[0], keys(t, k2)[0]
	body := []byte(`{"a":1}`)
	standard, lerian := signing.NewSigner([]secret.Secret{key}).Sign("m1", 1700000000, body)
	for _, row := range []struct {
		rule   string
		key    secret.Secret
		id     string
		at     int64
		body   string
		header string
		want   bool
	}{
		{"as_sent", key, "m1", 1700000000, `{"a":1}`, standard, true},
		{"among_others", key, "m1", 1700000000, `{"a":1}`, "v2,x  v1,AAAA " + standard, true},
		{"another_key", other, "m1", 1700000000, `{"a":1}`, standard, false},
		{"another_id", key, "m2", 1700000000, `{"a":1}`, standard, false},
		{"another_time", key, "m1", 1700000001, `{"a":1}`, standard, false},
		{"another_body", key, "m1", 1700000000, `{"a":2}`, standard, false},
		{"another_version", key, "m1", 1700000000, `{"a":1}`, "v2," + strings.TrimPrefix(standard, "v1,"), false},
		{"the_other_header", key, "m1", 1700000000, `{"a":1}`, lerian, false},
		{"no_header", key, "m1", 1700000000, `{"a":1}`, "", false},
		{"no_key", secret.Secret{}, "m1", 1700000000, `{"a":1}`, "", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := signing.Verify(row.key, row.id, row.at, []byte(row.body), row.header); got != row.want {
				t.Errorf("Verify = %v", got)
			}
		})
	}
	if signing.VerifyLerian(key, 1700000001, body, lerian) || !signing.VerifyLerian(key, 1700000000, body, lerian) {
		t.Error("VerifyLerian does not cover the time")
	}
	verifiedByLibrary(t, k2, "m1", 1700000000, body, standard, false)
}

func TestSigner_without_keys_signs_nothing(t *testing.T) {
	for _, keys := range [][]secret.Secret{nil, {{}}, {secret.New(nil)}} {
		s := signing.NewSigner(keys)
		if standard, lerian := s.Sign("m1", 1, nil); s.Keys() != 0 || standard != "" || lerian != "" {
			t.Errorf("signed with %d keys: %q %q", s.Keys(), standard, lerian)
		}
	}
}

func TestSigner_is_safe_for_concurrent_use(t *testing.T) {
	signer := signing.NewSigner(keys(t, k2, k1))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			id, body := "m"+strconv.Itoa(i), []byte(strings.Repeat("x", i*100))
			want, _ := signing.NewSigner(keys(t, k2, k1)).Sign(id, int64(i), body)
			for range 200 {
				if got, _ := signer.Sign(id, int64(i), body); got != want {
					t.Errorf("request %d got the signature of another", i)
					return
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkSign(b *testing.B) {
	body := make([]byte, 1024)
	for _, row := range []struct {
		name    string
		secrets []string
	}{{"one_key", []string{k1}}, {"overlap", []string{k2, k1}}} {
		b.Run(row.name, func(b *testing.B) {
			signer := signing.NewSigner(keys(b, row.secrets...))
			b.ReportAllocs()
			for b.Loop() {
				signer.Sign("0198f3a2-7c11-7e60-a5f8-2f9d1f4b7a01", 1764410400, body)
			}
		})
	}
}
