package pull

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streaming-hub/streaming-hub/hub"
)

// losing is a shelf whose second look at bodies fails.
type losing struct {
	*shelf
	err error
}

func (s losing) Events(ctx context.Context, ids []hub.ID) ([]hub.Event, error) {
	list, err := s.shelf.Events(ctx, ids)
	if s.count("events") > 1 {
		return nil, s.err
	}
	return list, err
}

// An answer that cannot be finished must not look like one that is.
func TestAnswer_is_broken_off_when_the_rest_cannot_be_read(t *testing.T) {
	inBubble(t, func(b *bubble) {
		token, _ := b.token("acme")
		for range pieceEvents + 1 {
			b.shelf.add("acme", loans(1)[0])
		}
		b.api.deps.Store = losing{b.shelf, context.DeadlineExceeded}
		r := httptest.NewRequest(http.MethodGet, "/v1/events?limit=1000", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					b.Errorf("ended with %v", p)
				}
			}()
			b.api.ServeHTTP(httptest.NewRecorder(), r)
		}()
		if n := testutil.ToFloat64(b.metrics.Requests.WithLabelValues("broken")); n != 1 {
			b.Errorf("%g counted as broken", n)
		}
		// The turn to answer was given back.
		if len(b.api.gate.slots) != 0 || b.api.gate.tenants["acme"].inside != 0 {
			b.Error("the request still counts")
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
