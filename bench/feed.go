package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// feedStall is how long a stalled subscriber reads nothing. The control
	// plane gives up a write after 10 s, and the network's buffers have to fill
	// before that.
	feedStall = 30 * time.Second
	// feedLate bounds the wait for the last items.
	feedLate = time.Minute
)

// feeding is the state of the part feed.
type feeding struct {
	*rig
	o      options
	begun  time.Time
	cursor string // where those who read begin; the others begin with the present
	all    string // a token of all tenants

	readers []*subscriber
	mu      sync.Mutex
	gapped  int // times that a stalled subscriber was told of a gap
	closed  int // times that it was closed
	kept    int // times that neither was to be seen, because the network's buffers took all
}

// measureFeed: many follow the live feed over WebSockets, some of them read
// nothing, while events are delivered at a steady rate. How long is it from the
// commit of an outcome to those who read?
func measureFeed(ctx context.Context, o options, r *result) error {
	o.commitTimes = true
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer rig.close()
	f := &feeding{rig: rig, o: o}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	idle := rssMiB(rig.control.pid())
	following, stop := context.WithCancel(ctx)
	defer stop()
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	problems, err := f.follow(following, &followers)
	if err != nil {
		return err
	}
	var peak, atHalf float64
	watched := make(chan struct{})
	watching, seenEnough := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		peak, atHalf = f.watchMemory(watching)
	}()
	meter, produced := startMeter(map[string]int{"controlplane": rig.control.pid()}), time.Now()
	err = rig.produce(ctx, o.feedRate*o.feedSeconds, o.feedRate)
	took, spent := time.Since(produced), meter.spent()["controlplane"]
	var c counts
	if err == nil {
		err = rig.arrived(ctx, o.feedRate*(1+o.feedSeconds), &c)
	}
	if err == nil {
		err = rig.check(ctx, o.feedRate*(1+o.feedSeconds))
	}
	if err == nil {
		err = f.awaitReaders(ctx)
	}
	seenEnough()
	<-watched
	stop()
	followers.Wait()
	close(problems)
	for p := range problems {
		err = errors.Join(err, p)
	}
	if err != nil {
		return err
	}
	return f.report(ctx, r, fmt.Sprintf("%.0f/s for %.0f s, %d workers", float64(o.feedRate*o.feedSeconds)/took.Seconds(), took.Seconds(), o.workers),
		fmt.Sprintf("%.0f MiB before the subscribers, %.0f MiB at half time; it took %.2f cores", idle, atHalf, spent.Seconds()/took.Seconds()), peak)
}

// prepare starts both planes, lets a second's events through to warm them up,
// and notes where the feed stands then.
func (f *feeding) prepare(ctx context.Context) (err error) {
	if err := f.startPlane(ctx, "all", f.o.workers); err != nil {
		return err
	}
	if err := f.startControl(ctx); err != nil {
		return err
	}
	if f.all, err = f.token(ctx, ""); err != nil {
		return err
	}
	if err := f.produce(ctx, f.o.feedRate, f.o.feedRate); err != nil {
		return err
	}
	if err := f.poll(ctx, time.Minute, "the warm-up to be recorded", func() (bool, error) {
		var n int
		err := f.look.QueryRow(ctx, "SELECT count(*) FROM attempts").Scan(&n)
		return n == f.o.feedRate, err
	}); err != nil {
		return err
	}
	var page struct{ Deliveries struct{ LiveCursor string } }
	if err := f.ask(ctx, f.all, "{ deliveries(first: 1) { liveCursor } }", nil, &page); err != nil {
		return err
	}
	f.begun, f.cursor = time.Now(), page.Deliveries.LiveCursor
	return nil
}

// follow connects all subscribers. What goes wrong with one comes out of
// problems.
func (f *feeding) follow(ctx context.Context, running *sync.WaitGroup) (problems chan error, err error) {
	problems = make(chan error, f.o.subscribers)
	for i := range f.o.subscribers - f.o.stalled {
		tenant, token := hub.TenantID(""), f.all
		if i >= f.o.wideSubscribers {
			tenant = hub.TenantID(tenantName(i % f.o.tenants))
			if token, err = f.token(ctx, tenant); err != nil {
				return nil, err
			}
		}
		s := &subscriber{tenant: tenant}
		if err := s.connect(ctx, f.control.addr, token, f.cursor, 0); err != nil {
			return nil, fmt.Errorf("connect subscriber %d: %w", i, err)
		}
		f.readers = append(f.readers, s)
		running.Go(func() {
			if err := s.read(ctx); err != nil {
				problems <- err
			}
		})
	}
	for i := range f.o.stalled {
		running.Go(func() {
			// One after the other: until its buffers are full each is fed as fast
			// as one that reads, and all at once would be another measurement.
			select {
			case <-time.After(feedStall * time.Duration(i) / time.Duration(f.o.stalled)):
			case <-ctx.Done():
				return
			}
			if err := f.stall(ctx); err != nil {
				problems <- err
			}
		})
	}
	return problems, nil
}

// stall connects, reads nothing for a while, looks what became of it, and
// connects again.
func (f *feeding) stall(ctx context.Context) error {
	for ctx.Err() == nil {
		s := &subscriber{}
		if err := s.connect(ctx, f.control.addr, f.all, "", smallWindow); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("connect a stalled subscriber: %w", err)
		}
		select {
		case <-time.After(feedStall):
		case <-ctx.Done():
			s.leave()
			return nil // cut short: it says nothing
		}
		gaps, closed := s.fate(ctx)
		f.mu.Lock()
		switch {
		case gaps:
			f.gapped++
		case closed:
			f.closed++
		case ctx.Err() == nil:
			f.kept++
		}
		f.mu.Unlock()
	}
	return nil
}

// awaitReaders waits until everybody who reads has got what is theirs.
func (f *feeding) awaitReaders(ctx context.Context) error {
	n := f.o.feedRate * f.o.feedSeconds
	return f.poll(ctx, feedLate, "all items to reach their subscribers", func() (bool, error) {
		for _, s := range f.readers {
			if want := share(n, f.o.tenants, s.tenant); s.count() < want {
				return false, nil
			}
		}
		return true, nil
	})
}

// share is how many of n events, dealt to the tenants in turn, are of one; of
// all tenants for "".
func share(n, tenants int, tenant hub.TenantID) int {
	if tenant == "" {
		return n
	}
	var i int
	_, _ = fmt.Sscanf(strings.TrimPrefix(string(tenant), "tenant-"), "%d", &i) // a name of tenantName
	return (n - i + tenants - 1) / tenants
}

// watchMemory looks at the control plane's memory until the context ends.
func (f *feeding) watchMemory(ctx context.Context) (peak, atHalf float64) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	half := time.Now().Add(time.Duration(f.o.feedSeconds) * time.Second / 2)
	for {
		select {
		case <-ctx.Done():
			return peak, atHalf
		case <-tick.C:
		}
		peak = max(peak, rssMiB(f.control.pid()))
		if atHalf == 0 && time.Now().After(half) {
			atHalf = peak
		}
	}
}

// commits are the moments at which outcomes were committed, by the delivery's
// global id.
func (f *feeding) commits(ctx context.Context) (map[string]commit, error) {
	rows, err := f.look.Query(ctx, `
SELECT pg_xact_commit_timestamp(xid::xid), items FROM outcome_feed WHERE pg_xact_commit_timestamp(xid::xid) > $1`, f.begun)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	byDelivery := map[string]commit{}
	for rows.Next() {
		var at time.Time
		var lines []byte
		if err := rows.Scan(&at, &lines); err != nil {
			return nil, err
		}
		items, err := db.ParseFeedItems(lines)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			byDelivery[deliveryID(i.Delivery)] = commit{at: at, tenant: i.Tenant}
		}
	}
	return byDelivery, rows.Err()
}

type commit struct {
	at     time.Time
	tenant hub.TenantID
}

func deliveryID(id hub.DeliveryID) string { return fmt.Sprintf("dlv_%x", id.ID[:]) }

// report holds what the readers got against what was committed: everything of
// theirs, each item once, or the number of those in gaps.
func (f *feeding) report(ctx context.Context, r *result, how, memory string, peak float64) error {
	committed, err := f.commits(ctx)
	if err != nil {
		return err
	}
	n := f.o.feedRate * f.o.feedSeconds
	if len(committed) != n {
		return fmt.Errorf("%d events were delivered and %d outcomes committed", n, len(committed))
	}
	var ms, wide, narrow []float64
	gapped, missed := 0, 0
	for i, s := range f.readers {
		seen := map[string]bool{}
		for _, got := range s.items {
			c, ok := committed[got.delivery]
			if !ok || seen[got.delivery] || s.tenant != "" && s.tenant != c.tenant {
				return fmt.Errorf("subscriber %d got an item that is not theirs, or twice: %s", i, got.delivery)
			}
			seen[got.delivery] = true
			late := float64(got.at.Sub(c.at).Microseconds()) / 1000
			if ms = append(ms, late); s.tenant == "" {
				wide = append(wide, late)
			} else {
				narrow = append(narrow, late)
			}
		}
		if want := share(n, f.o.tenants, s.tenant); len(seen)+s.missed != want {
			return fmt.Errorf("subscriber %d got %d of %d items and was told of gaps of %d", i, len(seen), want, s.missed)
		}
		if s.missed > 0 {
			gapped, missed = gapped+1, missed+s.missed
		}
	}
	if f.o.stalled > 0 && f.gapped+f.closed == 0 {
		return fmt.Errorf("no stalled subscriber was closed or told of a gap, %d times not within %s: measure for longer or at a higher rate", f.kept, fateTime)
	}
	// What a gap kept back was not there in time.
	ms = append(ms, slices.Repeat([]float64{math.Inf(1)}, missed)...)
	for _, list := range [][]float64{ms, wide, narrow} {
		slices.Sort(list)
	}
	r.rows = append(r.rows,
		row{"live feed, commit → reader, p99 ms", fmt.Sprintf("%.0f", quantile(ms, .99)), "≤ 1000",
			fmt.Sprintf("%s; %d items of %d readers, p50 %.0f, worst %.0f; p50 and p99 %.0f and %.0f of the %d who follow all tenants, %.0f and %.0f of those who follow one; %d more stalled",
				how, len(ms), len(f.readers), quantile(ms, .5), quantile(ms, 1), quantile(wide, .5), quantile(wide, .99), f.o.wideSubscribers,
				quantile(narrow, .5), quantile(narrow, .99), f.o.stalled)},
		row{"… items that gaps kept from them", fmt.Sprint(missed), "0", fmt.Sprintf("of %d readers, who can fetch them", gapped)},
		row{"control plane memory MiB, peak", fmt.Sprintf("%.0f", peak), "bounded",
			fmt.Sprintf("%s; the stalled were closed %d times and told of a gap %d times, %d times the network took it all", memory, f.closed, f.gapped, f.kept)})
	return nil
}
