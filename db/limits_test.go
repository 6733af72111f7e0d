package db_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/limit"
)

func (l *lab) share(holder hub.ID, ttl time.Duration, requests ...db.LimitRequest) []db.LimitGrant {
	l.Helper()
	grants, err := l.db.ShareLimits(l.Context(), holder, ttl, requests)
	if err != nil {
		l.Fatal(err)
	}
	return grants
}

// slots asks for attempts under way only.
func slots(lane db.Lane, most, wanted, running int32) db.LimitRequest {
	return db.LimitRequest{Lane: lane, MaxInFlight: most, Wanted: wanted, Running: running}
}

// Four processes ask, start and end attempts: whatever they are told, they
// never have more under way than the limit.
func TestShareLimits_slots_never_exceed_the_limit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const most = 7
	lane := laneOf("acme")
	var running, highest atomic.Int32
	var holders sync.WaitGroup
	for seed := range uint64(4) {
		holders.Go(func() {
			me, random, mine := newID(), rand.New(rand.NewPCG(seed, 2)), int32(0)
			for range 60 {
				grants, err := l.db.ShareLimits(t.Context(), me, time.Minute, []db.LimitRequest{slots(lane, most, max(mine, random.Int32N(10)), mine)})
				if err != nil {
					t.Error(err)
					return
				}
				if grants[0].Slots < mine {
					t.Errorf("%d slots for the %d that run", grants[0].Slots, mine)
				}
				next := random.Int32N(grants[0].Slots + 1)
				if now := running.Add(next - mine); now > highest.Load() {
					highest.Store(now)
				}
				mine = next
				var stored int
				if err := l.raw.QueryRow(t.Context(), "SELECT sum(slots)::int FROM destination_slots WHERE expires_at > now()").Scan(&stored); err != nil || stored > most {
					t.Errorf("%d slots are given out, want at most %d (%v)", stored, most, err)
				}
			}
		})
	}
	holders.Wait()
	if n := highest.Load(); n > most || n < 2 {
		t.Errorf("at most %d were under way, want some and no more than %d", n, most)
	}
}

// Four processes ask for starts. Each has one connection, and a trigger notes
// what the connection took, by the database clock.
func TestShareLimits_starts_never_exceed_the_rate_in_any_second(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec(`CREATE TABLE taken (n bigserial, pid integer, free_at timestamptz);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO taken (pid, free_at) VALUES (pg_backend_pid(), new.free_at); RETURN new; END $$;
		CREATE TRIGGER note AFTER UPDATE ON destination_limits FOR EACH ROW EXECUTE FUNCTION note()`)
	const rate, every = 100, time.Second / 100
	lane := laneOf("acme")
	var mu sync.Mutex
	grants := map[int][]limit.Starts{} // by connection
	var holders sync.WaitGroup
	for range 4 {
		holders.Go(func() {
			d, err := db.Open(t.Context(), db.Config{DSN: l.dsn, MaxConns: 1, Hot: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			var pid int
			if err := db.PoolOf(d).QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				t.Error(err)
				return
			}
			for range 60 {
				got, err := d.ShareLimits(t.Context(), newID(), time.Minute, []db.LimitRequest{{Lane: lane, RateLimit: rate, Starts: 5}})
				if err != nil {
					t.Error(err)
					return
				}
				if s := got[0].Starts; s.N > 0 {
					if s.N > 5 || s.In < 0 || s.In >= limit.Ahead || s.Every != every {
						t.Errorf("starts = %+v", s)
					}
					mu.Lock()
					grants[pid] = append(grants[pid], s)
					mu.Unlock()
				}
			}
		})
	}
	holders.Wait()

	rows, err := l.raw.Query(t.Context(), "SELECT pid, free_at FROM taken ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var starts []time.Time
	for rows.Next() {
		var pid int
		var free time.Time
		if err := rows.Scan(&pid, &free); err != nil {
			t.Fatal(err)
		}
		if len(grants[pid]) == 0 {
			t.Fatal("more was taken than granted")
		}
		g := grants[pid][0]
		grants[pid] = grants[pid][1:]
		for i := range g.N {
			starts = append(starts, free.Add(-time.Duration(g.N-i)*every))
		}
	}
	for pid := range grants {
		if len(grants[pid]) > 0 {
			t.Errorf("%d grants were not noted", len(grants[pid]))
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	for i := rate; i < len(starts); i++ {
		if d := starts[i].Sub(starts[i-rate]); d < time.Second {
			t.Fatalf("%d starts within %s at a rate of %d", rate+1, d, rate)
		}
	}
	for i := 1; i < len(starts); i++ { // a short run has no whole second
		if d := starts[i].Sub(starts[i-1]); d < every {
			t.Fatalf("start %d comes %s after the one before, want %s at least", i, d, every)
		}
	}
	if len(starts) < int(limit.Ahead/every) {
		t.Errorf("only %d starts were given out", len(starts))
	}
}

func TestShareLimits(t *testing.T) {
	t.Parallel()
	t.Run("dead_holder_loses_its_slots_after_ttl", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane, dead, alive := laneOf("acme"), newID(), newID()
		if g := l.share(dead, time.Minute, slots(lane, 5, 9, 0)); g[0].Slots != 5 {
			t.Fatalf("the first gets %d of 5", g[0].Slots)
		}
		l.wantCount("shares that end in a minute", 1, `SELECT count(*) FROM destination_slots
			WHERE slots = 5 AND wanted = 9 AND tenant_id = 'acme' AND expires_at - now() BETWEEN interval '30 s' AND interval '60 s'`)
		if g := l.share(alive, time.Minute, slots(lane, 5, 9, 0)); g[0].Slots != 0 {
			t.Errorf("%d slots while another holds all", g[0].Slots)
		}
		l.exec("UPDATE destination_slots SET expires_at = clock_timestamp() WHERE holder = $1", text(dead))
		if g := l.share(alive, time.Minute, slots(lane, 5, 9, 0)); g[0].Slots != 5 {
			t.Errorf("%d slots after the other's time was up, want 5", g[0].Slots)
		}
	})
	t.Run("a_further_call_renews", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane, holder := laneOf("acme"), newID()
		l.share(holder, time.Millisecond, slots(lane, 5, 2, 0))
		l.share(holder, time.Hour, slots(lane, 5, 3, 2))
		l.wantCount("shares that end in an hour", 1, `SELECT count(*) FROM destination_slots
			WHERE slots = 3 AND wanted = 3 AND expires_at > now() + interval '59 min'`)
		if g := l.share(newID(), time.Hour, slots(lane, 5, 5, 0)); g[0].Slots != 2 {
			t.Errorf("another gets %d beside 3 of 5", g[0].Slots)
		}
	})
	t.Run("a_rate_alone_holds_no_slots_and_slots_use_no_rate", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		one, two := laneOf("acme"), laneOf("acme")
		g := l.share(newID(), time.Minute, db.LimitRequest{Lane: one, RateLimit: 10, Starts: 2, Wanted: 4}, slots(two, 3, 9, 0))
		if g[0].Starts.N != 2 || g[0].Slots != 0 || g[1].Starts.N != 0 || g[1].Slots != 3 {
			t.Errorf("grants = %+v", g)
		}
		l.wantCount("shares", 1, "SELECT count(*) FROM destination_slots")
		l.wantCount("rates in use, that of the first", 1, `SELECT count(*) FROM destination_limits one, destination_limits two
			WHERE one.destination_id = $1 AND two.destination_id = $2 AND one.free_at > two.free_at + interval '150 ms'`,
			text(one.Destination), text(two.Destination))
	})
	t.Run("grants_are_in_the_order_of_requests", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		var requests []db.LimitRequest
		for i := range int32(9) {
			requests = append(requests, db.LimitRequest{Lane: laneOf("acme"), RateLimit: 1 + i, Starts: 1, MaxInFlight: 1 + i, Wanted: 99})
		}
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for i, g := range l.share(newID(), time.Minute, requests...) {
			if g.Slots != requests[i].MaxInFlight || g.Starts.N != 1 || g.Starts.Every != time.Second/time.Duration(requests[i].RateLimit) {
				t.Errorf("grant %d = %+v for limits of %d", i, g, requests[i].RateLimit)
			}
		}
	})
	t.Run("starts_that_nobody_used_do_not_gather", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ask := db.LimitRequest{Lane: laneOf("acme"), RateLimit: 10, Starts: 100}
		l.share(newID(), time.Minute, ask)
		l.exec("UPDATE destination_limits SET free_at = now() - interval '1 day'")
		if g := l.share(newID(), time.Minute, ask); g[0].Starts.N != 5 || g[0].Starts.In != 0 {
			t.Errorf("after a day of rest %+v, want the 5 of half a second at once", g[0].Starts)
		}
		l.exec("UPDATE destination_limits SET free_at = now() + interval '1 h'")
		if g := l.share(newID(), time.Minute, ask); g[0].Starts.N != 0 {
			t.Errorf("while others have taken all %+v", g[0].Starts)
		}
	})
	t.Run("forget_removes_only_what_ended_long_ago", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, ended := range []string{"59 min", "61 min", "-1 min"} {
			holder := newID()
			l.share(holder, time.Minute, slots(laneOf("acme"), 5, 1, 0))
			l.exec("UPDATE destination_slots SET expires_at = now() - $2::text::interval WHERE holder = $1", text(holder), ended)
		}
		if err := l.db.ForgetSlots(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.wantCount("shares that are left", 2, "SELECT count(*) FROM destination_slots WHERE expires_at > now() - interval '1 h'")
		l.wantCount("shares", 2, "SELECT count(*) FROM destination_slots")
	})
}

// Four processes at a time ask for the same destinations, each in an order of
// its own: the first to come make the rows.
func TestShareLimits_in_any_order_never_deadlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for set := range uint64(15) {
		var requests []db.LimitRequest
		for range 60 {
			requests = append(requests, db.LimitRequest{Lane: laneOf("acme"), RateLimit: 10_000, Starts: 1, MaxInFlight: 10, Wanted: 3})
		}
		ready := make(chan struct{})
		var holders sync.WaitGroup
		for seed := range uint64(4) {
			holders.Go(func() {
				holder, random, mine := newID(), rand.New(rand.NewPCG(seed, set)), slices.Clone(requests)
				<-ready
				for range 2 {
					random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
					if _, err := l.db.ShareLimits(t.Context(), holder, time.Minute, mine); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		close(ready)
		holders.Wait()
	}
}
