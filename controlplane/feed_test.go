package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// store is a feed in memory: row n is written by transaction n.
type store struct {
	mu   sync.Mutex
	rows []db.FeedRow
	away bool
	wake func()
}

func (s *store) add(items ...string) {
	s.mu.Lock()
	xid := uint64(len(s.rows) + 10)
	var lines []byte
	for i, line := range items {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = append(lines, line...)
	}
	s.rows = append(s.rows, db.FeedRow{Place: db.FeedPlace{Xid: xid, Row: hub.ID{15: byte(xid)}}, Lines: lines})
	wake := s.wake
	s.mu.Unlock()
	if wake != nil {
		wake()
	}
}

func (s *store) FeedRows(_ context.Context, after db.FeedPlace, limit int) (out []db.FeedRow, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errors.New("the database is away")
	}
	for _, r := range s.rows {
		if comparePlaces(r.Place, after) > 0 && len(out) < limit {
			out = append(out, r)
		}
	}
	return out, nil
}

func (s *store) FeedSnapshot(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := len(s.rows) + 10
	return fmt.Sprintf("%d:%d:", next, next), nil
}

func (s *store) FeedHas(_ context.Context, p db.FeedPlace) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.rows, func(r db.FeedRow) bool { return r.Place == p }), nil
}

func (s *store) ListenOutcomes(ctx context.Context, wake func()) error {
	s.mu.Lock()
	s.wake = wake
	s.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// line is a feed item with a number to tell it by.
func line(t *testing.T, n int) string {
	t.Helper()
	return fmt.Sprintf(`{"i":"%s","t":"acme","n":%d,"s":"DELIVERED"}`, zeroIDs, n)
}

// zeroIDs are the five ids of an item, all zero, in base64.
var zeroIDs = func() string {
	out := make([]byte, 0, 108)
	for range 106 {
		out = append(out, 'A')
	}
	return string(append(out, "A="...))
}()

func follow(t *testing.T, s *store, run func(ctx context.Context, f *Feed)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := NewFeed(s, slog.New(slog.DiscardHandler))
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) })
		synctest.Wait()
		run(ctx, f)
		stop()
		running.Wait()
	})
}

func TestFeed_slow_reader_gets_a_gap_and_then_goes_on(t *testing.T) {
	s := &store{}
	follow(t, s, func(ctx context.Context, f *Feed) {
		hold := make(chan struct{})
		var got []LiveItem
		done := make(chan struct{})
		ctx, leave := context.WithCancel(ctx)
		go func() {
			defer close(done)
			_ = f.Follow(ctx, Actor{Role: hub.Viewer}, LiveFilter{}, nil, func(i LiveItem) error {
				<-hold
				got = append(got, i)
				return nil
			})
		}()
		synctest.Wait()
		const sent = followerQueue + 300
		for n := range sent {
			s.add(line(t, n))
			synctest.Wait()
		}
		time.Sleep(gapAfter)
		close(hold)
		synctest.Wait()
		s.add(line(t, sent))
		synctest.Wait()
		leave()
		<-done

		// The first item left the queue before it filled up.
		gap := got[followerQueue+1].Gap
		if gap == nil || gap.Missed != sent-followerQueue-1 {
			t.Fatalf("item %d is %+v", followerQueue+1, got[followerQueue+1])
		}
		if last := got[len(got)-1]; len(got) != followerQueue+3 || last.Item.Number != sent {
			t.Errorf("got %d items, the last is %+v", len(got), last)
		}

		// The gap names what to fetch: behind After, up to Through.
		var fetched []int32
		ctx, leave = context.WithCancel(context.WithoutCancel(ctx))
		_ = f.Follow(ctx, Actor{Role: hub.Viewer}, LiveFilter{}, &gap.After, func(i LiveItem) error {
			fetched = append(fetched, i.Item.Number)
			if i.Cursor.String() == gap.Through.String() {
				leave()
				return context.Canceled
			}
			return nil
		})
		if len(fetched) != gap.Missed || fetched[0] != followerQueue+1 || fetched[len(fetched)-1] != sent-1 {
			t.Errorf("fetched %d items, %v … %v", len(fetched), fetched[0], fetched[len(fetched)-1])
		}
		leave()
	})
}

// A flush, or a pause of the reader, can bring more at once than its queue
// holds. As long as it keeps up on the whole it is told of no gap.
func TestFeed_reader_that_keeps_up_gets_every_item_of_a_burst(t *testing.T) {
	s := &store{}
	follow(t, s, func(ctx context.Context, f *Feed) {
		ctx, leave := context.WithCancel(ctx)
		done, hold := make(chan struct{}), make(chan struct{})
		var got []int32
		go func() {
			defer close(done)
			_ = f.Follow(ctx, Actor{Role: hub.Viewer}, LiveFilter{}, nil, func(i LiveItem) error {
				<-hold
				if i.Gap != nil {
					t.Errorf("a gap of %d items behind %d", i.Gap.Missed, len(got))
					return context.Canceled
				}
				got = append(got, i.Item.Number)
				return nil
			})
		}()
		synctest.Wait()
		n := 0
		burst := func(rows, items int) {
			for range rows {
				var lines []string
				for range items {
					lines = append(lines, line(t, n))
					n++
				}
				s.add(lines...)
			}
			synctest.Wait()
		}
		burst(3, 500)
		time.Sleep(gapAfter - time.Millisecond)
		close(hold)
		burst(40, 100)
		burst(1, 2000)
		leave()
		<-done
		if len(got) != n {
			t.Fatalf("got %d of %d items", len(got), n)
		}
		for i, number := range got {
			if number != int32(i) {
				t.Fatalf("item %d is %d", i, number)
			}
		}
	})
}

// However little a reader is too slow, it is told in the end, and is never far
// behind.
func TestFeed_reader_that_is_a_little_too_slow_is_told(t *testing.T) {
	s := &store{}
	follow(t, s, func(ctx context.Context, f *Feed) {
		ctx, leave := context.WithCancel(ctx)
		done := make(chan struct{})
		begun := time.Now()
		born := func(n int32) time.Time { return begun.Add(time.Duration(n/100) * 100 * time.Millisecond) }
		var seen, missed int
		var worst time.Duration
		go func() {
			defer close(done)
			_ = f.Follow(ctx, Actor{Role: hub.Viewer}, LiveFilter{}, nil, func(i LiveItem) error {
				if i.Gap != nil {
					missed += i.Gap.Missed
					return nil
				}
				seen++
				worst = max(worst, time.Since(born(i.Item.Number)))
				time.Sleep(1200 * time.Microsecond) // the feed has one each millisecond
				return nil
			})
		}()
		synctest.Wait()
		const sent = 60_000
		for n := 0; n < sent; n += 100 {
			var lines []string
			for i := range 100 {
				lines = append(lines, line(t, n+i))
			}
			s.add(lines...)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		leave()
		<-done
		if seen+missed != sent || missed == 0 || worst > 4*gapAfter {
			t.Errorf("%d items and %d in gaps of %d, at worst %s behind", seen, missed, sent, worst)
		}
	})
}

func TestFeed_survives_an_absent_database(t *testing.T) {
	s := &store{}
	follow(t, s, func(ctx context.Context, f *Feed) {
		var got []int32
		ctx, leave := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = f.Follow(ctx, Actor{Role: hub.Viewer}, LiveFilter{}, nil, func(i LiveItem) error {
				got = append(got, i.Item.Number)
				return nil
			})
		}()
		synctest.Wait()
		s.add(line(t, 1))
		synctest.Wait()
		s.mu.Lock()
		s.away = true
		s.mu.Unlock()
		s.add(line(t, 2))
		pause(ctx, feedPatience, nil)
		s.mu.Lock()
		s.away = false
		s.mu.Unlock()
		pause(ctx, feedPoll, nil)
		synctest.Wait()
		leave()
		<-done
		if fmt.Sprint(got) != "[1 2]" {
			t.Errorf("got %v", got)
		}
	})
}

func TestFeed_tells_a_gap_when_retention_dropped_the_cursors_row(t *testing.T) {
	s := &store{}
	for n := range 3 {
		s.add(line(t, n))
	}
	follow(t, s, func(ctx context.Context, f *Feed) {
		lost := Cursor{Place: db.FeedPlace{Xid: 2, Row: hub.ID{1}}, Taken: 1}
		var got []LiveItem
		_ = f.Follow(ctx, Actor{Role: hub.Viewer}, LiveFilter{}, &lost, func(i LiveItem) error {
			if got = append(got, i); len(got) == 4 {
				return context.Canceled
			}
			return nil
		})
		if got[0].Gap == nil || got[0].Gap.Missed != -1 || got[1].Item.Number != 0 || got[3].Item.Number != 2 {
			t.Errorf("got %+v", got)
		}
	})
}
