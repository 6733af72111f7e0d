package dispatch

import (
	"container/list"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// rotation is a set of lanes taken in turn: tenant after tenant, and within a
// tenant lane after lane. A tenant with ten thousand lanes gets as many turns
// as a tenant with one.
type rotation struct {
	tenants *list.List // of *turn
	byID    map[hub.TenantID]*list.Element
	lanes   map[db.Lane]*list.Element
}

// turn is one tenant's place in the rotation.
type turn struct {
	tenant hub.TenantID
	lanes  *list.List // of db.Lane
}

func newRotation() *rotation {
	return &rotation{
		tenants: list.New(), byID: map[hub.TenantID]*list.Element{}, lanes: map[db.Lane]*list.Element{},
	}
}

func (r *rotation) len() int { return len(r.lanes) }

func (r *rotation) has(l db.Lane) bool {
	_, ok := r.lanes[l]
	return ok
}

// add puts a lane at the end of its tenant's turn; a lane that is in stays
// where it is.
func (r *rotation) add(l db.Lane) {
	if r.has(l) {
		return
	}
	el, ok := r.byID[l.Tenant]
	if !ok {
		el = r.tenants.PushBack(&turn{tenant: l.Tenant, lanes: list.New()})
		r.byID[l.Tenant] = el
	}
	r.lanes[l] = el.Value.(*turn).lanes.PushBack(l)
}

func (r *rotation) remove(l db.Lane) {
	el, ok := r.lanes[l]
	if !ok {
		return
	}
	delete(r.lanes, l)
	tenant := r.byID[l.Tenant]
	t := tenant.Value.(*turn)
	if t.lanes.Remove(el); t.lanes.Len() == 0 {
		r.tenants.Remove(tenant)
		delete(r.byID, l.Tenant)
	}
}

// next is the lane whose turn it is; it and its tenant go to the end.
func (r *rotation) next() (db.Lane, bool) {
	tenant := r.tenants.Front()
	if tenant == nil {
		return db.Lane{}, false
	}
	t := tenant.Value.(*turn)
	lane := t.lanes.Front()
	r.tenants.MoveToBack(tenant)
	t.lanes.MoveToBack(lane)
	return lane.Value.(db.Lane), true
}
