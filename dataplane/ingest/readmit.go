package ingest

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

const (
	// readmitEvery is how soon a re-admission is done after it was asked for.
	readmitEvery = time.Second
	// readmitBatch bounds the records, up to 1 MiB each, held at once.
	readmitBatch = 32
)

// Quarantine knows which quarantined records are to be judged again.
type Quarantine interface {
	ReadmitAsked(ctx context.Context, limit int) ([]db.AskedReadmission, error)
}

// Readmit judges quarantined records again when people ask for it, by today's
// rules and in the same transaction as any other record: what passes gets the
// next seq of its tenant and its deliveries, what does not stays. It works
// until ctx ends. Replicas may do it at the same time: the first one to commit
// settles a record, to the others it is a duplicate that nobody asks for.
func (c *Consumer) Readmit(ctx context.Context, q Quarantine) error {
	tick := time.NewTicker(readmitEvery)
	defer tick.Stop()
	for {
		err := c.readmitAll(ctx, q)
		if ctx.Err() != nil {
			return nil
		}
		c.outages.Failed("re-admit quarantined records", err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// readmitAll works until nothing is asked any more.
func (c *Consumer) readmitAll(ctx context.Context, q Quarantine) error {
	for {
		asked, err := q.ReadmitAsked(ctx, readmitBatch)
		if err != nil || len(asked) == 0 {
			return err
		}
		// A transaction writes events of one topic and partition.
		groups := map[topicPartition][]Record{}
		for _, a := range asked {
			key := topicPartition{a.Record.Topic, a.Record.Partition}
			groups[key] = append(groups[key], readmitRecord(a))
		}
		for _, records := range groups {
			if err := c.storeRecords(ctx, records, c.askAgain(records), nil, func() {}); err != nil {
				return err
			}
		}
	}
}

func readmitRecord(a db.AskedReadmission) Record {
	r := Record{Readmit: a.ID, Record: wire.Record{
		Topic: a.Record.Topic, Partition: a.Record.Partition, Offset: a.Record.Offset, Value: a.Body,
	}}
	for _, h := range a.Headers {
		r.Headers = append(r.Headers, wire.Header{Key: string(h.Key), Value: h.Value})
	}
	if a.Cut {
		// What was not kept whole can never be delivered as it was.
		r.Verdict = wire.Verdict{Kind: wire.Quarantine, Reason: wire.BodyTooLarge}
	}
	return r
}

// askAgain is ask, but a record whose body was cut is not judged: its end is
// missing.
func (c *Consumer) askAgain(records []Record) db.IngestBatch {
	whole := make([]Record, 0, len(records))
	places := make([]int, 0, len(records))
	for i := range records {
		if records[i].Verdict.Reason == "" {
			whole, places = append(whole, records[i]), append(places, i)
		}
	}
	ask := c.ask(whole)
	for n, i := range places {
		records[i] = whole[n]
	}
	return ask
}
