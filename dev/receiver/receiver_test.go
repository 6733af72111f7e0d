package receiver_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/dev/receiver"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	one = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	two = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
	id  = "01890a5d-ac96-774b-bcce-b302099a8057"
)

// post sends a webhook signed by the official library and by an HMAC written
// out here, with the secrets given; change edits the request before it leaves.
func post(t testing.TB, h http.Handler, path, body string, secrets []string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	at := time.Now()
	var standard, own []string
	for _, text := range secrets {
		w, err := standardwebhooks.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := w.Sign(id, at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		standard = append(standard, sig)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "v1:%d.%s", at.Unix(), body)
		own = append(own, fmt.Sprintf("v1,sha256=%x", mac.Sum(nil)))
	}
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	req.Header.Set("webhook-signature", strings.Join(standard, " "))
	req.Header.Set("X-Lerian-Signature", strings.Join(own, " "))
	if change != nil {
		change(req)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

func do(t *testing.T, h http.Handler, method, url, body string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, url, strings.NewReader(body)))
	return rec
}

func newReceiver(t testing.TB, o receiver.Options) *receiver.Receiver {
	t.Helper()
	r, err := receiver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSignatures(t *testing.T) {
	secrets := map[string][]string{"/hooks/a": {one}}
	for name, c := range map[string]struct {
		path   string
		signed []string
		change func(*http.Request)
		want   receiver.Signatures
		status int
	}{
		"right_ones_verify":                  {path: "/hooks/a", signed: []string{one}, want: receiver.Signatures{Standard: "verified", Own: "verified"}, status: 200},
		"one_of_two_in_a_rotation_is_enough": {path: "/hooks/a", signed: []string{two, one}, want: receiver.Signatures{Standard: "verified", Own: "verified"}, status: 200},
		"another_secret_is_refused":          {path: "/hooks/a", signed: []string{two}, want: receiver.Signatures{Standard: "wrong", Own: "wrong"}, status: 401},
		"path_without_a_secret_is_taken":     {path: "/hooks/b", signed: []string{one}, want: receiver.Signatures{Standard: "no secret", Own: "no secret"}, status: 200},
		"missing_own_signature": {path: "/hooks/a", signed: []string{one}, change: func(r *http.Request) { r.Header.Del("X-Lerian-Signature") },
			want: receiver.Signatures{Standard: "verified", Own: "missing"}, status: 401},
		"changed_body": {path: "/hooks/a", signed: []string{one}, change: func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
		}, want: receiver.Signatures{Standard: "wrong", Own: "wrong"}, status: 401},
		"old_timestamp": {path: "/hooks/a", signed: []string{one}, change: func(r *http.Request) {
			r.Header.Set("webhook-timestamp", fmt.Sprint(time.Now().Add(-6*time.Minute).Unix()))
		}, want: receiver.Signatures{Standard: "wrong", Own: "wrong"}, status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, receiver.Options{Secrets: secrets})
			rec := post(t, r, c.path, `{"n":1}`, c.signed, c.change)
			if rec.Code != c.status {
				t.Errorf("status %d, want %d", rec.Code, c.status)
			}
			if diff := cmp.Diff(c.want, r.Requests("")[0].Signatures); diff != "" {
				t.Error(diff)
			}
			counting := newReceiver(t, receiver.Options{Secrets: secrets, CountOnly: true})
			post(t, counting, c.path, `{"n":1}`, c.signed, c.change)
			if got := counting.Counts().Unverified == 0; got != r.Requests("")[0].Verified {
				t.Errorf("counting mode says verified=%v, the library %v", got, !got)
			}
		})
	}
}

func TestChallenge(t *testing.T) {
	probe := func(r *http.Request) { r.Header.Set("X-Lerian-Event-Type", receiver.VerificationType) }
	const body = `{"challenge":"abc"}`
	t.Run("is_echoed", func(t *testing.T) {
		r := newReceiver(t, receiver.Options{Secrets: map[string][]string{"": {one}}})
		if got := post(t, r, "/x", body, []string{one}, probe).Body.String(); got != body {
			t.Errorf("answer %q", got)
		}
	})
	t.Run("is_not_echoed_to_a_wrong_signature", func(t *testing.T) {
		r := newReceiver(t, receiver.Options{Secrets: map[string][]string{"": {one}}})
		if rec := post(t, r, "/x", body, []string{two}, probe); rec.Code != 401 || strings.Contains(rec.Body.String(), "abc") {
			t.Errorf("answer %d %q", rec.Code, rec.Body)
		}
	})
	t.Run("is_not_echoed_to_other_event_types", func(t *testing.T) {
		r := newReceiver(t, receiver.Options{})
		if got := post(t, r, "/x", body, nil, nil).Body.String(); got != "" {
			t.Errorf("answer %q", got)
		}
	})
	t.Run("fails_while_the_script_fails", func(t *testing.T) {
		r := newReceiver(t, receiver.Options{})
		do(t, r, "PUT", "/script/x", `{"answers":[{"status":503}]}`)
		if rec := post(t, r, "/x", body, nil, probe); rec.Code != 503 || rec.Body.Len() != 0 {
			t.Errorf("answer %d %q", rec.Code, rec.Body)
		}
	})
}

func TestScript(t *testing.T) {
	r := newReceiver(t, receiver.Options{})
	statuses := func(n int) (out []int) {
		for range n {
			out = append(out, post(t, r, "/hooks/a", "{}", nil, nil).Code)
		}
		return out
	}
	t.Run("answers_in_turn_and_repeats_the_last", func(t *testing.T) {
		do(t, r, "PUT", "/script/hooks/a", `{"answers":[{"status":500,"times":2},{"status":429},{"status":204}]}`)
		if diff := cmp.Diff([]int{500, 500, 429, 204, 204}, statuses(5)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("body_and_headers", func(t *testing.T) {
		do(t, r, "PUT", "/script/hooks/a", `{"answers":[{"status":503,"headers":{"Retry-After":"7"}}],"body":"busy","headers":{"X-Why":"load"}}`)
		rec := post(t, r, "/hooks/a", "{}", nil, nil)
		got := []string{rec.Body.String(), rec.Header().Get("Retry-After"), rec.Header().Get("X-Why")}
		if diff := cmp.Diff([]string{"busy", "7", "load"}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("other_paths_are_left_alone", func(t *testing.T) {
		if rec := post(t, r, "/hooks/b", "{}", nil, nil); rec.Code != 200 {
			t.Errorf("status %d", rec.Code)
		}
	})
	t.Run("delay_ends_when_the_sender_leaves", func(t *testing.T) {
		do(t, r, "PUT", "/script/slow", `{"delayMs":300000}`)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			post(t, r, "/slow", "{}", nil, func(req *http.Request) { *req = *req.WithContext(ctx) })
		}()
		if _, err := r.Await(t.Context(), "/slow", 1); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
	})
	t.Run("removed", func(t *testing.T) {
		do(t, r, "DELETE", "/script/hooks/a", "")
		if diff := cmp.Diff([]int{200}, statuses(1)); diff != "" {
			t.Error(diff)
		}
	})
	for name, body := range map[string]string{
		"unknown_field_is_refused": `{"anwsers":[]}`,
		"bad_status_is_refused":    `{"answers":[{"status":42}]}`,
		"bad_delay_is_refused":     `{"delayMs":-1}`,
		"no_JSON_is_refused":       `answers`,
	} {
		t.Run(name, func(t *testing.T) {
			if rec := do(t, r, "PUT", "/script/hooks/a", body); rec.Code != 400 {
				t.Errorf("status %d", rec.Code)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	r := newReceiver(t, receiver.Options{Keep: 3})
	get := func(query string) (list []receiver.Request) {
		rec := do(t, r, "GET", "/requests"+query, "")
		if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	bodies := func(list []receiver.Request) (out []string) {
		for _, q := range list {
			out = append(out, string(q.BodyBase64))
		}
		return out
	}
	for i, path := range []string{"/a", "/a", "/b", "/a"} {
		post(t, r, path, fmt.Sprint(i), nil, nil)
	}
	t.Run("the_newest_are_kept_the_oldest_of_them_first", func(t *testing.T) {
		if diff := cmp.Diff([]string{"1", "2", "3"}, bodies(get(""))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("of_a_path", func(t *testing.T) {
		if diff := cmp.Diff([]string{"1", "3"}, bodies(get("?path=/a"))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("limit_takes_the_newest", func(t *testing.T) {
		if diff := cmp.Diff([]string{"3"}, bodies(get("?path=/a&limit=1"))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("body_that_is_no_text_stays_exact", func(t *testing.T) {
		raw := []byte{0xff, 0x00, 'x'}
		post(t, r, "/raw", string(raw), nil, nil)
		got := get("?path=/raw")[0]
		if got.Body != nil || !bytes.Equal(got.BodyBase64, raw) {
			t.Errorf("body %v, base64 of %v", got.Body, got.BodyBase64)
		}
	})
	t.Run("forgotten_on_DELETE", func(t *testing.T) {
		do(t, r, "DELETE", "/requests", "")
		if n := len(get("")); n != 0 {
			t.Errorf("%d requests are left", n)
		}
	})
}

func TestCounts(t *testing.T) {
	for _, countOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("count_only_%v", countOnly), func(t *testing.T) {
			r := newReceiver(t, receiver.Options{CountOnly: countOnly, Secrets: map[string][]string{"": {one}}})
			post(t, r, "/a", "{}", []string{one}, nil)
			post(t, r, "/a", "{}", []string{one}, nil)
			post(t, r, "/a", "{}", []string{two}, func(req *http.Request) { req.Header.Set("webhook-id", "01890a5d-ac96-774b-bcce-b302099a8058") })
			if diff := cmp.Diff(receiver.Counts{Requests: 3, Distinct: 2, Repeats: 1, Unverified: 1}, r.Counts()); diff != "" {
				t.Error(diff)
			}
			parsed, err := hub.ParseID(id)
			if err != nil {
				t.Fatal(err)
			}
			if n := r.Times(parsed); n != 2 {
				t.Errorf("the id came %d times", n)
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	r := newReceiver(t, receiver.Options{Secrets: map[string][]string{"/a": {one}}})
	if rec := do(t, r, "PUT", "/secrets", `{"path":"/a","secret":"`+two+`"}`); rec.Code != 204 {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	for _, s := range []string{one, two} {
		if rec := post(t, r, "/a", "{}", []string{s}, nil); rec.Code != 200 {
			t.Errorf("a secret of two is refused: %d", rec.Code)
		}
	}
	if rec := do(t, r, "PUT", "/secrets", `{"secret":"whsec_short"}`); rec.Code != 400 || strings.Contains(rec.Body.String(), "short\"") {
		t.Errorf("malformed secret: %d %s", rec.Code, rec.Body)
	}
}

func BenchmarkWebhook(b *testing.B) {
	r := newReceiver(b, receiver.Options{CountOnly: true, Secrets: map[string][]string{"/a": {one}}})
	body := strings.Repeat("x", 1024)
	var header http.Header
	post(b, r, "/a", body, []string{one}, func(req *http.Request) { header = req.Header })
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest("POST", "/a", strings.NewReader(body))
		req.Header = header
		r.ServeHTTP(httptest.NewRecorder(), req)
	}
}
