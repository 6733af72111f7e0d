package controlplane

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/streaming-hub/streaming-hub/db"
)

const (
	// feedPoll is the wait for new outcomes when no notification comes: a
	// notification is only a hint, and the oldest running transaction can hide
	// a row for a moment after it.
	feedPoll = 250 * time.Millisecond
	// feedRows are read at once. A row is a flush of up to 500 outcomes of
	// some 300 bytes.
	feedRows = 32
	// feedPatience bounds one read, and the wait before a lost listening
	// connection is tried again.
	feedPatience = 5 * time.Second
	relisten     = time.Second
)

// Feed reads the live feed once for the whole process and hands the items to
// everybody who follows it.
type Feed struct {
	store FeedStore
	log   *slog.Logger
	wake  chan struct{}

	mu        sync.Mutex
	tail      db.FeedPlace // everything up to it was handed out
	followers map[*follower]struct{}

	readAt atomic.Int64 // Unix nanoseconds of the last read that worked
}

// FeedStore is the database's side of the feed.
type FeedStore interface {
	FeedRows(ctx context.Context, after db.FeedPlace, limit int) ([]db.FeedRow, error)
	FeedSnapshot(ctx context.Context) (string, error)
	FeedHas(ctx context.Context, p db.FeedPlace) (bool, error)
	ListenOutcomes(ctx context.Context, wake func()) error
}

// NewFeed makes a feed; it stands still until Run.
func NewFeed(store FeedStore, log *slog.Logger) *Feed {
	return &Feed{store: store, log: log, wake: make(chan struct{}, 1), followers: map[*follower]struct{}{}}
}

// Run reads until the context ends. It survives the loss of the database: it
// goes on where it stood.
func (f *Feed) Run(ctx context.Context) error {
	var parts errgroup.Group
	parts.Go(func() error { f.listen(ctx); return nil })
	parts.Go(func() error { f.read(ctx); return nil })
	return parts.Wait()
}

// Alive reports how long ago the feed was last read with success.
func (f *Feed) Alive(now time.Time) time.Duration {
	at := f.readAt.Load()
	if at == 0 {
		return time.Duration(1<<63 - 1)
	}
	return now.Sub(time.Unix(0, at))
}

// Followers is how many follow the feed now.
func (f *Feed) Followers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.followers)
}

func (f *Feed) listen(ctx context.Context) {
	listening := true
	for ctx.Err() == nil {
		err := f.store.ListenOutcomes(ctx, func() { listening = true; f.poke() })
		if ctx.Err() == nil {
			if listening {
				f.log.Warn("the live feed lost its listening connection and polls meanwhile", "error", err)
			}
			listening = false
			pause(ctx, relisten, nil)
		}
	}
}

func (f *Feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Feed) read(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		full, err := f.step(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !failing:
			f.log.Warn("the live feed cannot be read and is tried again", "error", err)
		case err == nil && failing:
			f.log.Info("the live feed is read again")
		}
		failing = err != nil
		if !full {
			pause(ctx, feedPoll, f.wake)
		}
	}
}

// step reads and hands out the next rows; full says that more are waiting.
// While nobody follows, it only moves the tail to the present moment.
func (f *Feed) step(ctx context.Context) (full bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedPatience)
	defer cancel()
	f.mu.Lock()
	tail, idle := f.tail, len(f.followers) == 0
	f.mu.Unlock()
	if idle || tail == (db.FeedPlace{}) {
		now, err := f.now(ctx)
		if err != nil {
			return false, err
		}
		f.readAt.Store(time.Now().UnixNano())
		f.mu.Lock()
		defer f.mu.Unlock()
		// Somebody may have joined at the old tail meanwhile.
		if len(f.followers) == 0 && comparePlaces(now.Place, f.tail) > 0 {
			f.tail = now.Place
		}
		return len(f.followers) > 0, nil
	}
	rows, err := f.store.FeedRows(ctx, tail, feedRows)
	if err != nil {
		return false, err
	}
	f.readAt.Store(time.Now().UnixNano())
	for i := range rows {
		f.handOut(&rows[i])
	}
	return len(rows) == feedRows, nil
}

func (f *Feed) now(ctx context.Context) (Cursor, error) {
	snapshot, err := f.store.FeedSnapshot(ctx)
	if err != nil {
		return Cursor{}, err
	}
	return CursorOf(snapshot)
}

func (f *Feed) handOut(row *db.FeedRow) {
	items, err := db.ParseFeedItems(row.Lines)
	if err != nil {
		f.log.Error("a row of the live feed is damaged, what follows in it is left out", "row", row.Place.Row, "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.followers {
		one.push(row.Place, items)
	}
	f.tail = row.Place
}

// join makes a follower that gets every item behind the returned place; nil
// when the context ends before the feed has reached the database.
func (f *Feed) join(ctx context.Context, filter LiveFilter) (*follower, db.FeedPlace) {
	one := &follower{filter: filter, wake: make(chan struct{}, 1)}
	for ctx.Err() == nil {
		f.mu.Lock()
		if tail := f.tail; tail != (db.FeedPlace{}) {
			f.followers[one] = struct{}{}
			f.mu.Unlock()
			f.poke()
			return one, tail
		}
		f.mu.Unlock()
		pause(ctx, feedPoll, nil)
	}
	return nil, db.FeedPlace{}
}

// rejoin empties a follower's queue and lets it begin again at the tail.
func (f *Feed) rejoin(one *follower) db.FeedPlace {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.take()
	return f.tail
}

func (f *Feed) leave(one *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.followers, one)
}

// pause waits until the time is over, a wake-up comes or the context ends.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
