package pull

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// shelf is a store in memory that counts what it is asked.
type shelf struct {
	mu     sync.Mutex
	events map[hub.TenantID][]hub.Event
	tokens map[hub.TokenID]hub.APIToken
	asked  map[string]int
	away   error
}

func newShelf() *shelf {
	return &shelf{events: map[hub.TenantID][]hub.Event{}, tokens: map[hub.TokenID]hub.APIToken{}, asked: map[string]int{}}
}

func (s *shelf) enter(what string) func() {
	s.mu.Lock()
	s.asked[what]++
	return s.mu.Unlock
}

func (s *shelf) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *shelf) NewestSeqs(_ context.Context, tenants []hub.TenantID) (map[hub.TenantID]int64, error) {
	defer s.enter("newest")()
	newest := map[hub.TenantID]int64{}
	for _, t := range tenants {
		newest[t] = int64(len(s.events[t]))
	}
	return newest, s.away
}

func (s *shelf) ScanEvents(_ context.Context, t hub.TenantID, after int64, _ time.Time, limit int) (marks []db.EventMark, err error) {
	defer s.enter("scan")()
	for i := after; i < int64(len(s.events[t])) && len(marks) < limit; i++ {
		marks = append(marks, db.EventMark{Event: s.events[t][i]})
	}
	return marks, s.away
}

func (s *shelf) Events(_ context.Context, ids []hub.ID) (list []hub.Event, err error) {
	defer s.enter("events")()
	for _, all := range s.events {
		for _, e := range all {
			for _, id := range ids {
				if e.ID.ID == id {
					list = append(list, e)
				}
			}
		}
	}
	return list, s.away
}

func (s *shelf) SubscriptionsByID(context.Context, []hub.SubscriptionID) ([]hub.EventSubscription, error) {
	return nil, nil
}

func (s *shelf) CreateToken(_ context.Context, t hub.APIToken) error {
	defer s.enter("create")()
	s.tokens[t.ID] = t
	return nil
}

func (s *shelf) TokenByID(_ context.Context, id hub.TokenID) (hub.APIToken, bool, error) {
	defer s.enter("token")()
	t, ok := s.tokens[id]
	return t, ok, s.away
}

// add stores an event as another process would: nobody here is told.
func (s *shelf) add(t hub.TenantID, e hub.Event) {
	defer s.enter("add")()
	e.Tenant, e.Seq = t, int64(len(s.events[t])+1)
	s.events[t] = append(s.events[t], e)
}

// Ingest stores a loan; the plan's writes are not looked at.
func (s *shelf) Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	for _, t := range b.Tenants {
		s.add(t, loans(1)[0])
	}
	_, err := plan(ctx, db.IngestState{})
	return err
}

// bubble is an API over a shelf in fake time.
type bubble struct {
	*testing.T
	shelf   *shelf
	api     *API
	tokens  *access.Tokens
	metrics *Metrics
	stop    context.CancelFunc
}

func inBubble(t *testing.T, test func(*bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, shelf: newShelf(), metrics: NewMetrics(prometheus.NewRegistry())}
		b.tokens = access.NewTokens(b.shelf)
		log := slog.New(slog.DiscardHandler)
		stopping, stop := context.WithCancel(t.Context())
		b.stop = stop
		b.api = New(Deps{
			Store: b.shelf, Subscriptions: b.shelf, Tokens: b.tokens, Watcher: NewWatcher(b.shelf, log),
			Rate: 100, Burst: 200, Stopping: stopping, Now: time.Now, Metrics: b.metrics, Log: log,
		})
		watching := make(chan error, 1)
		go func() { watching <- b.api.deps.Watcher.Run(stopping) }()
		test(b)
		stop()
		<-watching
	})
}

func (b *bubble) token(t hub.TenantID) (string, hub.TokenID) {
	text, token, err := b.tokens.Create(b.Context(), access.NewToken{Tenant: t, Name: "x", Role: hub.Viewer})
	if err != nil {
		b.Fatal(err)
	}
	return text, token.ID
}

// poll asks in the background.
func (b *bubble) poll(token, query string) <-chan *got {
	answer := make(chan *got, 1)
	go func() { answer <- get(b.Context(), b, b.api, token, query) }()
	synctest.Wait()
	return answer
}

func TestWait(t *testing.T) {
	t.Run("ends_empty_when_the_time_is_up", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			begun := time.Now()
			g := <-b.poll(token, "wait=30")
			if len(g.Events) != 0 || g.NextSeq != "0" || g.HasMore || time.Since(begun) != 30*time.Second {
				b.Errorf("after %s: %s", time.Since(begun), g.text)
			}
		})
	})
	t.Run("is_woken_at_once_by_what_this_process_stores", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			other, _ := b.token("bolt")
			inbox := b.api.deps.Watcher.Inbox(b.shelf)
			time.Sleep(100 * time.Millisecond) // off the watcher's beat
			answer, silent := b.poll(token, "wait=30"), b.poll(other, "wait=10")
			begun := time.Now()
			err := inbox.Ingest(b.Context(), db.IngestBatch{Tenants: []hub.TenantID{"acme"}}, func(context.Context, db.IngestState) (db.IngestWrites, error) {
				return db.IngestWrites{NextSeqs: map[hub.TenantID]int64{"acme": 2}}, nil
			})
			if err != nil {
				b.Fatal(err)
			}
			if g := <-answer; !cmp.Equal(g.seqs(), []string{"1"}) || g.NextSeq != "1" || time.Since(begun) != 0 {
				b.Errorf("after %s: %s", time.Since(begun), g.text)
			}
			if g := <-silent; len(g.Events) != 0 {
				b.Errorf("another tenant's: %s", g.text)
			}
		})
	})
	t.Run("sees_what_another_process_stores_within_half_a_second", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			answer := b.poll(token, "wait=30")
			begun := time.Now()
			b.shelf.add("acme", loans(1)[0])
			if g := <-answer; !cmp.Equal(g.seqs(), []string{"1"}) || time.Since(begun) > watchEvery {
				b.Errorf("after %s: %s", time.Since(begun), g.text)
			}
		})
	})
	t.Run("goes_on_past_what_the_filter_does_not_want", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			answer := b.poll(token, "wait=30&event_type=loan.paid")
			for range 3 {
				b.shelf.add("acme", loans(1)[0])
				time.Sleep(time.Second)
			}
			b.shelf.add("acme", fact("lender", "loan", "paid", 1, "{}"))
			if g := <-answer; !cmp.Equal(g.seqs(), []string{"4"}) || g.NextSeq != "4" {
				b.Errorf("%s", g.text)
			}
			// The cursor of an empty answer has moved past what was looked at.
			answer = b.poll(token, "wait=5&after_seq=4&event_type=loan.paid")
			b.shelf.add("acme", loans(1)[0])
			if g := <-answer; len(g.Events) != 0 || g.NextSeq != "5" {
				b.Errorf("%s", g.text)
			}
		})
	})
	t.Run("ends_empty_at_shutdown", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			answer := b.poll(token, "wait=30&after_seq=0")
			begun := time.Now()
			b.stop()
			g := <-answer
			if g.status != 200 || len(g.Events) != 0 || g.NextSeq != "0" || time.Since(begun) != 0 || g.header.Get("Connection") != "close" {
				b.Errorf("after %s: %d %s", time.Since(begun), g.status, g.text)
			}
			if g := <-b.poll(token, "wait=30"); g.status != 200 || time.Since(begun) != 0 {
				b.Errorf("a request that comes then: %s", g.text)
			}
		})
	})
	t.Run("ends_when_the_reader_leaves", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			ctx, leave := context.WithCancel(b.Context())
			answer := make(chan *got, 1)
			go func() { answer <- get(ctx, b, b.api, token, "wait=30") }()
			synctest.Wait()
			if n := testutil.ToFloat64(b.metrics.Waiting); n != 1 {
				b.Errorf("%g wait", n)
			}
			leave()
			<-answer
			if n := testutil.ToFloat64(b.metrics.Waiting); n != 0 {
				b.Errorf("%g still wait", n)
			}
			if n := testutil.ToFloat64(b.metrics.Requests.WithLabelValues("left")); n != 1 || len(b.api.deps.Watcher.tenants) != 0 {
				b.Errorf("%g left, %d watched", n, len(b.api.deps.Watcher.tenants))
			}
		})
	})
	t.Run("a_database_that_is_away_is_said", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			b.shelf.away = context.DeadlineExceeded
			g := <-b.poll(token, "wait=30")
			if g.status != 503 || g.Error.Code != "unavailable" || g.header.Get("Retry-After") != "1" || strings.Contains(g.text, "deadline") {
				b.Errorf("%d %s", g.status, g.text)
			}
		})
	})
}

// 1 000 long polls of 50 tenants cost the database one look-up each when they
// come, and together two a second while nothing happens.
func TestWait_1000_idle_polls_cost_next_to_nothing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var answers []<-chan *got
		for n := range 1000 {
			tenant := hub.TenantID(rune('a'+n%50/10)) + hub.TenantID(rune('0'+n%10))
			token, _ := b.token(tenant)
			answers = append(answers, b.poll(token, "wait=30&event_type=loan.paid"))
		}
		if n := testutil.ToFloat64(b.metrics.Waiting); n != 1000 {
			b.Errorf("%g wait", n)
		}
		for _, answer := range answers {
			if g := <-answer; g.status != 200 {
				b.Fatalf("%d %s", g.status, g.text)
			}
		}
		if n := b.shelf.count("newest"); n > 1000+30*int(time.Second/watchEvery) {
			b.Errorf("%d questions for the newest seq", n)
		}
		if n := b.shelf.count("scan"); n != 0 {
			b.Errorf("%d scans", n)
		}
	})
}

func TestAPI_revoked_token_is_refused_within_5_s(t *testing.T) {
	inBubble(t, func(b *bubble) {
		token, id := b.token("acme")
		if g := <-b.poll(token, ""); g.status != 200 {
			b.Fatalf("%d %s", g.status, g.text)
		}
		waiting := b.poll(token, "wait=30")
		gone := b.shelf.tokens[id]
		gone.RevokedAt = time.Now()
		b.shelf.tokens[id] = gone
		time.Sleep(5 * time.Second)
		if g := <-b.poll(token, ""); g.status != 401 {
			b.Errorf("%d %s", g.status, g.text)
		}
		b.shelf.add("acme", loans(1)[0])
		if g := <-waiting; g.status != 401 || len(g.Events) != 0 {
			b.Errorf("a long poll that began before: %d %s", g.status, g.text)
		}
	})
}

func TestGate(t *testing.T) {
	t.Run("burst_then_rate_by_tenant", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			other, _ := b.token("bolt")
			ask := func(token string, n int) (good int, last *got) {
				for range n {
					if last = get(b.Context(), b, b.api, token, ""); last.status == 200 {
						good++
					}
				}
				return good, last
			}
			good, last := ask(token, 250)
			if good != 200 || last.status != 429 || last.header.Get("Retry-After") != "1" || last.Error.Code != "rate_limited" {
				b.Errorf("%d of 250 at once, then %d %s", good, last.status, last.text)
			}
			if good, _ := ask(other, 10); good != 10 {
				b.Errorf("another tenant got %d of 10", good)
			}
			time.Sleep(time.Second)
			if good, _ := ask(token, 250); good != 100 {
				b.Errorf("%d of 250 a second later", good)
			}
			if n := testutil.ToFloat64(b.metrics.Requests.WithLabelValues("4xx")); n != 200 {
				b.Errorf("%g requests counted as 4xx", n)
			}
		})
	})
	t.Run("memory_is_bounded", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			g := newGate(100, 200)
			for n := range 3 * maxGated {
				one, f := g.enter(hub.TenantID(rune('a'+n%26))+hub.TenantID(time.Duration(n).String()), time.Now())
				if f != nil {
					b.Fatal(f)
				}
				g.leave(one)
			}
			if len(g.tenants) > maxGated {
				b.Errorf("%d tenants", len(g.tenants))
			}
		})
	})
	t.Run("answers_of_a_tenant_at_once", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			g := newGate(100, 200)
			own, _ := g.enter("acme", time.Now())
			other, _ := g.enter("bolt", time.Now())
			var free func()
			for range answersOfTenant {
				var err error
				if free, err = g.slot(b.Context(), own); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := g.slot(b.Context(), other); err != nil {
				b.Errorf("another tenant: %v", err)
			}
			begun := time.Now()
			if _, err := g.slot(b.Context(), own); err == nil || time.Since(begun) != slotPatience {
				b.Errorf("one more after %s: %v", time.Since(begun), err)
			}
			free()
			if _, err := g.slot(b.Context(), own); err != nil {
				b.Errorf("after one was freed: %v", err)
			}
		})
	})
	t.Run("long_polls_of_a_tenant", func(t *testing.T) {
		g := newGate(math.MaxInt32, math.MaxInt32)
		own, _ := g.enter("acme", time.Now())
		var done func()
		for range maxWaiting {
			done, _ = g.startWaiting(own)
		}
		if _, f := g.startWaiting(own); f == nil || f.status != http.StatusTooManyRequests {
			t.Errorf("one more: %v", f)
		}
		done()
		if _, f := g.startWaiting(own); f != nil {
			t.Errorf("after one ended: %v", f)
		}
	})
}

// A connection is good for the next request after a long answer: no deadline
// of the last write stays on it.
func TestAnswer_leaves_no_deadline_on_the_connection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("acme")
	w.store("acme", loans(300)...)
	server := httptest.NewServer(w.api)
	defer server.Close()
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/events?limit=1000", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := resp.Write(&text); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !strings.Contains(text.String(), `"next_seq":"300","has_more":false}`) {
			t.Errorf("%.300s", text.String())
		}
	}
}
