package ingest

import (
	"io"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// Record is a Kafka record with the verdict on it.
type Record struct {
	wire.Record
	Verdict wire.Verdict
	// Key and Content make an accepted record unique.
	Key, Content hub.ID
	// Place makes a quarantined record unique: topic id, partition, offset.
	Place hub.ID
	// Readmit is the row in quarantine of a record that is judged again; zero
	// for one that comes from Kafka.
	Readmit hub.ID
}

// PlaceKey is the dedup key of a quarantined record: it is kept once however
// often Kafka hands it out, and again when a topic was deleted and made anew.
func PlaceKey(topicID [16]byte, partition int32, offset int64) hub.ID {
	return wire.PlaceKey(wire.PlaceOfQuarantine, topicID, partition, offset)
}

// Router tells who wants an event and how the subscription waits before its
// first attempt.
type Router interface {
	Match(ev *hub.Event) []*hub.EventSubscription
	Policy(sub *hub.EventSubscription) hub.RetryPolicy
	// Limited reports whether its destination has limits that replicas share.
	Limited(sub *hub.EventSubscription) bool
}

// World is what a plan depends on besides the records: state read under the
// locks, time and chance.
type World struct {
	State  db.IngestState
	Router Router
	Now    time.Time
	Random io.Reader      // for ids
	Jitter func() float64 // for first waits, [0, 1)
}

// Plan is what becomes of a batch. Each record ends in exactly one of the
// counters.
type Plan struct {
	Writes db.IngestWrites
	Counts Counts
	// AskFor are dedup keys that must be looked up before the plan holds: the
	// places of records that turned out to be conflicts.
	AskFor []hub.ID
}

// Counts says where the records of a batch went.
type Counts struct {
	Accepted, Skipped, Duplicates, Unmatched int
	Quarantined                              map[wire.Reason]int
	// KnownQuarantined were in quarantine before: the record was read again.
	KnownQuarantined int
}

// maxQuarantineBody is how much of a quarantined value is kept, in bytes.
const maxQuarantineBody = 1 << 20

// MakePlan decides for each record of one partition, in order: skip, drop as
// a duplicate, quarantine, or store with the next seq of its tenant and one
// delivery for each subscription that wants it.
func MakePlan(records []Record, w World) Plan {
	p := planner{
		world: w,
		ids:   hub.NewIDs(w.Now, w.Random),
		seqs:  make(map[hub.TenantID]int64, len(w.State.Tenants)),
		seen:  make(map[hub.ID]hub.ID, len(records)),
		plan: Plan{
			Writes: db.IngestWrites{ReceivedAt: w.Now},
			Counts: Counts{Quarantined: map[wire.Reason]int{}},
		},
	}
	for i := range records {
		p.place(&records[i])
	}
	p.plan.Writes.NextSeqs = p.seqs
	return p.plan
}

type planner struct {
	world World
	ids   *hub.IDs
	plan  Plan
	seqs  map[hub.TenantID]int64
	seen  map[hub.ID]hub.ID // keys placed by this batch → content
}

func (p *planner) place(r *Record) {
	switch r.Verdict.Kind {
	case wire.Skip:
		p.plan.Counts.Skipped++
		p.settle(r, "skipped")
	case wire.Quarantine:
		p.quarantine(r, r.Verdict.Reason)
	case wire.Accept:
		switch content, known := p.known(r.Key); {
		case !known:
			p.accept(r)
		case content == r.Content:
			p.plan.Counts.Duplicates++
			p.settle(r, "duplicate")
		default:
			p.conflict(r)
		}
	}
}

func (p *planner) known(key hub.ID) (content hub.ID, known bool) {
	if content, known = p.world.State.Known[key]; known {
		return content, true
	}
	content, known = p.seen[key]
	return content, known
}

func (p *planner) accept(r *Record) {
	ev := r.Verdict.Event
	counter := p.world.State.Tenants[ev.Tenant]
	next, ok := p.seqs[ev.Tenant]
	if !ok {
		next = counter.NextSeq
	}
	ev.ID = hub.EventID{ID: p.ids.Next()}
	ev.Seq, ev.ReceivedAt = next, p.world.Now
	p.seqs[ev.Tenant] = next + 1
	p.remember(r.Key, r.Content, ev.ID.ID)
	p.plan.Counts.Accepted++
	p.settle(r, "accepted")

	wanted := 0
	for _, sub := range p.world.Router.Match(&ev) {
		if sub.Kind == hub.SinkPull {
			continue // a saved filter, read by the pull API
		}
		wanted++
		policy := p.world.Router.Policy(sub)
		p.plan.Writes.Deliveries = append(p.plan.Writes.Deliveries, db.NewDelivery{
			DueIn: retry.First(policy, p.world.Jitter()), Last: retry.MaxAttempts(policy) == 1,
			Limited: p.world.Router.Limited(sub),
			Delivery: hub.Delivery{
				ID: hub.DeliveryID{ID: p.ids.Next()}, Event: ev.ID, Tenant: ev.Tenant,
				Subscription: sub.ID, Destination: sub.Destination, Run: 1,
				ReceivedAt: p.world.Now, DueAt: p.world.Now, BodyBytes: int32(len(ev.Body)),
			},
		})
	}
	if wanted == 0 {
		p.plan.Counts.Unmatched++
	}
	p.plan.Writes.Events = append(p.plan.Writes.Events, ev)
}

// conflict quarantines a record that reuses an id for other content. Whether
// it is in quarantine already is known only once its place was asked for.
func (p *planner) conflict(r *Record) {
	if !r.Readmit.IsZero() {
		p.settle(r, string(wire.DuplicateConflict))
		return
	}
	if _, asked := p.world.State.Asked[r.Place]; !asked {
		p.plan.AskFor = append(p.plan.AskFor, r.Place)
	}
	p.quarantine(r, wire.DuplicateConflict)
}

func (p *planner) quarantine(r *Record, reason wire.Reason) {
	if !r.Readmit.IsZero() {
		p.settle(r, string(reason)) // it stays where it is
		return
	}
	if _, known := p.known(r.Place); known {
		p.plan.Counts.KnownQuarantined++
		return
	}
	q := db.QuarantinedRecord{
		ID: p.ids.Next(), Reason: string(reason), Offset: r.Offset,
		Tenant: r.Verdict.Event.Tenant, Body: r.Value, BodyBytes: int32(len(r.Value)),
	}
	if len(q.Body) > maxQuarantineBody {
		q.Body = q.Body[:maxQuarantineBody]
	}
	for _, h := range r.Headers {
		q.Headers = append(q.Headers, db.RawHeader{Key: []byte(h.Key), Value: h.Value})
	}
	p.remember(r.Place, hub.ID{}, q.ID)
	p.plan.Counts.Quarantined[reason]++
	p.plan.Writes.Quarantine = append(p.plan.Writes.Quarantine, q)
}

func (p *planner) remember(key, content, id hub.ID) {
	p.seen[key] = content
	p.plan.Writes.Keys = append(p.plan.Writes.Keys, db.EventKey{Key: key, ContentHash: content, Event: id})
}

// settle notes what came of a record that was in quarantine and is judged
// again.
func (p *planner) settle(r *Record, result string) {
	if !r.Readmit.IsZero() {
		p.plan.Writes.Readmitted = append(p.plan.Writes.Readmitted, db.Readmitted{ID: r.Readmit, Result: result})
	}
}
