package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// smallBatch is the records up to which a batch counts as live traffic.
const smallBatch = 64

// errAskMore aborts a transaction whose plan needs to look up more keys.
var errAskMore = errors.New("ingest: the plan needs more keys")

// store judges a batch of one partition and stores it in one transaction.
func (c *Consumer) store(ctx context.Context, topicID [16]byte, batch []*kgo.Record) error {
	records, ask := c.judge(topicID, batch)
	slots := c.single
	if len(batch) > smallBatch {
		slots = c.bulk
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	taken := func() {}
	if len(batch) > smallBatch {
		// A flood is best left in Kafka while the workers are busy with it:
		// what goes straight to them costs no claim.
		taken = c.deps.Pool.AwaitRoom(ctx, len(batch))
		defer taken()
	}
	last := batch[len(batch)-1]
	progress := &db.Progress{Topic: hub.ID(topicID), Partition: last.Partition, Next: last.Offset + 1}
	return c.storeRecords(ctx, records, ask, progress, taken)
}

// storeRecords stores judged records of one partition in one transaction. taken
// is called when their deliveries have the workers that they get.
func (c *Consumer) storeRecords(ctx context.Context, records []Record, ask db.IngestBatch, progress *db.Progress, taken func()) error {
	begun := c.deps.Now()
	for {
		plan, err := c.storeOnce(ctx, records, ask, progress, taken)
		if errors.Is(err, errAskMore) {
			ask.Keys = append(ask.Keys, plan.AskFor...)
			continue // each round asks for keys not asked before: it ends
		}
		if err != nil {
			return err
		}
		now := c.deps.Now()
		c.deps.Metrics.batch(plan.Counts, len(records), now.Sub(begun))
		c.deps.Tracer.Ingested(plan.Writes.Events, begun, now)
		return nil
	}
}

// judge gives each record its verdict and collects what the transaction must
// lock and look up.
func (c *Consumer) judge(topicID [16]byte, batch []*kgo.Record) ([]Record, db.IngestBatch) {
	records := make([]Record, len(batch))
	headers := make([]wire.Header, 0, 16*len(batch))
	for i, kr := range batch {
		start := len(headers)
		for _, h := range kr.Headers {
			headers = append(headers, wire.Header{Key: h.Key, Value: h.Value})
		}
		records[i] = Record{
			Record: wire.Record{
				Topic: kr.Topic, Partition: kr.Partition, Offset: kr.Offset,
				Headers: headers[start:len(headers):len(headers)], Value: kr.Value,
			},
			Place: PlaceKey(topicID, kr.Partition, kr.Offset),
		}
	}
	return records, c.ask(records)
}

// ask judges records and says what their transaction must lock and look up.
func (c *Consumer) ask(records []Record) (ask db.IngestBatch) {
	seen := map[hub.TenantID]bool{}
	for i := range records {
		r := &records[i]
		r.Verdict = c.deps.Rules.Judge(r.Record)
		switch r.Verdict.Kind {
		case wire.Accept:
			ev := &r.Verdict.Event
			r.Key = wire.DedupKey(ev.Tenant, ev.Source, ev.CEID)
			r.Content = wire.ContentHash(ev.CEType, ev.Body)
			ask.Keys = append(ask.Keys, r.Key)
			if !seen[ev.Tenant] {
				seen[ev.Tenant] = true
				ask.Tenants = append(ask.Tenants, ev.Tenant)
			}
		case wire.Quarantine:
			if r.Readmit.IsZero() {
				ask.Keys = append(ask.Keys, r.Place)
			}
		}
	}
	return ask
}

func (c *Consumer) storeOnce(ctx context.Context, records []Record, ask db.IngestBatch, progress *db.Progress, taken func()) (Plan, error) {
	var plan Plan
	var leasedAt time.Time
	reserved := false
	err := c.deps.Inbox.Ingest(ctx, ask, func(ctx context.Context, state db.IngestState) (db.IngestWrites, error) {
		versions := make(map[hub.TenantID]int64, len(state.Tenants))
		for t, counter := range state.Tenants {
			versions[t] = counter.ConfigVersion
		}
		tenants, err := c.deps.Tenants.AtVersion(ctx, versions)
		if err != nil {
			return db.IngestWrites{}, err
		}
		leasedAt = c.deps.Now()
		plan = MakePlan(records, World{
			State: state, Router: router(tenants), Now: leasedAt,
			Random: c.deps.Random, Jitter: c.deps.Jitter,
		})
		if len(plan.AskFor) > 0 {
			return db.IngestWrites{}, errAskMore
		}
		w := &plan.Writes
		w.Record = hub.RecordPosition{Topic: records[0].Topic, Partition: records[0].Partition}
		w.Lease, w.Progress = c.deps.Pool.Lease(), progress
		c.deps.Pool.Reserve(w.Deliveries)
		reserved = true
		taken()
		return *w, nil
	})
	if err != nil {
		if reserved {
			c.deps.Pool.Cancel(plan.Writes.Deliveries)
		}
		return plan, err
	}
	events := make(map[hub.EventID]*hub.Event, len(plan.Writes.Events))
	for i := range plan.Writes.Events {
		events[plan.Writes.Events[i].ID] = &plan.Writes.Events[i]
	}
	c.deps.Pool.Submit(plan.Writes.Deliveries, events, leasedAt)
	return plan, nil
}

// router matches by the tenants' newest configuration.
type router map[hub.TenantID]*snapshot.Tenant

func (r router) Match(ev *hub.Event) []*hub.EventSubscription {
	t := r[ev.Tenant]
	if t == nil {
		return nil
	}
	return t.Index.Match(ev, nil)
}

func (r router) Policy(sub *hub.EventSubscription) hub.RetryPolicy {
	if route := r[sub.Tenant].Route(sub.ID); route != nil {
		return route.Policy
	}
	return hub.RetryPolicy{}
}

func (r router) Limited(sub *hub.EventSubscription) bool {
	d := r[sub.Tenant].Destination(sub.Destination)
	return d != nil && d.Limited()
}
