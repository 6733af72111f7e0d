package controlplane

import (
	"context"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

// followerQueue is how many items wait in memory for a follower. Those beyond it
// are left out: a follower that comes for them within gapAfter reads them from
// the database, to a slower one they are told as a gap.
const (
	followerQueue = 512
	gapAfter      = 5 * time.Second
)

// LiveItem is an item of the feed with its place, or a gap.
type LiveItem struct {
	Cursor Cursor // behind the item
	Item   *db.FeedItem
	Gap    *Gap
}

// Gap is a part of the feed that a follower did not get.
type Gap struct {
	After, Through Cursor
	// Missed counts the items of the filter in it; -1 when that is not known.
	Missed int
}

// queued is an item on its way to a follower.
type queued struct {
	place  db.FeedPlace
	number uint32 // in its row, from 0
	item   *db.FeedItem
}

// follower is a bounded queue between the feed and one reader.
type follower struct {
	filter LiveFilter
	wake   chan struct{}

	mu    sync.Mutex
	queue []queued
	lost  loss
}

// loss is what was left out behind a full queue.
type loss struct {
	items   int
	since   time.Time // of the first of them
	through queued    // the last of them
}

// push never waits.
func (f *follower) push(place db.FeedPlace, items []db.FeedItem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range items {
		if !f.filter.passes(&items[i]) {
			continue
		}
		q := queued{place: place, number: uint32(i), item: &items[i]}
		if f.lost.items == 0 && len(f.queue) < followerQueue {
			f.queue = append(f.queue, q)
			continue
		}
		if f.lost.items == 0 {
			f.lost.since = time.Now()
		}
		f.lost.items, f.lost.through = f.lost.items+1, q
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (f *follower) take() (items []queued, lost loss) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items, lost = f.queue, f.lost
	f.queue, f.lost = nil, loss{}
	return items, lost
}

// Follow hands the items behind a cursor to emit, one after the other,
// until the context ends or emit fails: nothing is missed and nothing comes
// twice. Without a cursor it begins with the present moment. A reader that
// falls behind by more than its queue and gapAfter gets a gap and then what
// follows it.
// While the database is away it waits; its only errors are those of emit.
func (f *Feed) Follow(ctx context.Context, a Actor, filter LiveFilter, after *Cursor, emit func(LiveItem) error) error {
	tenant, none := a.narrow(filter.Tenant)
	if none {
		<-ctx.Done() // another tenant's feed: silent, like that of a tenant without events
		return nil
	}
	filter.Tenant = tenant
	var at Cursor
	if after != nil {
		at = *after
	} else {
		at = patiently(ctx, func() (Cursor, error) { return f.now(ctx) })
	}
	one, joined := f.join(ctx, filter)
	if one == nil {
		return nil
	}
	defer f.leave(one)
	r := reader{feed: f, follower: one, at: at, emit: emit}
	if err := r.checkKept(ctx); err != nil {
		return err
	}
	if err := r.catchUp(ctx, joined); err != nil {
		return err
	}
	return r.live(ctx)
}

// patiently reads from the database until that works or the context ends; then
// the answer is the zero value.
func patiently[T any](ctx context.Context, read func() (T, error)) (v T) {
	for ctx.Err() == nil {
		v, err := read()
		if err == nil {
			return v
		}
		pause(ctx, feedPoll, nil)
	}
	return v
}

// reader is one Follow on its way.
type reader struct {
	feed     *Feed
	follower *follower
	at       Cursor // behind the last item that was considered
	emit     func(LiveItem) error
}

// checkKept tells a gap when retention has dropped the row of the cursor, and
// with it perhaps others behind it.
func (r *reader) checkKept(ctx context.Context) error {
	if !r.at.isReal() {
		return nil
	}
	kept := patiently(ctx, func() (bool, error) { return r.feed.store.FeedHas(ctx, r.at.Place) })
	if kept || ctx.Err() != nil {
		return nil
	}
	rows := r.rows(ctx, r.at.Place, 1)
	through := r.at
	if len(rows) > 0 {
		first := Cursor{Place: rows[0].Place}
		through = Cursor{Place: first.before()}
	}
	gap := LiveItem{Cursor: through, Gap: &Gap{After: r.at, Through: through, Missed: -1}}
	r.at = through
	return r.emit(gap)
}

// catchUp reads from the database what lies between the cursor and the place
// from which on the follower's queue has everything. When the queue overflows
// meanwhile, it goes on reading up to the new end: however far back a follower
// begins, nothing is left out.
func (r *reader) catchUp(ctx context.Context, joined db.FeedPlace) error {
	for {
		if err := r.readTo(ctx, joined); err != nil || !r.follower.overflowed() {
			return err
		}
		joined = r.feed.rejoin(r.follower)
	}
}

// readTo reads from the database what lies behind the cursor, up to and with a
// row.
func (r *reader) readTo(ctx context.Context, last db.FeedPlace) error {
	place := r.at.before()
	for {
		rows := r.rows(ctx, place, feedRows)
		for i := range rows {
			if comparePlaces(rows[i].Place, last) > 0 {
				return nil
			}
			if err := r.row(&rows[i]); err != nil {
				return err
			}
			place = rows[i].Place
		}
		if len(rows) < feedRows {
			return nil
		}
	}
}

func (r *reader) rows(ctx context.Context, after db.FeedPlace, limit int) []db.FeedRow {
	return patiently(ctx, func() ([]db.FeedRow, error) { return r.feed.store.FeedRows(ctx, after, limit) })
}

func (f *follower) overflowed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost.items > 0
}

func (r *reader) row(row *db.FeedRow) error {
	items, err := db.ParseFeedItems(row.Lines)
	if err != nil {
		r.feed.log.Error("a row of the live feed is damaged, what follows in it is left out", "row", row.Place.Row, "error", err)
	}
	for i := range items {
		if r.follower.filter.passes(&items[i]) {
			if err := r.one(queued{place: row.Place, number: uint32(i), item: &items[i]}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) one(q queued) error {
	if !r.at.passes(q.place, q.number) {
		return nil
	}
	r.at = Cursor{Place: q.place, Taken: q.number + 1, Seen: r.at.Seen}
	return r.emit(LiveItem{Cursor: r.at, Item: q.item})
}

func (r *reader) live(ctx context.Context) error {
	for {
		items, lost := r.follower.take()
		for _, q := range items {
			if err := r.one(q); err != nil {
				return err
			}
		}
		if lost.items > 0 {
			if err := r.makeUp(ctx, lost); err != nil {
				return err
			}
		}
		if len(items) > 0 || lost.items > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.follower.wake:
		}
	}
}

// makeUp gives a reader that only had too much at once what was left out, and
// tells one that does not keep up that there is a gap. Each time that it reads
// more slowly than the feed grows, what is left out meanwhile is older when it
// comes for it: so a reader is told before long, however little it is too slow.
func (r *reader) makeUp(ctx context.Context, lost loss) error {
	if time.Since(lost.since) < gapAfter {
		return r.readTo(ctx, r.feed.rejoin(r.follower))
	}
	before := r.at
	r.at = Cursor{Place: lost.through.place, Taken: lost.through.number + 1, Seen: r.at.Seen}
	return r.emit(LiveItem{Cursor: r.at, Gap: &Gap{After: before, Through: r.at, Missed: lost.items}})
}
