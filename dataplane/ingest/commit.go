package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// commitEvery is how far committed offsets trail behind stored batches. A
// crash in between only means duplicates, which dedup drops.
const commitEvery = 250 * time.Millisecond

// commitTimeout bounds one commit. Together with finishTime it is shorter than
// rebalanceTimeout: a member that waits for a database that hangs still tells
// the group in time what it gives up.
const commitTimeout = 5 * time.Second

func (c *Consumer) commitLoop(ctx context.Context, client *kgo.Client) {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.mu.Lock()
			all := make([]*partition, 0, len(c.partitions))
			for _, p := range c.partitions {
				all = append(all, p)
			}
			c.mu.Unlock()
			c.commit(ctx, client, all)
		}
	}
}

// commit sends the marks of partitions that moved since their last commit.
// Each mark is first held against what Postgres says it has stored: an offset
// ahead of that would lose records, so it is not committed, and it is counted.
func (c *Consumer) commit(ctx context.Context, client *kgo.Client, partitions []*partition) {
	type move struct {
		p    *partition
		mark kgo.EpochOffset
	}
	var moves []move
	var asked []db.Progress
	for _, p := range partitions {
		if mark, topicID, moved := p.uncommitted(); moved {
			moves = append(moves, move{p, mark})
			asked = append(asked, db.Progress{Topic: hub.ID(topicID), Partition: p.id})
		}
	}
	if len(moves) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	defer context.AfterFunc(c.hard, cancel)()
	stored, err := c.deps.Ledger.StoredUpTo(ctx, asked)
	if c.outages.Failed("check offsets before their commit", err) {
		return
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for i, m := range moves {
		p, mark := m.p, m.mark
		if have := stored[asked[i]]; mark.Offset > have {
			c.deps.Metrics.CommitsAhead.Inc()
			c.deps.Log.Error("an offset is ahead of what Postgres holds; it is not committed",
				"topic", p.topic, "partition", p.id, "offset", mark.Offset, "stored", have)
			continue
		}
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.topic][p.id] = mark
	}
	if len(offsets) == 0 {
		return
	}
	refused := map[topicPartition]error{}
	var failed error
	client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *commitRequest, res *commitResponse, err error) {
		if err != nil {
			failed = err
			return
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				refused[topicPartition{t.Topic, p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
			}
		}
	})
	// The next commit covers what fails; a crash before that only repeats records.
	if c.outages.Failed("commit offsets", failed) {
		return
	}
	for _, p := range partitions {
		mark, moved := offsets[p.topic][p.id]
		if !moved {
			continue
		}
		err := refused[topicPartition{p.topic, p.id}]
		if c.outages.Failed(fmt.Sprintf("commit the offset of %s/%d", p.topic, p.id), err) {
			c.deps.Metrics.CommitsRefused.Inc()
			continue
		}
		p.committed(mark)
	}
}
