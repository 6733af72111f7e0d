package pull

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

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
