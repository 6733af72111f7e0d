package match_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// few values, so that subscriptions and events meet often; odd ones too, since
// nothing guards what is stored.
var (
	tenants   = rapid.SampledFrom([]hub.TenantID{"t1", "t2", "T1", "t"})
	resources = rapid.SampledFrom([]string{"loan", "loan_application", "*", "l"})
	events    = rapid.SampledFrom([]string{"approved", "rejected", "*", "a"})
	sources   = rapid.SampledFrom([]string{"lender", "tracer"})
	patterns  = rapid.SampledFrom([]string{"*", "loan.*", "loan.approved", "loan_application.*", "loan_application.rejected", "loan", "*.*", ".*", "", "l.a", "*.approved", "loan.**"})
	majors    = rapid.Int32Range(0, 2)
)

func drawEvent(t *rapid.T) *hub.Event {
	return &hub.Event{Tenant: tenants.Draw(t, "tenant"), Source: sources.Draw(t, "source"),
		ResourceType: resources.Draw(t, "resource"), EventType: events.Draw(t, "event"), SchemaMajor: majors.Draw(t, "major")}
}

func drawSubscription(t *rapid.T) hub.EventSubscription {
	s := hub.EventSubscription{
		Tenant:            tenants.Draw(t, "tenant"),
		CreatedAt:         time.Unix(rapid.Int64Range(0, 3).Draw(t, "created"), 0),
		EventTypes:        rapid.SliceOfN(patterns, 1, 4).Draw(t, "patterns"),
		Enabled:           rapid.IntRange(0, 4).Draw(t, "enabled") > 0,
		VerificationState: rapid.SampledFrom([]hub.VerificationState{hub.VerificationActive, hub.VerificationActive, hub.VerificationPending}).Draw(t, "state"),
	}
	s.ID.ID = hub.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	if rapid.Bool().Draw(t, "pinned") {
		s.Origin = sources.Draw(t, "origin")
	}
	if rapid.Bool().Draw(t, "versioned") {
		m := majors.Draw(t, "wanted major")
		s.SchemaMajor = &m
	}
	return s
}

// filtered is what Match promises, by brute force.
func filtered(subs []hub.EventSubscription, ev *hub.Event) []hub.SubscriptionID {
	var ids []hub.SubscriptionID
	ordered := slices.Clone(subs)
	slices.SortStableFunc(ordered, func(a, b hub.EventSubscription) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return slices.Compare(a.ID.ID[:], b.ID.ID[:])
	})
	for i := range ordered {
		if match.Wants(ev, &ordered[i]) {
			ids = append(ids, ordered[i].ID)
		}
	}
	return ids
}

func found(ix *match.Index, ev *hub.Event) []hub.SubscriptionID {
	var ids []hub.SubscriptionID
	for _, s := range ix.Match(ev, nil) {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestIndex_Match_is_the_filter_by_Wants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subs := rapid.SliceOfN(rapid.Custom(drawSubscription), 0, 20).Draw(t, "subscriptions")
		ix := match.NewIndex(subs)
		for range 5 {
			ev := drawEvent(t)
			if got, want := found(ix, ev), filtered(subs, ev); !slices.Equal(got, want) {
				t.Fatalf("event %s of %s: found %v, want %v", ev.Key(), ev.Tenant, got, want)
			}
		}
	})
}

func TestIndex_With_replaces_one_tenant_and_leaves_the_old_index(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Custom(drawSubscription), 0, 12).Draw(t, "before")
		changed := rapid.SliceOfN(rapid.Custom(drawSubscription), 0, 6).Draw(t, "changed")
		tenant := tenants.Draw(t, "whose")
		old := match.NewIndex(before)
		next := old.With(tenant, changed)

		after := slices.DeleteFunc(slices.Clone(before), func(s hub.EventSubscription) bool { return s.Tenant == tenant })
		for _, s := range changed {
			if s.Tenant == tenant {
				after = append(after, s)
			}
		}
		for range 5 {
			ev := drawEvent(t)
			if got, want := found(next, ev), filtered(after, ev); !slices.Equal(got, want) {
				t.Fatalf("new index: found %v, want %v", got, want)
			}
			if got, want := found(old, ev), filtered(before, ev); !slices.Equal(got, want) {
				t.Fatalf("old index: found %v, want %v", got, want)
			}
		}
	})
}

func TestIndex_each_subscription_once(t *testing.T) {
	ix := match.NewIndex([]hub.EventSubscription{{Tenant: "t1", EventTypes: []string{"loan.*", "loan.approved", "*", "*", "loan.*"},
		Enabled: true, VerificationState: hub.VerificationActive}})
	if got := ix.Match(&hub.Event{Tenant: "t1", ResourceType: "loan", EventType: "approved"}, nil); len(got) != 1 {
		t.Errorf("found %d", len(got))
	}
}

// manyTenants is an index of 10 000 tenants with 5 subscriptions each.
func manyTenants() *match.Index {
	var subs []hub.EventSubscription
	for i := range 10_000 {
		for j := range 5 {
			subs = append(subs, hub.EventSubscription{Tenant: hub.TenantID(fmt.Sprint("tenant-", i)), CreatedAt: time.Unix(int64(j), 0),
				EventTypes: []string{[]string{"*", "loan.*", "loan.approved", "loan.rejected", "card.*"}[j]},
				Enabled:    true, VerificationState: hub.VerificationActive})
		}
	}
	return match.NewIndex(subs)
}

func BenchmarkIndex_Match(b *testing.B) {
	ix := manyTenants()
	ev := &hub.Event{Tenant: "tenant-4711", ResourceType: "loan", EventType: "approved"}
	var dst []*hub.EventSubscription
	b.ReportAllocs()
	for b.Loop() {
		if dst = ix.Match(ev, dst[:0]); len(dst) != 3 {
			b.Fatal(len(dst))
		}
	}
}

func BenchmarkIndex_With(b *testing.B) {
	ix := manyTenants()
	own := slices.Clone(ix.Subscriptions("tenant-4711"))
	b.ReportAllocs()
	for b.Loop() {
		ix = ix.With("tenant-4711", own)
	}
}
