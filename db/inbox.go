package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// IngestBatch names what a batch of one Kafka partition is about to touch.
type IngestBatch struct {
	Tenants []hub.TenantID // each once
	Keys    []hub.ID       // dedup keys of events and of quarantined records
}

// IngestState is what the transaction found, under the locks that it holds
// until it commits: nobody else can change any of it meanwhile.
type IngestState struct {
	Tenants map[hub.TenantID]TenantCounter
	// Known maps the dedup keys that exist already to their content hash; of
	// those Asked for, the others do not exist.
	Known map[hub.ID]hub.ID
	Asked map[hub.ID]struct{}
}

// TenantCounter is the row that orders a tenant's events.
type TenantCounter struct {
	NextSeq       int64
	ConfigVersion int64
}

// IngestWrites is everything that a batch stores.
type IngestWrites struct {
	Record     hub.RecordPosition // topic and partition; the offset is each event's own
	ReceivedAt time.Time
	NextSeqs   map[hub.TenantID]int64
	Events     []hub.Event
	Keys       []EventKey
	Deliveries []NewDelivery
	Lease      time.Duration // of the deliveries born claimed
	Quarantine []QuarantinedRecord
	// Progress says how far the partition is stored with this batch; nil for
	// records that do not come from Kafka just now.
	Progress *Progress
	// Readmitted settles quarantined records that were judged again.
	Readmitted []Readmitted
}

// Progress is how far a Kafka partition is stored: every offset below Next.
type Progress struct {
	Topic     hub.ID // Kafka's id of the topic
	Partition int32
	Next      int64
}

// Readmitted is what came of a quarantined record that was judged again:
// accepted, duplicate, skipped, or the reason why it stays.
type Readmitted struct {
	ID     hub.ID
	Result string
}

// EventKey makes an event, or a quarantined record, unique.
type EventKey struct {
	Key, ContentHash, Event hub.ID
}

// NewDelivery is a delivery at its birth, due after DueIn by the database
// clock. A token other than 0 leases it to this process at once.
type NewDelivery struct {
	Delivery   hub.Delivery
	DueIn      time.Duration
	LeaseToken int64
	// Last: the first attempt is the last, its policy has one only.
	Last bool
	// Limited: the destination has limits that replicas share. Not stored.
	Limited bool
}

// QuarantinedRecord is a record that the hub could not accept.
type QuarantinedRecord struct {
	ID        hub.ID
	Tenant    hub.TenantID // as claimed by the record, if possible at all
	Reason    string
	Offset    int64
	Headers   []RawHeader
	Body      []byte // first part
	BodyBytes int32  // whole size
}

// RawHeader is a record header as it came, whatever its bytes.
type RawHeader struct {
	Key   []byte `json:"k"`
	Value []byte `json:"v"`
}

// Ingest stores one partition batch in one transaction of two round trips: it
// locks the tenants and reads what is known, lets plan decide, and writes what
// plan returned. plan may be called again when the transaction is repeated for
// a tenant that had no counter row yet. Nothing is stored if plan fails.
func (d *DB) Ingest(ctx context.Context, b IngestBatch, plan func(context.Context, IngestState) (IngestWrites, error)) error {
	missing, err := d.ingestOnce(ctx, b, plan)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := d.queries.EnsureTenants(ctx, d.pool, missing); err != nil {
		return fmt.Errorf("add %d new tenants: %w", len(missing), err)
	}
	missing, err = d.ingestOnce(ctx, b, plan)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("tenant %q has no counter row after it was added", missing[0])
	}
	return err
}

// ingestOnce returns the tenants that have no counter row, with nothing done.
func (d *DB) ingestOnce(ctx context.Context, b IngestBatch, plan func(context.Context, IngestState) (IngestWrites, error)) (missing []string, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("get a connection for ingest: %w", err)
	}
	defer conn.Release() // a connection still inside a transaction is closed

	state, err := lockForIngest(ctx, conn.Conn(), b)
	if err != nil {
		return nil, err
	}
	for _, t := range b.Tenants {
		if _, ok := state.Tenants[t]; !ok {
			missing = append(missing, string(t))
		}
	}
	if len(missing) > 0 {
		_, err := conn.Exec(ctx, "rollback")
		return missing, err
	}
	w, err := plan(ctx, state)
	if err != nil {
		_, _ = conn.Exec(ctx, "rollback") // else the connection is closed, which is as good
		return nil, err
	}
	return nil, d.writeIngest(ctx, conn.Conn(), w)
}

func lockForIngest(ctx context.Context, conn *pgx.Conn, b IngestBatch) (IngestState, error) {
	state := IngestState{
		Tenants: make(map[hub.TenantID]TenantCounter, len(b.Tenants)),
		Known:   map[hub.ID]hub.ID{},
		Asked:   make(map[hub.ID]struct{}, len(b.Keys)),
	}
	for _, key := range b.Keys {
		state.Asked[key] = struct{}{}
	}
	var batch pgx.Batch
	batch.Queue("begin")
	if len(b.Tenants) > 0 {
		batch.Queue(dbsqlc.LockTenants, tenantStrings(b.Tenants)).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var tenant hub.TenantID
				var c TenantCounter
				if err := rows.Scan((*string)(&tenant), &c.NextSeq, &c.ConfigVersion); err != nil {
					return err
				}
				state.Tenants[tenant] = c
			}
			return rows.Err()
		})
	}
	if len(b.Keys) > 0 {
		batch.Queue(dbsqlc.KnownKeys, b.Keys).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var key, hash hub.ID
				if err := rows.Scan(&key, &hash); err != nil {
					return err
				}
				state.Known[key] = hash
			}
			return rows.Err()
		})
	}
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return state, fmt.Errorf("lock %d tenants and look up %d keys for ingest: %w", len(b.Tenants), len(b.Keys), err)
	}
	return state, nil
}

func (d *DB) writeIngest(ctx context.Context, conn *pgx.Conn, w IngestWrites) error {
	var batch pgx.Batch
	p := &pipeline{batch: &batch}
	if len(w.NextSeqs) > 0 {
		if err := d.queries.AdvanceSeq(ctx, p, seqParams(w)); err != nil {
			return err
		}
	}
	if len(w.Keys) > 0 {
		if err := d.queries.InsertEventKeys(ctx, p, keyParams(w)); err != nil {
			return err
		}
	}
	if len(w.Events) > 0 {
		if err := d.queries.InsertEvents(ctx, p, eventParams(w)); err != nil {
			return err
		}
	}
	if len(w.Deliveries) > 0 {
		if err := d.queries.InsertDeliveries(ctx, p, deliveryParams(w)); err != nil {
			return err
		}
	}
	if len(w.Quarantine) > 0 {
		if err := d.queries.InsertQuarantinedRecords(ctx, p, quarantineParams(w)); err != nil {
			return err
		}
	}
	if w.Progress != nil {
		if err := d.queries.AdvanceProgress(ctx, p, dbsqlc.AdvanceProgressParams{
			TopicID: w.Progress.Topic, KafkaPartition: w.Progress.Partition, Topic: w.Record.Topic, NextOffset: w.Progress.Next,
		}); err != nil {
			return err
		}
	}
	if len(w.Readmitted) > 0 {
		if err := d.queries.SettleReadmission(ctx, p, readmitParams(w)); err != nil {
			return err
		}
	}
	batch.Queue("commit")
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("store a batch of %s/%d: %w", w.Record.Topic, w.Record.Partition, err)
	}
	return nil
}

func seqParams(w IngestWrites) (p dbsqlc.AdvanceSeqParams) {
	for t, seq := range w.NextSeqs {
		p.TenantIds, p.NextSeqs = append(p.TenantIds, string(t)), append(p.NextSeqs, seq)
	}
	return p
}

func keyParams(w IngestWrites) dbsqlc.InsertEventKeysParams {
	n := len(w.Keys)
	p := dbsqlc.InsertEventKeysParams{Keys: make([]hub.ID, n), ContentHashes: make([]hub.ID, n), EventIds: make([]hub.ID, n)}
	for i, k := range w.Keys {
		p.Keys[i], p.ContentHashes[i], p.EventIds[i] = k.Key, k.ContentHash, k.Event
	}
	return p
}

func eventParams(w IngestWrites) dbsqlc.InsertEventsParams {
	n := len(w.Events)
	p := dbsqlc.InsertEventsParams{
		ReceivedAt: w.ReceivedAt, Topic: w.Record.Topic, KafkaPartition: w.Record.Partition,
		Ids: make([]hub.ID, n), TenantIds: make([]string, n), Seqs: make([]int64, n),
		Sources: make([]string, n), CeIds: make([]string, n), EventTypes: make([]string, n),
		SchemaVersions: make([]string, n), SchemaMajors: make([]int32, n), KafkaOffsets: make([]int64, n),
		Contexts: make([][]byte, n), Bodies: make([][]byte, n),
	}
	for i := range w.Events {
		e := &w.Events[i]
		p.Ids[i], p.TenantIds[i], p.Seqs[i] = e.ID.ID, string(e.Tenant), e.Seq
		p.Sources[i], p.CeIds[i], p.EventTypes[i] = e.Source, e.CEID, e.Key()
		p.SchemaVersions[i], p.SchemaMajors[i] = e.SchemaVersion, e.SchemaMajor
		p.KafkaOffsets[i], p.Contexts[i], p.Bodies[i] = e.Record.Offset, encodeContext(e), notNull(e.Body)
	}
	return p
}

func deliveryParams(w IngestWrites) dbsqlc.InsertDeliveriesParams {
	n := len(w.Deliveries)
	p := dbsqlc.InsertDeliveriesParams{
		ReceivedAt: w.ReceivedAt, Lease: interval(w.Lease),
		Ids: make([]hub.ID, n), TenantIds: make([]string, n), EventIds: make([]hub.ID, n),
		SubscriptionIds: make([]hub.ID, n), DestinationIds: make([]hub.ID, n),
		BodyBytes: make([]int32, n), LeaseTokens: make([]int64, n), DueInUs: make([]int64, n), Lasts: make([]bool, n),
	}
	for i := range w.Deliveries {
		d := &w.Deliveries[i].Delivery
		p.Ids[i], p.TenantIds[i], p.EventIds[i] = d.ID.ID, string(d.Tenant), d.Event.ID
		p.SubscriptionIds[i], p.DestinationIds[i] = d.Subscription.ID, d.Destination.ID
		p.BodyBytes[i], p.LeaseTokens[i] = d.BodyBytes, w.Deliveries[i].LeaseToken
		p.DueInUs[i], p.Lasts[i] = w.Deliveries[i].DueIn.Microseconds(), w.Deliveries[i].Last
	}
	return p
}

func quarantineParams(w IngestWrites) dbsqlc.InsertQuarantinedRecordsParams {
	n := len(w.Quarantine)
	p := dbsqlc.InsertQuarantinedRecordsParams{
		Topic: w.Record.Topic, KafkaPartition: w.Record.Partition, ReceivedAt: w.ReceivedAt,
		Ids: make([]hub.ID, n), TenantIds: make([]string, n), Reasons: make([]string, n), KafkaOffsets: make([]int64, n),
		Headers: make([][]byte, n), Bodies: make([][]byte, n), BodyBytes: make([]int32, n),
	}
	for i := range w.Quarantine {
		q := &w.Quarantine[i]
		p.Ids[i], p.TenantIds[i], p.Reasons[i] = q.ID, string(q.Tenant), q.Reason
		p.KafkaOffsets[i], p.Headers[i] = q.Offset, encodeHeaders(q.Headers)
		p.Bodies[i], p.BodyBytes[i] = notNull(q.Body), q.BodyBytes
	}
	return p
}

// encodeHeaders keeps any bytes: names and values become base64 in the JSON.
func encodeHeaders(headers []RawHeader) []byte {
	raw, err := json.Marshal(headers)
	if err != nil {
		panic("db: byte strings do not encode: " + err.Error())
	}
	return raw
}

// notNull makes a missing body an empty one; the column has no NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func tenantStrings(tenants []hub.TenantID) []string {
	s := make([]string, len(tenants))
	for i, t := range tenants {
		s[i] = string(t)
	}
	return s
}

func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}
