package db

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// QuarantineFilter says which quarantined records are listed; zero fields do
// not filter.
type QuarantineFilter struct {
	// Reason is a whole reason, or the part of one before its colon:
	// missing_attribute, missing_attribute:id.
	Reason               string
	Topic                string
	Partition            *int32
	Offset               *int64
	MinOffset, MaxOffset *int64
	// ReceivedAfter is the first moment, ReceivedBefore the first one that no
	// longer belongs in.
	ReceivedAfter, ReceivedBefore time.Time
	Readmitted                    *bool
	// CEID is a part of the ce-id that the record carries, as written.
	CEID string
}

func (f *QuarantineFilter) passes(r *hub.QuarantinedRecord) bool {
	return (f.Reason == "" || r.Reason == f.Reason || strings.HasPrefix(r.Reason, f.Reason+":")) &&
		(f.Topic == "" || r.Record.Topic == f.Topic) &&
		(f.Partition == nil || r.Record.Partition == *f.Partition) &&
		(f.Offset == nil || r.Record.Offset == *f.Offset) &&
		(f.MinOffset == nil || r.Record.Offset >= *f.MinOffset) &&
		(f.MaxOffset == nil || r.Record.Offset <= *f.MaxOffset) &&
		(f.ReceivedAfter.IsZero() || !r.ReceivedAt.Before(f.ReceivedAfter)) &&
		(f.ReceivedBefore.IsZero() || r.ReceivedAt.Before(f.ReceivedBefore)) &&
		(f.Readmitted == nil || *f.Readmitted == !r.ReadmittedAt.IsZero())
}

// narrow reports whether most records may fail the filter, so that a page
// reads ahead.
func (f *QuarantineFilter) narrow() bool {
	return *f != QuarantineFilter{ReceivedAfter: f.ReceivedAfter, ReceivedBefore: f.ReceivedBefore}
}

// QuarantinePage reads up to limit records behind the id before, the newest
// first. Its work is bounded whatever the filter; a page can be short while
// More is true.
func (d *DB) QuarantinePage(ctx context.Context, f QuarantineFilter, before hub.ID, limit int) (page Page[hub.QuarantinedRecord], err error) {
	before, lowest := timeBounds(before, f.ReceivedAfter, f.ReceivedBefore)
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		page, err = walkDown(before, limit, f.narrow(), quarantinedID, func(before hub.ID, chunk int) ([]hub.QuarantinedRecord, error) {
			rows, err := d.queries.QuarantinePage(ctx, tx, dbsqlc.QuarantinePageParams{Before: before, Lowest: lowest, Page: int32(chunk)})
			return quarantinedOf(rows), err
		}, func(chunk []hub.QuarantinedRecord) ([]bool, error) {
			return d.passing(ctx, tx, &f, chunk)
		})
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list quarantined records: %w", err)
	}
	return page, nil
}

// passing judges a chunk. Headers are read only of what passes all else.
func (d *DB) passing(ctx context.Context, tx dbsqlc.DBTX, f *QuarantineFilter, chunk []hub.QuarantinedRecord) ([]bool, error) {
	pass := make([]bool, len(chunk))
	var ids []hub.ID
	for i := range chunk {
		if pass[i] = f.passes(&chunk[i]); pass[i] {
			ids = append(ids, chunk[i].ID)
		}
	}
	if f.CEID == "" || len(ids) == 0 {
		return pass, nil
	}
	headers, err := d.quarantinedHeaders(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	for i := range chunk {
		pass[i] = pass[i] && holdsCEID(headers[chunk[i].ID], f.CEID)
	}
	return pass, nil
}

func holdsCEID(headers []RawHeader, part string) bool {
	for _, h := range headers {
		if name := strings.ToLower(string(h.Key)); (name == "ce-id" || name == "ce_id") && strings.Contains(string(h.Value), part) {
			return true
		}
	}
	return false
}

// QuarantinedByID reads quarantined records; those that do not exist are
// missing.
func (d *DB) QuarantinedByID(ctx context.Context, ids []hub.ID) ([]hub.QuarantinedRecord, error) {
	list, err := d.quarantinedByID(ctx, d.pool, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d quarantined records: %w", len(ids), err)
	}
	return list, nil
}

func (d *DB) quarantinedByID(ctx context.Context, tx dbsqlc.DBTX, ids []hub.ID) ([]hub.QuarantinedRecord, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.QuarantinedByID(ctx, tx, dbsqlc.QuarantinedByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	same := make([]dbsqlc.QuarantinePageRow, len(rows))
	for i, r := range rows {
		same[i] = dbsqlc.QuarantinePageRow(r)
	}
	return quarantinedOf(same), err
}

// QuarantinedHeaders reads all headers of quarantined records, in the order of
// the Kafka record.
func (d *DB) QuarantinedHeaders(ctx context.Context, ids []hub.ID) (map[hub.ID][]RawHeader, error) {
	headers, err := d.quarantinedHeaders(ctx, d.pool, ids)
	if err != nil {
		return nil, fmt.Errorf("read the headers of %d quarantined records: %w", len(ids), err)
	}
	return headers, nil
}

func (d *DB) quarantinedHeaders(ctx context.Context, tx dbsqlc.DBTX, ids []hub.ID) (map[hub.ID][]RawHeader, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.QuarantinedHeaders(ctx, tx, dbsqlc.QuarantinedHeadersParams{Ids: ids, Lowest: lowest, Highest: highest})
	byID := make(map[hub.ID][]RawHeader, len(rows))
	for _, r := range rows {
		var headers []RawHeader
		if err := json.Unmarshal(r.Headers, &headers); err != nil {
			return nil, fmt.Errorf("read the headers of quarantined record %s: %w", r.ID, err)
		}
		byID[r.ID] = headers
	}
	return byID, err
}

// QuarantinedBodies reads what is kept of the values of quarantined records.
func (d *DB) QuarantinedBodies(ctx context.Context, ids []hub.ID) (map[hub.ID][]byte, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.QuarantinedBodies(ctx, d.pool, dbsqlc.QuarantinedBodiesParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("read the bodies of %d quarantined records: %w", len(ids), err)
	}
	byID := make(map[hub.ID][]byte, len(rows))
	for _, r := range rows {
		byID[r.ID] = r.Body
	}
	return byID, nil
}

// RequestReadmission asks the data planes to judge quarantined records again,
// and returns the records as they stand then; those that do not exist are
// missing. One that was accepted already, or is asked for already, stays as it
// is. audit makes the entry for each one that is newly asked for, from before
// and after; the entries are written in the same transaction.
func (d *DB) RequestReadmission(ctx context.Context, ids []hub.ID, audit func(before, after *hub.QuarantinedRecord) AuditEntry) (list []hub.QuarantinedRecord, err error) {
	lowest, highest := bounds(ids)
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		before, err := d.quarantinedByID(ctx, tx, ids)
		if err != nil {
			return err
		}
		asked, err := d.queries.RequestReadmission(ctx, tx, dbsqlc.RequestReadmissionParams{Ids: ids, Lowest: lowest, Highest: highest})
		if err != nil {
			return err
		}
		if list, err = d.quarantinedByID(ctx, tx, ids); err != nil || len(asked) == 0 {
			return err
		}
		was, is := byRecordID(before), byRecordID(list)
		entries := make([]AuditEntry, len(asked))
		for i, id := range asked {
			entries[i] = audit(was[id], is[id])
		}
		if err := d.audit(ctx, tx, entries...); err != nil {
			return err
		}
		return d.queries.NotifyReadmit(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("ask for %d quarantined records again: %w", len(ids), err)
	}
	return list, nil
}

func quarantinedID(r *hub.QuarantinedRecord) hub.ID { return r.ID }

func byRecordID(list []hub.QuarantinedRecord) map[hub.ID]*hub.QuarantinedRecord {
	byID := make(map[hub.ID]*hub.QuarantinedRecord, len(list))
	for i := range list {
		byID[list[i].ID] = &list[i]
	}
	return byID
}

func quarantinedOf(rows []dbsqlc.QuarantinePageRow) []hub.QuarantinedRecord {
	list := make([]hub.QuarantinedRecord, len(rows))
	for i, r := range rows {
		list[i] = hub.QuarantinedRecord{
			ID: r.ID, Reason: r.Reason, ReceivedAt: r.ReceivedAt, BodyBytes: r.BodyBytes, KeptBytes: r.KeptBytes,
			Record:             hub.RecordPosition{Topic: r.Topic, Partition: r.KafkaPartition, Offset: r.KafkaOffset},
			ReadmitRequestedAt: orZero(r.ReadmitRequestedAt), ReadmittedAt: orZero(r.ReadmittedAt), ReadmitResult: orZero(r.ReadmitResult),
		}
	}
	return list
}

// orZero is the zero value for NULL.
func orZero[T any](v *T) (t T) {
	if v != nil {
		t = *v
	}
	return t
}
