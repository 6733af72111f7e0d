package db

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// maxReplayItems is how many items a job may have.
const maxReplayItems = 1_000_000

// ScanReplay freezes the next part of a job's set, looking at up to chunk
// deliveries or events, in one transaction; more says that there may be
// another part. The last part makes the job READY. Nothing is done while
// another replica is at the job, and nothing to a job that is not PREVIEWING.
//
// The set is what had ended, or was stored, when the job was made. Whatever is
// frozen stays, and the next part goes on behind it, however the part before
// ended.
func (d *DB) ScanReplay(ctx context.Context, id hub.JobID, chunk int, feedID hub.ID) (more bool, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := d.queries.TryReplayJob(ctx, tx, id.ID)
		if err != nil || len(rows) == 0 || hub.JobState(rows[0].ReplayJob.State) != hub.JobPreviewing {
			return err
		}
		if _, err := tx.Exec(ctx, byIndex+"; "+planAnew); err != nil {
			return err
		}
		s := &replayScan{row: &rows[0].ReplayJob, now: rows[0].LockedAt, chunk: chunk}
		if s.job, err = replayJobOf(s.row); err != nil {
			return err
		}
		before := s.job.Total
		if s.job.Kind == hub.JobBackfill {
			err = d.scanEvents(ctx, tx, s)
		} else {
			err = d.scanDeliveries(ctx, tx, s)
		}
		if err != nil {
			return err
		}
		s.settle()
		if err := d.moveScan(ctx, tx, s); err != nil {
			return err
		}
		more = s.job.State == hub.JobPreviewing
		if more && s.job.Total == before {
			return nil
		}
		return d.queueNotices(ctx, tx, feedID, []hub.Notice{replayNotice(&s.job, s.now)})
	})
	if err != nil {
		return false, fmt.Errorf("preview replay job %s: %w", id, err)
	}
	return more, nil
}

// replayScan is one part of a preview.
type replayScan struct {
	row   *dbsqlc.ReplayJob // locked; its scanned_to and scanned_seq move
	job   hub.ReplayJob     // as it becomes
	now   time.Time
	chunk int
	done  bool   // nothing is behind this part
	fault string // the set cannot be frozen, for this reason
}

// settle says what becomes of the job after the part.
func (s *replayScan) settle() {
	if s.job.Total > maxReplayItems {
		s.fault = fmt.Sprintf("the set has more than %d items: narrow it down", maxReplayItems)
	}
	switch {
	case s.fault != "":
		s.job.State, s.job.Reason, s.job.FinishedAt = hub.JobFailed, s.fault, s.now
	case s.done:
		s.job.State, s.job.PreviewedAt = hub.JobReady, s.now
	}
}

func (d *DB) moveScan(ctx context.Context, tx pgx.Tx, s *replayScan) error {
	shares := s.job.Shares
	if shares == nil {
		shares = []hub.DestinationShare{}
	}
	raw, err := json.Marshal(shares)
	if err != nil {
		return fmt.Errorf("encode shares: %w", err)
	}
	return d.queries.MoveReplayScan(ctx, tx, dbsqlc.MoveReplayScanParams{
		ID: s.row.ID, ScannedTo: s.row.ScannedTo, ScannedSeq: s.row.ScannedSeq, LastSeq: s.row.LastSeq,
		Total: s.job.Total, AlreadyDelivered: s.job.AlreadyDelivered, PossibleDuplicates: s.job.PossibleDuplicates,
		Undeliverable: s.job.Undeliverable, Shares: raw, State: string(s.job.State), Reason: s.job.Reason,
		PreviewedAt: timeOrNull(s.job.PreviewedAt), FinishedAt: timeOrNull(s.job.FinishedAt),
	})
}

// scanDeliveries freezes the next part of a REPLAY.
func (d *DB) scanDeliveries(ctx context.Context, tx pgx.Tx, s *replayScan) error {
	f := &s.job.Filter
	list, err := d.namedDeliveries(ctx, tx, s)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(v hub.Standing) bool { return !replayNames(f, s.job.Tenant, &v) })
	facts, err := d.runFacts(ctx, tx, list)
	if err != nil {
		return err
	}
	var items []hub.Delivery
	for i := range list {
		v := &list[i]
		event, stored := facts.events[v.Event.ID]
		if stored && event.Seq == 0 || f.EventType != "" && (!stored || !match.Covers(f.EventType, event.EventType)) {
			continue // a test send, or of another type
		}
		sub := facts.subs[v.Subscription]
		if undeliverable(sub, stored) != "" {
			s.job.Undeliverable++
			continue
		}
		v.Delivery.Destination = sub.Destination
		items = append(items, v.Delivery)
	}
	frozen, err := d.freeze(ctx, tx, s, items)
	if err != nil || len(frozen) == 0 {
		return err
	}
	earlier, err := d.queries.EarlierAnswers(ctx, tx, dbsqlc.EarlierAnswersParams{DeliveryIds: frozen, Lowest: followers(frozen)})
	for _, e := range earlier {
		if e.Delivered {
			s.job.AlreadyDelivered++
		}
		if e.Perhaps {
			s.job.PossibleDuplicates++
		}
	}
	return err
}

// replayNames reports whether a filter names a delivery where it stands, as far
// as that tells. What is asked of dead letters only dead ones have.
func replayNames(f *hub.ReplayFilter, tenant hub.TenantID, s *hub.Standing) bool {
	made := s.CreatedAt()
	return (tenant == "" || s.Tenant == tenant) &&
		(f.Subscription.IsZero() || s.Subscription == f.Subscription) &&
		(f.Destination.IsZero() || s.Destination == f.Destination) &&
		slices.Contains(statesOf(f), s.State) &&
		(f.CreatedAfter.IsZero() || !made.Before(f.CreatedAfter)) && (f.CreatedBefore.IsZero() || made.Before(f.CreatedBefore)) &&
		(!aboutDead(f) || s.State == hub.Dead &&
			(len(f.Reasons) == 0 || slices.Contains(f.Reasons, s.DeadReason)) &&
			(f.Fingerprint == nil || bytes.Equal(f.Fingerprint, s.Fingerprint)) &&
			(f.EndedAfter.IsZero() || !s.FinishedAt.Before(f.EndedAfter)) && (f.EndedBefore.IsZero() || s.FinishedAt.Before(f.EndedBefore)))
}

// statesOf are the states that a filter wants.
func statesOf(f *hub.ReplayFilter) []hub.State {
	if len(f.States) == 0 {
		return []hub.State{hub.Dead}
	}
	return f.States
}

// aboutDead reports whether a filter asks for what only dead letters have.
func aboutDead(f *hub.ReplayFilter) bool {
	return len(f.Reasons) > 0 || f.Fingerprint != nil || !f.EndedAfter.IsZero() || !f.EndedBefore.IsZero()
}

// undeliverable says in one sentence why a subscription takes no run of a
// delivery, "" when it does.
func undeliverable(sub *hub.EventSubscription, stored bool) string {
	switch {
	case sub == nil || !sub.DeletedAt.IsZero():
		return "its subscription was deleted"
	case !sub.Enabled:
		return "its subscription is disabled"
	case sub.VerificationState != hub.VerificationActive:
		return "its subscription is not verified"
	case !stored:
		return "its event is past its retention"
	}
	return ""
}

// freeze makes items of deliveries, in this order, and returns those that were
// none yet.
func (d *DB) freeze(ctx context.Context, tx pgx.Tx, s *replayScan, items []hub.Delivery) (frozen []hub.ID, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	p := dbsqlc.InsertReplayItemsParams{JobID: s.row.ID}
	to := make(map[hub.ID]hub.DestinationID, len(items))
	for i := range items {
		v := &items[i]
		p.TenantIds, p.Ordinals = append(p.TenantIds, string(v.Tenant)), append(p.Ordinals, s.job.Total+int64(i))
		p.DeliveryIds, p.EventIds = append(p.DeliveryIds, v.ID.ID), append(p.EventIds, v.Event.ID)
		p.SubscriptionIds, p.DestinationIds = append(p.SubscriptionIds, v.Subscription.ID), append(p.DestinationIds, v.Destination.ID)
		to[v.ID.ID] = v.Destination
	}
	if frozen, err = d.queries.InsertReplayItems(ctx, tx, p); err != nil {
		return nil, err
	}
	s.job.Total += int64(len(frozen))
	for _, id := range frozen {
		s.share(to[id])
	}
	return frozen, nil
}

// share counts an item for its destination.
func (s *replayScan) share(to hub.DestinationID) {
	for i := range s.job.Shares {
		if s.job.Shares[i].Destination == to {
			s.job.Shares[i].Count++
			return
		}
	}
	s.job.Shares = append(s.job.Shares, hub.DestinationShare{Destination: to, Count: 1})
}

// runFacts are what it takes to give deliveries a run.
type runFacts struct {
	events map[hub.ID]dbsqlc.EventFactsRow // those that are still stored
	subs   map[hub.SubscriptionID]*hub.EventSubscription
}

func (d *DB) runFacts(ctx context.Context, tx pgx.Tx, list []hub.Standing) (f runFacts, err error) {
	if len(list) == 0 {
		return f, nil
	}
	f.subs = make(map[hub.SubscriptionID]*hub.EventSubscription)
	events := make([]hub.ID, len(list))
	var subs []hub.ID
	for i := range list {
		events[i] = list[i].Event.ID
		if _, met := f.subs[list[i].Subscription]; !met {
			f.subs[list[i].Subscription] = nil
			subs = append(subs, list[i].Subscription.ID)
		}
	}
	rows, err := d.queries.SubscriptionsByID(ctx, tx, subs)
	if err != nil {
		return f, err
	}
	for i := range rows {
		sub := subscriptionOf(&rows[i])
		f.subs[sub.ID] = &sub
	}
	f.events, err = d.eventFacts(ctx, tx, events)
	return f, err
}

func (d *DB) eventFacts(ctx context.Context, tx pgx.Tx, ids []hub.ID) (map[hub.ID]dbsqlc.EventFactsRow, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.EventFacts(ctx, tx, dbsqlc.EventFactsParams{Ids: ids, Lowest: lowest, Highest: highest})
	events := make(map[hub.ID]dbsqlc.EventFactsRow, len(rows))
	for _, r := range rows {
		events[r.ID] = r
	}
	return events, err
}
