package pull

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// rounds is how often the reader of the test below asks. 10 000 rounds take
// most of a minute on two cores: STREAMING_HUB_TEST_PULL_ROUNDS=10000.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("STREAMING_HUB_TEST_PULL_ROUNDS")); err == nil {
		return n
	}
	return 1500
}

// A reader polls at full speed while 8 writers store into shared tenants: it
// sees every event, in order, and never skips.
func TestCursor_never_skips_during_concurrent_ingest(t *testing.T) {
	t.Parallel()
	rounds := rounds()
	w := newWorld(t)
	tenants := []hub.TenantID{"acme", "bolt", "crow"}
	errPlan := errors.New("rolled back")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	var mu sync.Mutex
	stored := map[hub.TenantID][]string{}
	writing, stopWriting := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stopWriting()
	for n := range 8 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		writers.Go(func() {
			for writing.Err() == nil {
				tenant := tenants[r.IntN(len(tenants))]
				events := loans(1 + r.IntN(4))
				if r.IntN(8) == 0 { // its commit takes longer
					events[0].Body = []byte(`"` + strings.Repeat("x", 200_000) + `"`)
				}
				var fail error
				if r.IntN(8) == 0 {
					fail = errPlan
				}
				err := w.inbox.Ingest(t.Context(), db.IngestBatch{Tenants: []hub.TenantID{tenant}},
					func(_ context.Context, s db.IngestState) (db.IngestWrites, error) {
						return numbered(s, tenant, events), fail
					})
				if !errors.Is(err, fail) {
					t.Errorf("ingest: %v", err)
					return
				}
				if fail == nil {
					mu.Lock()
					for i := range events {
						stored[tenant] = append(stored[tenant], fmt.Sprintf("evt_%x", events[i].ID.ID[:]))
					}
					mu.Unlock()
				}
			}
		})
	}

	tokens, cursors, seen := map[hub.TenantID]string{}, map[hub.TenantID]string{}, map[hub.TenantID][]string{}
	for _, tenant := range tenants {
		tokens[tenant], cursors[tenant] = w.token(tenant), "0"
	}
	poll := func(tenant hub.TenantID) bool {
		g := w.page(tokens[tenant], query("after_seq", cursors[tenant], "limit", "7"))
		for i := range g.Events {
			if want := strconv.Itoa(len(seen[tenant]) + 1); g.Events[i].Seq != want {
				t.Fatalf("%s: seq %s where %s follows", tenant, g.Events[i].Seq, want)
			}
			seen[tenant] = append(seen[tenant], g.Events[i].ID)
		}
		cursors[tenant] = g.NextSeq
		return g.HasMore
	}
	for n := range rounds {
		poll(tenants[n%len(tenants)])
		if n == rounds-rounds/10 {
			stopWriting()
		}
	}
	writers.Wait()
	for _, tenant := range tenants {
		for poll(tenant) {
		}
		slices.Sort(seen[tenant])
		slices.Sort(stored[tenant])
		if !slices.Equal(seen[tenant], stored[tenant]) {
			t.Errorf("%s: %d events seen, %d stored", tenant, len(seen[tenant]), len(stored[tenant]))
		}
	}
	t.Logf("%d events", len(seen["acme"])+len(seen["bolt"])+len(seen["crow"]))
}

// A transaction that holds the tenant's lock keeps back what comes behind it:
// the reader waits at the gap. A foreign transaction keeps nobody back.
func TestCursor_waits_for_a_hanging_transaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch()
	token := w.token("acme")
	w.store("acme", loans(2)...)
	foreign, err := w.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Rollback(context.WithoutCancel(t.Context()))
	if _, err := foreign.Exec(t.Context(), `INSERT INTO tenant_counters (tenant_id) VALUES ('foreign')`); err != nil {
		t.Fatal(err)
	}

	holding, release := make(chan struct{}), make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		var once sync.Once
		err := w.inbox.Ingest(t.Context(), db.IngestBatch{Tenants: []hub.TenantID{"acme"}}, func(_ context.Context, s db.IngestState) (db.IngestWrites, error) {
			once.Do(func() { close(holding) })
			<-release
			return numbered(s, "acme", loans(3)), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-holding
	writers.Go(func() {
		if err := store(t.Context(), w.inbox, "acme", loans(4)); err != nil {
			t.Error(err)
		}
	})
	if g := w.page(token, "after_seq=0"); !cmp.Equal(g.seqs(), []string{"1", "2"}) || g.HasMore {
		t.Errorf("while the transaction hangs: %s", g.text)
	}
	if g := w.page(token, "after_seq=2&wait=600ms"); len(g.Events) != 0 || g.NextSeq != "2" {
		t.Errorf("while the transaction hangs: %s", g.text)
	}
	close(release)
	cursor := "2"
	var seqs []string
	for len(seqs) < 7 {
		g := w.page(token, query("after_seq", cursor, "wait", "30"))
		seqs = append(seqs, g.seqs()...)
		cursor = g.NextSeq
	}
	writers.Wait()
	if want := []string{"3", "4", "5", "6", "7", "8", "9"}; !cmp.Equal(seqs, want) {
		t.Errorf("read %v, want %v", seqs, want)
	}
}

// at moves events to the time of their id.
func at(made time.Time, events []hub.Event) []hub.Event {
	for i := range events {
		var id hub.ID
		copy(id[:], events[i].ID.ID[:])
		floor := hub.FloorID(made.Add(time.Duration(i) * time.Millisecond))
		copy(id[:6], floor[:6])
		events[i].ID.ID = id
	}
	return events
}

func (w *world) dropDay(day time.Time) {
	w.Helper()
	w.exec("DROP TABLE events_p" + day.UTC().Format("20060102") + "_00")
}

func TestCursor_older_than_retention(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	tomorrow, third := today.Add(24*time.Hour), today.Add(48*time.Hour)
	token := w.token("acme")
	w.store("acme", at(today.Add(23*time.Hour), loans(3))...)
	// The clocks of two processes at midnight: seq 5 has the older id.
	w.store("acme", at(tomorrow, loans(1))...)
	w.store("acme", at(tomorrow.Add(-time.Second), loans(1))...)
	w.store("acme", at(tomorrow.Add(time.Hour), loans(3))...)
	if g := w.page(token, "after_seq=2"); !cmp.Equal(g.seqs(), []string{"3", "4", "5", "6", "7", "8"}) {
		t.Errorf("before anything is dropped: %v", g.seqs())
	}
	w.dropDay(today)
	gone := func(query, oldest, resume string) {
		t.Helper()
		g := w.get(token, query)
		if g.status != 410 || g.Error.Code != "cursor_expired" || g.Error.OldestSeq != oldest || g.Error.ResumeAfterSeq != resume ||
			!strings.Contains(g.Error.Message, "after_seq="+resume) || !strings.Contains(g.Error.Message, "after_seq=earliest") {
			t.Errorf("%s: %d %s", query, g.status, g.text)
		}
	}
	pages := func(query, next string, seqs ...string) {
		t.Helper()
		if g := w.page(token, query); !cmp.Equal(g.seqs(), seqs) || g.NextSeq != next {
			t.Errorf("%s: %s", query, g.text)
		}
	}
	gone("after_seq=0", "4", "3")
	gone("", "4", "3")
	gone("after_seq=2&wait=30", "4", "3")
	gone("after_seq=2&event_type=loan.paid", "4", "3")
	pages("after_seq=3", "4", "4") // what there is up to the gap, then the gap is told
	pages("after_seq=earliest", "4", "4")
	gone("after_seq=4", "6", "5")
	pages("after_seq=5", "8", "6", "7", "8")
	pages("after_seq=8", "8")
	w.dropDay(tomorrow)
	gone("after_seq=0", "", "8")
	gone("after_seq=7", "", "8")
	pages("after_seq=8", "8")
	pages("after_seq=earliest", "8")
	w.store("acme", at(third, loans(1))...)
	pages("after_seq=8", "9", "9")
	pages("after_seq=earliest", "9", "9")
	gone("after_seq=7", "9", "8")
}

// What a page takes for granted of clocks costs time where it is wrong, never
// an event.
func TestCursor_survives_clocks_that_jump(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("acme")
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		w.store("acme", at(time.Now().Add(time.Duration(r.IntN(48))*time.Hour), loans(1))...)
	}
	for _, limit := range []string{"1", "7", "100"} {
		var seqs []string
		cursor := "0"
		for more := true; more; {
			g := w.page(token, query("after_seq", cursor, "limit", limit))
			seqs = append(seqs, g.seqs()...)
			cursor, more = g.NextSeq, g.HasMore
		}
		for i, seq := range seqs {
			if seq != strconv.Itoa(i+1) {
				t.Fatalf("limit %s: seq %s in place %d", limit, seq, i+1)
			}
		}
		if len(seqs) != 60 {
			t.Errorf("limit %s: %d events", limit, len(seqs))
		}
	}
}

func TestPages_concatenated_are_the_filtered_list(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("acme")
	r := rand.New(rand.NewPCG(3, 4))
	resources, events, sources := []string{"loan", "loan_", "loan%", "card"}, []string{"paid", "approved", "pai"}, []string{"lender", "tracer"}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	var all []hub.Event
	for range 300 {
		all = append(all, fact(pick(sources), pick(resources), pick(events), int32(r.IntN(3)), "{}"))
	}
	w.store("acme", all...)
	w.store("bolt", loans(50)...)
	rapid.Check(t, func(rt *rapid.T) {
		one := func(name string, from []string) string { return rapid.SampledFrom(from).Draw(rt, name) }
		var pairs []string
		var types []string
		for range rapid.IntRange(0, 3).Draw(rt, "types") {
			p := one("resource", resources) + "." + one("event", append([]string{"*"}, events...))
			if rapid.IntRange(0, 9).Draw(rt, "star") == 0 {
				p = "*"
			}
			types = append(types, p)
			pairs = append(pairs, "event_type", p)
		}
		origin, major := one("origin", append([]string{""}, sources...)), rapid.IntRange(-1, 2).Draw(rt, "major")
		if origin != "" {
			pairs = append(pairs, "origin", origin)
		}
		if major >= 0 {
			pairs = append(pairs, "schema_major", strconv.Itoa(major))
		}
		var want []string
		from := rapid.IntRange(0, len(all)).Draw(rt, "from")
		for _, e := range all[from:] {
			typed := len(types) == 0 || slices.ContainsFunc(types, func(p string) bool {
				return p == "*" || p == e.ResourceType+".*" || p == e.ResourceType+"."+e.EventType
			})
			if typed && (origin == "" || origin == e.Source) && (major < 0 || int32(major) == e.SchemaMajor) {
				want = append(want, strconv.FormatInt(e.Seq, 10))
			}
		}
		var seqs []string
		cursor := strconv.Itoa(from)
		for more := true; more; {
			limit := strconv.Itoa(rapid.IntRange(1, 120).Draw(rt, "limit"))
			g := w.page(token, query(append(pairs, "after_seq", cursor, "limit", limit)...))
			seqs = append(seqs, g.seqs()...)
			if g.HasMore && g.NextSeq == cursor {
				rt.Fatalf("no progress at %s", cursor)
			}
			cursor, more = g.NextSeq, g.HasMore
		}
		if !slices.Equal(seqs, want) || cursor != "300" {
			rt.Fatalf("read %v, want %v; ended at %s", seqs, want, cursor)
		}
	})
}
