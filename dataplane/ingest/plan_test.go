package ingest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

var planTime = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// good is a record that the rules accept.
func good(offset int64, tenant hub.TenantID, ceID, body string) Record {
	r := Record{Record: wire.Record{Topic: "lerian.streaming.lender", Partition: 1, Offset: offset, Value: []byte(body)}}
	r.Verdict = wire.Verdict{Kind: wire.Accept, Event: hub.Event{
		Tenant: tenant, CEID: ceID, Source: "lender", CEType: "t", ResourceType: "loan", EventType: "approved", Body: r.Value,
		Record: hub.RecordPosition{Topic: r.Topic, Partition: r.Partition, Offset: offset},
	}}
	r.Key = wire.DedupKey(tenant, "lender", ceID)
	r.Content = wire.ContentHash("t", r.Value)
	r.Place = PlaceKey([16]byte{1}, r.Partition, offset)
	return r
}

// bad is a record that the rules quarantine, skipped one that they skip.
func bad(offset int64, reason wire.Reason) Record {
	r := good(offset, "", "", "not an event")
	r.Key, r.Content = hub.ID{}, hub.ID{}
	r.Verdict = wire.Verdict{Kind: wire.Quarantine, Reason: reason}
	r.Headers = []wire.Header{{Key: "ce-id", Value: []byte{0xff}}, {Key: "ce-id"}}
	return r
}

func skipped(offset int64) Record {
	r := bad(offset, "")
	r.Verdict = wire.Verdict{Kind: wire.Skip}
	return r
}

// wishes is a router by tenant.
type wishes map[hub.TenantID][]*hub.EventSubscription

func (w wishes) Match(ev *hub.Event) []*hub.EventSubscription    { return w[ev.Tenant] }
func (wishes) Policy(sub *hub.EventSubscription) hub.RetryPolicy { return sub.RetryPolicy }
func (wishes) Limited(*hub.EventSubscription) bool               { return false }

func subscriptionTo(tenant hub.TenantID, kind hub.SinkKind) *hub.EventSubscription {
	id := func() hub.ID { return hub.NewID(planTime, rand.Reader) }
	return &hub.EventSubscription{
		ID: hub.SubscriptionID{ID: id()}, Destination: hub.DestinationID{ID: id()}, Tenant: tenant, Kind: kind,
	}
}

// world knows the keys given, and was asked for the places of no conflict.
func world(w wishes, known ...db.EventKey) World {
	state := db.IngestState{
		Tenants: map[hub.TenantID]db.TenantCounter{"acme": {NextSeq: 10}, "bolt": {NextSeq: 1}},
		Known:   map[hub.ID]hub.ID{}, Asked: map[hub.ID]struct{}{},
	}
	for _, k := range known {
		state.Known[k.Key] = k.ContentHash
	}
	return World{State: state, Router: w, Now: planTime, Random: rand.Reader, Jitter: func() float64 { return 0.5 }}
}

func asked(w World, places ...hub.ID) World {
	for _, p := range places {
		w.State.Asked[p] = struct{}{}
	}
	return w
}

func stored(r Record) db.EventKey { return db.EventKey{Key: r.Key, ContentHash: r.Content} }

func TestMakePlan(t *testing.T) {
	a, twin, other := good(1, "acme", "a", "x"), good(2, "acme", "a", "x"), good(3, "acme", "a", "y")
	quarantined := func(n int, reason wire.Reason) map[wire.Reason]int { return map[wire.Reason]int{reason: n} }
	none := map[wire.Reason]int{}
	for _, row := range []struct {
		name    string
		records []Record
		world   World
		counts  Counts
		askFor  []hub.ID
		seqs    map[hub.TenantID]int64 // next ones, nil for untouched
		keys    int
	}{
		{name: "nothing", world: world(nil), counts: Counts{Quarantined: none}},
		{
			name: "new_event_without_a_wish_is_stored_and_counted", records: []Record{a}, world: world(nil),
			counts: Counts{Accepted: 1, Unmatched: 1, Quarantined: none}, seqs: map[hub.TenantID]int64{"acme": 11}, keys: 1,
		},
		{
			name: "duplicate_in_the_batch_is_dropped", records: []Record{a, twin}, world: world(nil),
			counts: Counts{Accepted: 1, Unmatched: 1, Duplicates: 1, Quarantined: none}, seqs: map[hub.TenantID]int64{"acme": 11}, keys: 1,
		},
		{
			name: "duplicate_of_a_stored_one_is_dropped", records: []Record{twin}, world: world(nil, stored(a)),
			counts: Counts{Duplicates: 1, Quarantined: none},
		},
		{
			name: "same_id_of_another_tenant_is_another_event", records: []Record{a, good(2, "bolt", "a", "x")}, world: world(nil),
			counts: Counts{Accepted: 2, Unmatched: 2, Quarantined: none}, seqs: map[hub.TenantID]int64{"acme": 11, "bolt": 2}, keys: 2,
		},
		{
			name: "conflict_in_the_batch_asks_for_its_place_first", records: []Record{a, other}, world: world(nil),
			counts: Counts{Accepted: 1, Unmatched: 1, Quarantined: quarantined(1, wire.DuplicateConflict)},
			askFor: []hub.ID{other.Place}, seqs: map[hub.TenantID]int64{"acme": 11}, keys: 2,
		},
		{
			name: "conflict_with_a_stored_one_asks_for_its_place_first", records: []Record{other}, world: world(nil, stored(a)),
			counts: Counts{Quarantined: quarantined(1, wire.DuplicateConflict)}, askFor: []hub.ID{other.Place}, keys: 1,
		},
		{
			name: "conflict_whose_place_was_asked_is_quarantined", records: []Record{other}, world: asked(world(nil, stored(a)), other.Place),
			counts: Counts{Quarantined: quarantined(1, wire.DuplicateConflict)}, keys: 1,
		},
		{
			name: "conflict_in_quarantine_already_is_not_kept_again", records: []Record{other},
			world:  asked(world(nil, stored(a), db.EventKey{Key: other.Place}), other.Place),
			counts: Counts{KnownQuarantined: 1, Quarantined: none},
		},
		{
			name: "quarantined_once_per_place", records: []Record{bad(1, "unsupported_mode"), bad(1, "unsupported_mode"), bad(2, "unsupported_mode")},
			world: world(nil), counts: Counts{KnownQuarantined: 1, Quarantined: quarantined(2, "unsupported_mode")}, keys: 2,
		},
		{
			name: "quarantined_before_is_not_kept_again", records: []Record{bad(1, "unsupported_mode")},
			world:  world(nil, db.EventKey{Key: bad(1, "").Place}),
			counts: Counts{KnownQuarantined: 1, Quarantined: none},
		},
		{name: "skip_stores_nothing", records: []Record{skipped(1), skipped(2)}, world: world(nil), counts: Counts{Skipped: 2, Quarantined: none}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := MakePlan(row.records, row.world)
			if diff := cmp.Diff(row.counts, p.Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(row.askFor, p.AskFor); diff != "" {
				t.Errorf("asks for (-want +got):\n%s", diff)
			}
			if len(row.seqs) != len(p.Writes.NextSeqs) || len(row.seqs) > 0 && !cmp.Equal(row.seqs, p.Writes.NextSeqs) {
				t.Errorf("next seqs = %v, want %v", p.Writes.NextSeqs, row.seqs)
			}
			if len(p.Writes.Keys) != row.keys || len(p.Writes.Events) != row.counts.Accepted || len(p.Writes.Deliveries) != 0 {
				t.Errorf("writes %d keys, %d events, %d deliveries", len(p.Writes.Keys), len(p.Writes.Events), len(p.Writes.Deliveries))
			}
		})
	}
}

func TestMakePlan_events_are_numbered_in_the_order_of_arrival(t *testing.T) {
	records := []Record{
		good(5, "acme", "a", ""), good(6, "bolt", "b", ""), good(7, "acme", "c", ""), good(8, "acme", "a", ""), good(9, "acme", "d", ""), good(10, "bolt", "e", ""),
	}
	p := MakePlan(records, world(nil))
	var got []string
	for i, e := range p.Writes.Events {
		got = append(got, fmt.Sprintf("%s %s %d at %d", e.Tenant, e.CEID, e.Seq, e.Record.Offset))
		if e.ID.IsZero() || !e.ReceivedAt.Equal(planTime) || p.Writes.Keys[i].Event != e.ID.ID {
			t.Errorf("event %d = %+v", i, e)
		}
	}
	want := []string{"acme a 10 at 5", "bolt b 1 at 6", "acme c 11 at 7", "acme d 12 at 9", "bolt e 2 at 10"}
	if !slices.IsSortedFunc(p.Writes.Events, func(a, b hub.Event) int { return bytes.Compare(a.ID.ID[:], b.ID.ID[:]) }) {
		t.Error("a list by id does not show the events in their order")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[hub.TenantID]int64{"acme": 13, "bolt": 3}, p.Writes.NextSeqs); diff != "" {
		t.Errorf("next seqs (-want +got):\n%s", diff)
	}
}

func TestMakePlan_deliveries(t *testing.T) {
	now, later, pull := subscriptionTo("acme", hub.SinkWebhook), subscriptionTo("acme", hub.SinkWebhook), subscriptionTo("acme", hub.SinkPull)
	later.RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{60_000, 5}}
	p := MakePlan([]Record{good(1, "acme", "a", "body"), good(2, "bolt", "b", "")}, world(wishes{"acme": {now, pull, later}}))
	if len(p.Writes.Deliveries) != 2 {
		t.Fatalf("%d deliveries, want one for each webhook and none to pull", len(p.Writes.Deliveries))
	}
	if a, b := p.Writes.Deliveries[0].Delivery.ID.ID, p.Writes.Deliveries[1].Delivery.ID.ID; bytes.Compare(a[:], b[:]) >= 0 {
		t.Errorf("delivery %s is listed as older than %s, which was made later", a, b)
	}
	for i, sub := range []*hub.EventSubscription{now, later} {
		d := p.Writes.Deliveries[i]
		if want := time.Duration(i) * 30 * time.Second; d.DueIn != want {
			t.Errorf("delivery %d is due in %s, want %s", i, d.DueIn, want)
		}
		if d.LeaseToken != 0 || d.Delivery.Event != p.Writes.Events[0].ID || d.Delivery.Subscription != sub.ID || d.Delivery.Tenant != "acme" ||
			d.Delivery.Destination != sub.Destination || d.Delivery.BodyBytes != 4 || d.Delivery.Run != 1 || !d.Delivery.ReceivedAt.Equal(planTime) {
			t.Errorf("delivery %d = %+v", i, d)
		}
	}
	if p.Counts.Unmatched != 1 {
		t.Errorf("%d unmatched, want the event of the tenant without wishes", p.Counts.Unmatched)
	}
	if only := MakePlan([]Record{good(1, "acme", "a", "")}, world(wishes{"acme": {pull}})); only.Counts.Unmatched != 1 {
		t.Error("an event that only a pull subscription wants makes no delivery and counts as unmatched")
	}
}

func TestMakePlan_quarantine_keeps_the_record(t *testing.T) {
	r := bad(7, "missing_attribute:id")
	r.Value = []byte(strings.Repeat("x", maxQuarantineBody+1))
	p := MakePlan([]Record{r}, world(nil))
	q := p.Writes.Quarantine[0]
	if q.Reason != "missing_attribute:id" || q.Offset != 7 || len(q.Body) != maxQuarantineBody || q.BodyBytes != maxQuarantineBody+1 {
		t.Errorf("kept %d of %d bytes at %d for %s", len(q.Body), q.BodyBytes, q.Offset, q.Reason)
	}
	if diff := cmp.Diff([]db.RawHeader{{Key: []byte("ce-id"), Value: []byte{0xff}}, {Key: []byte("ce-id")}}, q.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if p.Writes.Keys[0] != (db.EventKey{Key: r.Place, Event: q.ID}) {
		t.Errorf("key = %+v", p.Writes.Keys[0])
	}
}

func TestPlaceKey_differs_by_each_part(t *testing.T) {
	seen := map[hub.ID]string{}
	for _, topic := range [][16]byte{{}, {1}, {15: 1}} {
		for _, partition := range []int32{0, 1, 1 << 30} {
			for _, offset := range []int64{0, 1, 1 << 40} {
				key, name := PlaceKey(topic, partition, offset), fmt.Sprint(topic, partition, offset)
				if before, ok := seen[key]; ok {
					t.Errorf("%s and %s have one key", before, name)
				}
				seen[key] = name
			}
		}
	}
}

// Every record ends in exactly one place, however the batch is mixed.
func TestMakePlan_each_record_ends_in_one_place(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []Record
		for offset := range rapid.IntRange(0, 40).Draw(t, "records") {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				records = append(records, skipped(int64(offset)))
			case 1:
				records = append(records, bad(int64(offset), wire.Reason("reason"+rapid.StringMatching("[ab]").Draw(t, "reason"))))
			default:
				records = append(records, good(int64(offset), rapid.SampledFrom([]hub.TenantID{"acme", "bolt"}).Draw(t, "tenant"),
					rapid.StringMatching("[a-h]").Draw(t, "id"), rapid.StringMatching("[xy]").Draw(t, "body")))
			}
		}
		w := world(wishes{"bolt": {subscriptionTo("bolt", hub.SinkWebhook)}})
		for _, r := range records { // some were stored before
			if r.Verdict.Kind != wire.Skip && rapid.IntRange(0, 4).Draw(t, "known") == 0 {
				w.State.Known[r.Key], w.State.Known[r.Place] = r.Content, hub.ID{}
			}
		}
		p := MakePlan(records, w)
		for round := 0; len(p.AskFor) > 0; round++ {
			if round > 0 {
				t.Fatal("the plan asks a second time")
			}
			w = asked(w, p.AskFor...)
			p = MakePlan(records, w)
		}
		c, quarantined := p.Counts, 0
		for _, n := range c.Quarantined {
			quarantined += n
		}
		if sum := c.Accepted + c.Duplicates + c.Skipped + quarantined + c.KnownQuarantined; sum != len(records) {
			t.Fatalf("%d places of %d records: %+v", sum, len(records), c)
		}
		if c.Accepted != len(p.Writes.Events) || quarantined != len(p.Writes.Quarantine) || len(p.Writes.Keys) != c.Accepted+quarantined {
			t.Fatalf("counts %+v do not fit the writes", c)
		}
		keys := map[hub.ID]bool{}
		for _, k := range p.Writes.Keys {
			if _, known := w.State.Known[k.Key]; known || keys[k.Key] {
				t.Fatal("a key is written twice")
			}
			keys[k.Key] = true
		}
		next := map[hub.TenantID]int64{"acme": 10, "bolt": 1}
		wanted := 0
		for _, e := range p.Writes.Events {
			if e.Seq != next[e.Tenant] {
				t.Fatalf("event of %s has seq %d, want %d", e.Tenant, e.Seq, next[e.Tenant])
			}
			next[e.Tenant]++
			if e.Tenant == "bolt" {
				wanted++
			}
		}
		for tenant, n := range p.Writes.NextSeqs {
			if n != next[tenant] {
				t.Fatalf("next seq of %s is %d, want %d", tenant, n, next[tenant])
			}
		}
		if len(p.Writes.Deliveries) != wanted || c.Unmatched != c.Accepted-wanted {
			t.Fatalf("%d deliveries, %d unmatched, want %d and %d", len(p.Writes.Deliveries), c.Unmatched, wanted, c.Accepted-wanted)
		}
	})
}
