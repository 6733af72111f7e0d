package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// AskedReadmission is a quarantined record that somebody wants judged again.
type AskedReadmission struct {
	ID      hub.ID
	Record  hub.RecordPosition
	Headers []RawHeader
	Body    []byte
	// Cut says that the body was too large to be kept whole.
	Cut bool
}

// ReadmitAsked lists up to limit records that are to be judged again, the
// longest-waiting first.
func (d *DB) ReadmitAsked(ctx context.Context, limit int) ([]AskedReadmission, error) {
	rows, err := d.queries.ReadmitAsked(ctx, d.pool, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("look for records to re-admit: %w", err)
	}
	asked := make([]AskedReadmission, len(rows))
	for i, r := range rows {
		asked[i] = AskedReadmission{
			ID: r.ID, Body: r.Body, Cut: int(r.BodyBytes) > len(r.Body),
			Record: hub.RecordPosition{Topic: r.Topic, Partition: r.KafkaPartition, Offset: r.KafkaOffset},
		}
		if err := json.Unmarshal(r.Headers, &asked[i].Headers); err != nil {
			return nil, fmt.Errorf("read the headers of quarantined record %s: %w", r.ID, err)
		}
	}
	return asked, nil
}

func readmitParams(w IngestWrites) (p dbsqlc.SettleReadmissionParams) {
	for _, r := range w.Readmitted {
		p.Ids, p.Results = append(p.Ids, r.ID), append(p.Results, r.Result)
	}
	return p
}
