package pull

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
