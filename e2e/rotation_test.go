package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	rotationEvents, soakRotationEvents = 500, 2500 // for each of the four receivers
	rotationPace, soakRotationPace     = 100, 300  // deliveries a second, to all four together
	// grace is how long the data plane may go on with the keys from before a
	// change: it looks every second.
	grace = 2 * time.Second
)

// signed is a webhook as it came to a strictReceiver.
type signed struct {
	at   time.Time
	by   []int // which of the secrets made its signatures, in their order
	good bool
}

// strictReceiver verifies with the Standard Webhooks library and exactly the
// secrets that it holds at the moment, and refuses everything else.
type strictReceiver struct {
	addr    string
	secrets []string

	mu    sync.Mutex
	holds map[string][]int // by path, numbers of secrets
	got   map[string][]signed
}

func newStrictReceiver(t *testing.T, secrets []string) *strictReceiver {
	t.Helper()
	r := &strictReceiver{secrets: secrets, holds: map[string][]int{}, got: map[string][]signed{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = "http://" + l.Addr().String()
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })
	return r
}

// hold replaces the secrets with which a path verifies.
func (r *strictReceiver) hold(path string, which ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds[path] = which
}

func (r *strictReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	holds := r.holds[req.URL.Path]
	r.mu.Unlock()
	good := slices.ContainsFunc(holds, func(i int) bool {
		wh, err := standardwebhooks.NewWebhook(r.secrets[i])
		return err == nil && wh.Verify(body, req.Header) == nil
	})
	if req.Header.Get("X-Lerian-Event-Type") != "hub.verification" {
		one := signed{at: at, by: r.signers(req.Header, body), good: good}
		r.mu.Lock()
		r.got[req.URL.Path] = append(r.got[req.URL.Path], one)
		r.mu.Unlock()
	}
	if !good {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = w.Write(body) // the challenge of a probe is in it
}

// signers finds out who made each signature; -1 is nobody known.
func (r *strictReceiver) signers(h http.Header, body []byte) (by []int) {
	for _, signature := range strings.Split(h.Get("webhook-signature"), " ") {
		one := h.Clone()
		one.Set("webhook-signature", signature)
		by = append(by, slices.IndexFunc(r.secrets, func(s string) bool {
			wh, err := standardwebhooks.NewWebhook(s)
			return err == nil && wh.Verify(body, one) == nil
		}))
	}
	return by
}

func (r *strictReceiver) all(path string) []signed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[path])
}

func (r *strictReceiver) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.got {
		n += len(list)
	}
	return n
}

// moment is when a change of the keys was asked for and answered.
type moment struct{ asked, answered time.Time }

// TestRotation rotates the signing secrets of four destinations twice and then
// ends the old ones, while deliveries go on. A receiver that never heard of
// the rotation verifies all the way to the end of its secret; one that takes
// each new secret at once, one that holds all, and one that lags a rotation
// behind verify everything too.
func TestRotation(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	events, pace := rotationEvents, rotationPace
	if os.Getenv("STREAMING_HUB_TEST_SOAK") != "" {
		events, pace = soakRotationEvents, soakRotationPace
	}
	d := newDesk(t, startDev(ctx, t, stateDir(t)).state)
	secrets := make([]string, 3)
	for i := range secrets {
		secrets[i] = "whsec_" + base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("the signing secret number %d of four", i)))
	}
	r := newStrictReceiver(t, secrets)
	const stays, swift, both, late = "/stays", "/swift", "/both", "/late"
	paths := []string{stays, swift, both, late}
	subs := map[string]sub{}
	for _, path := range paths {
		r.hold(path, 0)
		subs[path] = d.subscribe(ctx, t, "rotates", path, map[string]any{
			"destination": map[string]any{"url": r.addr + path, "signingSecret": secrets[0]},
		})
	}

	// Each event goes to all four.
	publishing, enough := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { enough(); <-done }()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second * 4 / time.Duration(pace))
		defer tick.Stop()
		for i := range events {
			if err := d.produce(publishing, "rotates", fmt.Sprintf("r-%d", i)); err != nil && publishing.Err() == nil {
				t.Errorf("publish event %d: %v", i, err)
				return
			}
			select {
			case <-tick.C:
			case <-publishing.Done():
				return
			}
		}
	}()
	reach := func(share int) {
		t.Helper()
		eventually(ctx, t, func() bool { return r.count() >= 4*events*share/100 },
			func() string { return fmt.Sprintf("%d of %d deliveries came", r.count(), 4*events) })
	}
	change := func(mutation string, input map[string]any, after func(path string)) (m moment) {
		t.Helper()
		m.asked = time.Now()
		for _, path := range paths {
			input["id"] = subs[path].Destination.ID
			d.do(ctx, t, mutation, "", input, nil)
		}
		m.answered = time.Now()
		// What was signed before still arrives; then the receivers change.
		quiet(ctx, t, grace, func() bool { return true }, func() string { return "" })
		for _, path := range paths {
			after(path)
		}
		return m
	}

	reach(10)
	r.hold(both, 0, 1, 2)
	first := change("rotateSigningSecret", map[string]any{"signingSecret": secrets[1], "overlap": "PT1H"}, func(path string) {
		if path == swift {
			r.hold(path, 1) // the old one is forgotten
		}
	})
	reach(35)
	second := change("rotateSigningSecret", map[string]any{"signingSecret": secrets[2], "overlap": "PT1H"}, func(path string) {
		switch path {
		case swift:
			r.hold(path, 2)
		case late:
			r.hold(path, 1)
		}
	})
	reach(60)
	// Everybody has the newest one before the old ones end.
	for _, path := range paths {
		r.hold(path, 2)
	}
	revoked := change("revokeSigningSecret", map[string]any{"version": 1}, func(string) {})
	reach(80)
	ended := change("revokeSigningSecret", map[string]any{"version": 2}, func(string) {})
	<-done
	eventually(ctx, t, func() bool { return r.count() >= 4*events },
		func() string { return fmt.Sprintf("%d of %d deliveries came", r.count(), 4*events) })

	phases := []struct {
		rule        string
		after, till time.Time
		by          []int
	}{
		{"one_signature_before_a_rotation", time.Time{}, first.asked, []int{0}},
		{"two_in_the_overlap_the_newest_first", first.answered.Add(grace), second.asked, []int{1, 0}},
		{"three_after_a_rotation_within_the_overlap", second.answered.Add(grace), revoked.asked, []int{2, 1, 0}},
		{"a_revoked_secret_signs_no_more", revoked.answered.Add(grace), ended.asked, []int{2, 1}},
		{"one_again_when_all_old_ones_are_revoked", ended.answered.Add(grace), ended.answered.Add(time.Hour), []int{2}},
	}
	for _, path := range paths {
		list := r.all(path)
		if len(list) != events {
			t.Errorf("%s got %d requests for %d events", path, len(list), events)
		}
		refused := slices.DeleteFunc(list, func(one signed) bool { return one.good })
		if len(refused) > 0 {
			t.Errorf("%s could not verify %d requests, the first one signed by %v", path, len(refused), refused[0].by)
		}
	}
	for _, p := range phases {
		t.Run(p.rule, func(t *testing.T) {
			n := 0
			var wrong []string
			for _, path := range paths {
				for _, one := range r.all(path) {
					if one.at.Before(p.after) || !one.at.Before(p.till) {
						continue
					}
					n++
					if !slices.Equal(one.by, p.by) {
						wrong = append(wrong, fmt.Sprintf("a request to %s, %s behind the change, is signed by %v", path, one.at.Sub(p.after), one.by))
					}
				}
			}
			if len(wrong) > 0 {
				t.Errorf("%d of %d requests are not signed by %v: %s …", len(wrong), n, p.by, wrong[0])
			}
			if n < 4 {
				t.Errorf("only %d requests came in this phase", n)
			}
		})
	}
	for _, c := range []struct {
		what string
		moment
		till time.Time
		has  func([]int) bool
	}{
		{"the first rotation", first, second.asked, func(by []int) bool { return slices.Contains(by, 1) }},
		{"the second rotation", second, revoked.asked, func(by []int) bool { return slices.Contains(by, 2) }},
		{"the revocation of the oldest", revoked, ended.asked, func(by []int) bool { return !slices.Contains(by, 0) }},
		{"the revocation of the other", ended, ended.answered.Add(time.Hour), func(by []int) bool { return !slices.Contains(by, 1) }},
	} {
		last := time.Duration(0)
		for _, path := range paths {
			for _, one := range r.all(path) {
				if one.at.After(c.answered) && one.at.Before(c.till) && !c.has(one.by) {
					last = max(last, one.at.Sub(c.answered))
				}
			}
		}
		t.Logf("%s: the last request with the keys from before came %s after the answer", c.what, last)
	}
	d.keysOf(ctx, t, subs[stays].Destination.ID, 3)
}

// keysOf checks which versions a destination's signing keys have.
func (d *desk) keysOf(ctx context.Context, t *testing.T, destination string, versions ...int) {
	t.Helper()
	var one struct {
		Destination struct{ SigningKeys []struct{ Version int } }
	}
	d.ask(ctx, t, `query($id: ID!) { destination(id: $id) { signingKeys { version } } }`, map[string]any{"id": destination}, &one)
	var got []int
	for _, k := range one.Destination.SigningKeys {
		got = append(got, k.Version)
	}
	if !slices.Equal(got, versions) {
		text, _ := json.Marshal(got) // numbers always marshal
		t.Errorf("the keys that sign are %s, want %v", text, versions)
	}
}
