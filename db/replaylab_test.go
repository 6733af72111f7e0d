package db_test

import (
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// shop is a tenant's event subscription with its destination, and what became
// of its deliveries.
type shop struct {
	*lab
	lane db.Lane
	sub  hub.SubscriptionID
	seq  int
}

// opened makes a tenant with an event subscription that takes everything.
func (l *lab) opened(tenant string) *shop {
	l.Helper()
	s := &shop{lab: l, lane: laneOf(tenant)}
	l.exec(`INSERT INTO tenant_counters (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING`, tenant)
	l.exec(`INSERT INTO destinations (id, tenant_id, kind, url, created_at) VALUES ($1, $2, 'WEBHOOK', $1::uuid::text, now())`, text(s.lane.Destination), tenant)
	s.sub = s.subscribed("{*}")
	return s
}

// subscribed makes a further event subscription of the same destination.
func (s *shop) subscribed(types string) (id hub.SubscriptionID) {
	s.Helper()
	id.ID = newID()
	s.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, verification_state, created_at, updated_at)
		VALUES ($1, $2, 'test', $4, $3, 'WEBHOOK', 'ACTIVE', now(), now())`, text(id), string(s.lane.Tenant), text(s.lane.Destination), types)
	return id
}

// stored makes n events of a type and returns their ids, the oldest first.
func (s *shop) stored(n int, key string) (ids []hub.EventID) {
	s.Helper()
	list := make([]string, n)
	for i := range list {
		id := hub.EventID{ID: newID()}
		ids, list[i] = append(ids, id), text(id)
	}
	s.exec(`INSERT INTO events (id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major, received_at, topic, kafka_partition, kafka_offset, context, body)
		SELECT id, $2, $3 + n, 'lender', 'x', $4, '1', 1, now(), 't', 0, 0, '{}', '1234567' FROM unnest($1::text[]::uuid[]) WITH ORDINALITY AS e(id, n)`,
		list, string(s.lane.Tenant), s.seq, key)
	s.seq += n
	s.exec(`UPDATE tenant_counters SET next_seq = $2 WHERE tenant_id = $1`, string(s.lane.Tenant), s.seq+1)
	return ids
}

// tried is how the one attempt of deliveries went, and with it their run.
type tried struct {
	state  hub.State // DEAD or DELIVERED
	reason hub.DeadReason
	class  hub.ErrorClass
	status int
}

var (
	refused = tried{state: hub.Dead, reason: hub.DeadExhausted, class: hub.ErrStatus, status: 500}
	lost    = tried{state: hub.Dead, reason: hub.DeadExpired, class: hub.ErrTimeout}
	arrived = tried{state: hub.Delivered, status: 200}
)

// ended makes deliveries of the events that ended so, the oldest first.
func (s *shop) ended(sub hub.SubscriptionID, events []hub.EventID, how tried) []hub.DeliveryID {
	s.Helper()
	n := len(events)
	ids, list := make([]hub.DeliveryID, n), make([]string, n)
	event, ends, attempts := make([]string, n), make([]string, n), make([]string, n)
	for i := range list {
		ids[i].ID = newID()
		list[i], event[i] = text(ids[i]), text(events[i])
	}
	for i := range list {
		attempts[i], ends[i] = text(newID()), text(newID())
	}
	tenant, dest := string(s.lane.Tenant), text(s.lane.Destination)
	s.exec(`INSERT INTO deliveries SELECT d.id, $3, d.event, $4, $5 FROM unnest($1::text[]::uuid[], $2::text[]::uuid[]) AS d(id, event)`, list, event, tenant, text(sub), dest)
	s.exec(`INSERT INTO attempts SELECT a.id, $4, a.delivery, a.event, $5, $6, 1, 1, now(), 1, $7, $8, $9, NULL, ''
		FROM unnest($1::text[]::uuid[], $2::text[]::uuid[], $3::text[]::uuid[]) AS a(id, delivery, event)`, attempts, list, event, tenant, text(sub), dest, how.status, string(how.class), string(how.state))
	if how.state == hub.Dead {
		s.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason, last_error) SELECT r.id, $3, r.delivery, 1, 'DEAD', $4, 'x'
			FROM unnest($1::text[]::uuid[], $2::text[]::uuid[]) AS r(id, delivery)`, ends, list, tenant, string(how.reason))
	}
	return ids
}

// died makes n dead letters of the shop's subscription.
func (s *shop) died(n int) []hub.DeliveryID {
	s.Helper()
	return s.ended(s.sub, s.stored(n, "loan.approved"), refused)
}

// job makes a job of what is there now.
func (l *lab) job(tenant hub.TenantID, f hub.ReplayFilter) hub.JobID {
	l.Helper()
	return l.asked(hub.ReplayJob{Tenant: tenant, Kind: hub.JobReplay, Filter: f})
}

// backfill makes a job for the shop's subscription.
func (s *shop) backfill(r hub.BackfillRange) hub.JobID {
	s.Helper()
	r.Subscription = s.sub
	return s.asked(hub.ReplayJob{Tenant: s.lane.Tenant, Kind: hub.JobBackfill, Range: r})
}

// nextMilli is the beginning of the millisecond that has just begun: what was
// made before has ids of older ones. It waits for it, less than a millisecond.
func nextMilli() time.Time {
	next := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
	for time.Now().Before(next) {
		continue
	}
	return next
}

// asked stores a job; what is made from then on is younger.
func (l *lab) asked(j hub.ReplayJob) hub.JobID {
	l.Helper()
	j.ID.ID, j.CreatedAt, j.CreatedByName = newID(), nextMilli(), "test"
	j.Pace = hub.ReplayPace{RatePerSecond: 1000, PauseAbovePercent: 100}
	if err := l.db.CreateReplayJob(l.Context(), j, db.AuditEntry{ID: newID(), Tenant: j.Tenant, ActorName: "test", Action: "preview_replay", Object: "job"}); err != nil {
		l.Fatal(err)
	}
	nextMilli()
	return j.ID
}

// previewed freezes a job's set, some at a time.
func (l *lab) previewed(id hub.JobID, chunk int) hub.ReplayJob {
	l.Helper()
	for parts := 0; ; parts++ {
		more, err := l.db.ScanReplay(l.Context(), id, chunk, newID())
		if err != nil {
			l.Fatal(err)
		}
		if !more {
			return l.jobOf(id)
		}
		if parts > 10_000 {
			l.Fatal("a preview does not end")
		}
	}
}

func (l *lab) jobOf(id hub.JobID) hub.ReplayJob {
	l.Helper()
	jobs, err := l.db.ReplayJobsByID(l.Context(), []hub.JobID{id})
	if err != nil || len(jobs) != 1 {
		l.Fatalf("%d jobs, %v", len(jobs), err)
	}
	return jobs[0]
}

// started previews a job and lets it run.
func (l *lab) started(id hub.JobID) hub.ReplayJob {
	l.Helper()
	j := l.previewed(id, 500)
	_, err := l.db.ChangeReplayJob(l.Context(), db.ReplayChange{
		ID: id, Tenant: j.Tenant, FeedID: newID(),
		Change: func(j *hub.ReplayJob, now time.Time) (bool, error) {
			return replay.Start(j, j.Pace, now)
		},
		Audit: func(_, after *hub.ReplayJob) db.AuditEntry {
			return db.AuditEntry{ID: newID(), Tenant: after.Tenant, ActorName: "test", Action: "start_replay", Object: "job", After: after.State}
		},
	})
	if err != nil {
		l.Fatal(err)
	}
	return j
}

// releasing is a step that lets n items go, whatever the pace.
func releasing(n int) func(*hub.ReplayJob, time.Time) replay.Step {
	return func(j *hub.ReplayJob, now time.Time) replay.Step {
		s := replay.Step{Release: n, PacedTo: now, CanaryPassed: true, State: j.State, PausedBy: j.PausedBy, Reason: j.Reason}
		if j.State != hub.JobRunning {
			s.Release = 0
		}
		if j.State == hub.JobRunning && j.Pending() == 0 && j.Open() == 0 {
			s.State, s.Release = hub.JobCompleted, 0
		}
		return s
	}
}

func (l *lab) release(id hub.JobID, n int) (did bool) {
	l.Helper()
	did, err := l.db.StepReplay(l.Context(), id, newID(), releasing(n))
	if err != nil {
		l.Fatal(err)
	}
	return did
}

// itemsOf are the deliveries of a job's items in the order of their release.
func (l *lab) itemsOf(id hub.JobID) []string {
	l.Helper()
	return l.names(`SELECT delivery_id::text FROM replay_items WHERE job_id = $1::text::uuid ORDER BY ordinal`, text(id))
}

// wantItems says how many items of a job are in a state.
func (l *lab) wantItems(id hub.JobID, state hub.ItemState, want int) {
	l.Helper()
	l.wantCount("items that are "+string(state), want, `SELECT count(*) FROM replay_items WHERE job_id = $1 AND state = $2`, text(id), string(state))
}
