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

// NewObservation is a dead-letter record to store. Place makes it unique: it
// is stored once however often Kafka hands it out.
type NewObservation struct {
	hub.Observation
	Place hub.ID
	Body  []byte // the part that is kept
}

// observationDetail is the JSON in dlq_observations.detail: what no query
// filters by.
type observationDetail struct {
	Attributes      []hub.Attribute `json:"attributes,omitempty"`
	AttributesCut   bool            `json:"attributes_cut,omitempty"`
	ErrorMessage    string          `json:"error_message,omitempty"`
	RetryCount      *int32          `json:"retry_count,omitempty"`
	FirstFailureAt  *time.Time      `json:"first_failure_at,omitempty"`
	ProducerID      string          `json:"producer_id,omitempty"`
	SourcePartition *int32          `json:"source_partition,omitempty"`
	SourceOffset    *int64          `json:"source_offset,omitempty"`
	PayloadOmitted  *bool           `json:"payload_omitted,omitempty"`
	PayloadBytes    *int64          `json:"payload_bytes,omitempty"`
}

// StoreObservations stores dead-letter records in one transaction, leaves out
// those that are stored already, and returns how many were new. Two callers
// with the same record at the same time make one of them fail and try again.
func (d *DB) StoreObservations(ctx context.Context, at time.Time, list []NewObservation) (stored int, err error) {
	places := make([]hub.ID, len(list))
	for i := range list {
		places[i] = list[i].Place
	}
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := d.queries.KnownKeys(ctx, tx, places)
		if err != nil {
			return err
		}
		known := make(map[hub.ID]bool, len(rows))
		for _, r := range rows {
			known[r.Key] = true
		}
		p := dbsqlc.InsertObservationsParams{ObservedAt: at}
		var keys dbsqlc.InsertEventKeysParams
		for i := range list {
			if known[list[i].Place] {
				continue
			}
			known[list[i].Place] = true
			if err := addObservation(&p, &list[i]); err != nil {
				return err
			}
			keys.Keys = append(keys.Keys, list[i].Place)
			keys.ContentHashes = append(keys.ContentHashes, hub.ID{})
			keys.EventIds = append(keys.EventIds, list[i].ID)
		}
		if stored = len(keys.Keys); stored == 0 {
			return nil
		}
		if err := d.queries.InsertEventKeys(ctx, tx, keys); err != nil {
			return err
		}
		return d.queries.InsertObservations(ctx, tx, p)
	})
	if err != nil {
		return 0, fmt.Errorf("store %d dead-letter observations: %w", len(list), err)
	}
	return stored, nil
}

func addObservation(p *dbsqlc.InsertObservationsParams, o *NewObservation) error {
	detail, err := json.Marshal(observationDetail{
		Attributes: o.Attributes, AttributesCut: o.AttributesCut, ErrorMessage: o.ErrorMessage, RetryCount: o.RetryCount,
		FirstFailureAt: timeOrNull(o.FirstFailureAt), ProducerID: o.ProducerID,
		SourcePartition: o.SourcePartition, SourceOffset: o.SourceOffset,
		PayloadOmitted: o.PayloadOmitted, PayloadBytes: o.PayloadBytes,
	})
	if err != nil {
		return fmt.Errorf("encode the observation of %s/%d@%d: %w", o.Record.Topic, o.Record.Partition, o.Record.Offset, err)
	}
	p.Ids, p.TenantIds, p.Writers = append(p.Ids, o.ID), append(p.TenantIds, string(o.Tenant)), append(p.Writers, string(o.Writer))
	p.Topics = append(p.Topics, o.Record.Topic)
	p.KafkaPartitions, p.KafkaOffsets = append(p.KafkaPartitions, o.Record.Partition), append(p.KafkaOffsets, o.Record.Offset)
	p.SourceTopics, p.ErrorClasses = append(p.SourceTopics, o.SourceTopic), append(p.ErrorClasses, o.ErrorClass)
	p.CauseKinds, p.Details = append(p.CauseKinds, o.CauseKind), append(p.Details, detail)
	p.Bodies, p.BodyBytes = append(p.Bodies, notNull(o.Body)), append(p.BodyBytes, o.BodyBytes)
	return nil
}

// ObservationFilter says which observations are listed; zero fields do not
// filter.
type ObservationFilter struct {
	Topic      string
	Source     string // of the topic <prefix>.<source>.dlq
	Tenant     hub.TenantID
	Writer     hub.DLQWriter
	ErrorClass string
	// After is the first moment, Before the first one that no longer belongs
	// in.
	After, Before time.Time
}

func (f *ObservationFilter) passes(o *hub.Observation) bool {
	return (f.Topic == "" || o.Record.Topic == f.Topic) &&
		(f.Source == "" || strings.HasSuffix(o.Record.Topic, "."+f.Source+".dlq")) &&
		(f.Tenant == "" || o.Tenant == f.Tenant) &&
		(f.Writer == "" || o.Writer == f.Writer) &&
		(f.ErrorClass == "" || o.ErrorClass == f.ErrorClass) &&
		(f.After.IsZero() || !o.ObservedAt.Before(f.After)) &&
		(f.Before.IsZero() || o.ObservedAt.Before(f.Before))
}

// narrow reports whether most observations may fail the filter, so that a page
// reads ahead.
func (f *ObservationFilter) narrow() bool {
	return *f != ObservationFilter{Tenant: f.Tenant, After: f.After, Before: f.Before}
}

// ObservationPage reads up to limit observations behind the id before, the
// newest first. Its work is bounded whatever the filter; a page can be short
// while More is true.
func (d *DB) ObservationPage(ctx context.Context, f ObservationFilter, before hub.ID, limit int) (page Page[hub.Observation], err error) {
	before, lowest := timeBounds(before, f.After, f.Before)
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		page, err = walkDown(before, limit, f.narrow(), observationID, func(before hub.ID, chunk int) ([]hub.Observation, error) {
			return d.observations(ctx, tx, f.Tenant, before, lowest, chunk)
		}, each(f.passes))
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list dead-letter observations: %w", err)
	}
	return page, nil
}

func observationID(o *hub.Observation) hub.ID { return o.ID }

func (d *DB) observations(ctx context.Context, tx dbsqlc.DBTX, tenant hub.TenantID, before, lowest hub.ID, chunk int) ([]hub.Observation, error) {
	var rows []dbsqlc.ObservationPageRow
	var err error
	if tenant == "" {
		rows, err = d.queries.ObservationPage(ctx, tx, dbsqlc.ObservationPageParams{Before: before, Lowest: lowest, Page: int32(chunk)})
	} else {
		var own []dbsqlc.ObservationPageOfTenantRow
		own, err = d.queries.ObservationPageOfTenant(ctx, tx, dbsqlc.ObservationPageOfTenantParams{
			TenantID: string(tenant), Before: before, Lowest: lowest, Page: int32(chunk),
		})
		for _, r := range own {
			rows = append(rows, dbsqlc.ObservationPageRow(r))
		}
	}
	if err != nil {
		return nil, err
	}
	return observationsOf(rows)
}

// ObservationsByID reads observations; those that do not exist are missing.
func (d *DB) ObservationsByID(ctx context.Context, ids []hub.ID) ([]hub.Observation, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.ObservationsByID(ctx, d.pool, dbsqlc.ObservationsByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("read %d dead-letter observations: %w", len(ids), err)
	}
	same := make([]dbsqlc.ObservationPageRow, len(rows))
	for i, r := range rows {
		same[i] = dbsqlc.ObservationPageRow(r)
	}
	return observationsOf(same)
}

// ObservationBodies reads what is kept of the values of observed records.
func (d *DB) ObservationBodies(ctx context.Context, ids []hub.ID) (map[hub.ID][]byte, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.ObservationBodies(ctx, d.pool, dbsqlc.ObservationBodiesParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("read the bodies of %d dead-letter observations: %w", len(ids), err)
	}
	byID := make(map[hub.ID][]byte, len(rows))
	for _, r := range rows {
		byID[r.ID] = r.Body
	}
	return byID, nil
}

func observationsOf(rows []dbsqlc.ObservationPageRow) ([]hub.Observation, error) {
	list := make([]hub.Observation, len(rows))
	for i, r := range rows {
		var detail observationDetail
		if err := json.Unmarshal(r.Detail, &detail); err != nil {
			return nil, fmt.Errorf("read the detail of observation %s: %w", r.ID, err)
		}
		list[i] = hub.Observation{
			ID: r.ID, Writer: hub.DLQWriter(r.Writer), ObservedAt: r.ObservedAt, Tenant: hub.TenantID(orZero(r.TenantID)),
			Record:     hub.RecordPosition{Topic: r.Topic, Partition: r.KafkaPartition, Offset: r.KafkaOffset},
			Attributes: detail.Attributes, AttributesCut: detail.AttributesCut,
			SourceTopic: orZero(r.SourceTopic), ErrorClass: orZero(r.ErrorClass), CauseKind: orZero(r.CauseKind),
			ErrorMessage: detail.ErrorMessage, RetryCount: detail.RetryCount, FirstFailureAt: orZero(detail.FirstFailureAt),
			ProducerID: detail.ProducerID, SourcePartition: detail.SourcePartition, SourceOffset: detail.SourceOffset,
			PayloadOmitted: detail.PayloadOmitted, PayloadBytes: detail.PayloadBytes,
			BodyBytes: r.BodyBytes, KeptBytes: r.KeptBytes,
		}
	}
	return list, nil
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
