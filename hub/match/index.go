package match

import (
	"bytes"
	"maps"
	"slices"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Index finds the subscriptions that want an event among those of many
// tenants. It is immutable: With gives a new one that shares all other
// tenants, so readers need no lock and a change costs about one shard.
//
// An index holds the subscriptions of each tenant by exact key, by resource
// and those with a star; these lists only propose, the clauses decide.
type Index struct {
	shards [shardCount]map[hub.TenantID]*tenant
}

// shardCount bounds what With copies: with 10 000 tenants a shard holds about
// 40 of them.
const shardCount = 256

// tenant holds one tenant's subscriptions in creation order; the lists hold
// ascending places in subs.
type tenant struct {
	subs       []hub.EventSubscription
	byKey      map[string][]int32
	byResource map[string][]int32
	star       []int32
}

// NewIndex builds an index of any number of subscriptions in any order. It
// keeps copies of them.
func NewIndex(subs []hub.EventSubscription) *Index {
	byTenant := make(map[hub.TenantID][]hub.EventSubscription)
	for _, s := range subs {
		byTenant[s.Tenant] = append(byTenant[s.Tenant], s)
	}
	ix := new(Index)
	for id, own := range byTenant {
		shard := &ix.shards[shardOf(id)]
		if *shard == nil {
			*shard = make(map[hub.TenantID]*tenant)
		}
		(*shard)[id] = newTenant(own)
	}
	return ix
}

// With is the index with all subscriptions of one tenant replaced by subs;
// those of other tenants among subs are left out. No subs removes the tenant.
func (ix *Index) With(id hub.TenantID, subs []hub.EventSubscription) *Index {
	own := make([]hub.EventSubscription, 0, len(subs))
	for _, s := range subs {
		if s.Tenant == id {
			own = append(own, s)
		}
	}
	next := *ix
	shard := &next.shards[shardOf(id)]
	if *shard = maps.Clone(*shard); *shard == nil {
		*shard = make(map[hub.TenantID]*tenant)
	}
	if len(own) == 0 {
		delete(*shard, id)
	} else {
		(*shard)[id] = newTenant(own)
	}
	return &next
}

// Match appends to dst the subscriptions that want the event, each once, in
// creation order. They belong to the index and may not be changed.
func (ix *Index) Match(ev *hub.Event, dst []*hub.EventSubscription) []*hub.EventSubscription {
	t := ix.shards[shardOf(ev.Tenant)][ev.Tenant]
	if t == nil {
		return dst
	}
	var room [2*maxPart + 1]byte
	key := append(append(append(room[:0], ev.ResourceType...), '.'), ev.EventType...)
	exact, resource, star := t.byKey[string(key)], t.byResource[ev.ResourceType], t.star

	// Merge three ascending lists; a subscription may stand in several.
	for {
		next := int32(-1)
		for _, list := range [...][]int32{exact, resource, star} {
			if len(list) > 0 && (next < 0 || list[0] < next) {
				next = list[0]
			}
		}
		if next < 0 {
			return dst
		}
		exact, resource, star = drop(exact, next), drop(resource, next), drop(star, next)
		if sub := &t.subs[next]; Wants(ev, sub) {
			dst = append(dst, sub)
		}
	}
}

// Subscriptions are those of one tenant in creation order. They belong to the
// index and may not be changed.
func (ix *Index) Subscriptions(id hub.TenantID) []hub.EventSubscription {
	if t := ix.shards[shardOf(id)][id]; t != nil {
		return t.subs
	}
	return nil
}

// drop takes a place off the front of an ascending list.
func drop(list []int32, place int32) []int32 {
	if len(list) > 0 && list[0] == place {
		return list[1:]
	}
	return list
}

func newTenant(subs []hub.EventSubscription) *tenant {
	slices.SortStableFunc(subs, func(a, b hub.EventSubscription) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return bytes.Compare(a.ID.ID[:], b.ID.ID[:])
	})
	t := &tenant{subs: subs, byKey: make(map[string][]int32), byResource: make(map[string][]int32)}
	for i := range subs {
		for _, p := range subs[i].EventTypes {
			if resource, ok := starOf(p); ok {
				t.byResource[resource] = add(t.byResource[resource], int32(i))
			} else if p == "*" {
				t.star = add(t.star, int32(i))
			} else {
				t.byKey[p] = add(t.byKey[p], int32(i))
			}
		}
	}
	return t
}

// add keeps a list free of repeats; places come in ascending order.
func add(list []int32, place int32) []int32 {
	if n := len(list); n > 0 && list[n-1] == place {
		return list
	}
	return append(list, place)
}

// shardOf is FNV-1a, folded to the number of shards.
func shardOf(id hub.TenantID) uint8 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return uint8(h ^ h>>8 ^ h>>16 ^ h>>24)
}
