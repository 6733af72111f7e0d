package db

import (
	"context"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// StoredUpTo reads how far the given partitions are stored: every offset below
// Next. Partitions of which nothing is stored are missing. Next of the
// arguments is not looked at.
func (d *DB) StoredUpTo(ctx context.Context, partitions []Progress) (map[Progress]int64, error) {
	var p dbsqlc.ProgressOfParams
	for _, asked := range partitions {
		p.TopicIds, p.KafkaPartitions = append(p.TopicIds, asked.Topic), append(p.KafkaPartitions, asked.Partition)
	}
	rows, err := d.queries.ProgressOf(ctx, d.pool, p)
	if err != nil {
		return nil, fmt.Errorf("read how far %d partitions are stored: %w", len(partitions), err)
	}
	stored := make(map[Progress]int64, len(rows))
	for _, r := range rows {
		stored[Progress{Topic: hub.ID(r.TopicID), Partition: r.KafkaPartition}] = r.NextOffset
	}
	return stored, nil
}
