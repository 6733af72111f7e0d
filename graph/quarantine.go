package graph

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) QuarantinedRecords(ctx context.Context, first int32, after *string, filter *model.QuarantinedRecordFilter) (*model.QuarantinedRecordConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byQuarantinedID, after)
	if err != nil {
		return nil, err
	}
	page, err := r.Quarantine.Page(ctx, actorOf(ctx), quarantineFilter(filter), before, size)
	if err != nil {
		return nil, err
	}
	return quarantinedConnection(&page), nil
}

func (r queryResolver) quarantinedRecord(ctx context.Context, id string) (*model.QuarantinedRecord, error) {
	key, ok := parseGlobalID(quarantinedPrefix, id)
	if !ok {
		return nil, nil
	}
	q, err := load(ctx, loadersOf(ctx).quarantined, key)
	return toQuarantined(q), err
}

func (r mutationResolver) ReadmitQuarantinedRecords(ctx context.Context, input model.ReadmitQuarantinedRecordsInput) (*model.ReadmitQuarantinedRecordsPayload, error) {
	list, mistakes, err := r.Quarantine.Readmit(ctx, actorOf(ctx), input.Ids)
	if err != nil {
		return nil, err
	}
	p := &model.ReadmitQuarantinedRecordsPayload{Records: []*model.QuarantinedRecord{}, UserErrors: userErrors(mistakes)}
	for i := range list {
		p.Records = append(p.Records, toQuarantined(&list[i]))
	}
	return p, nil
}

func (r quarantinedRecordResolver) Headers(ctx context.Context, obj *model.QuarantinedRecord) ([]*model.RecordHeader, error) {
	raw, err := load(ctx, loadersOf(ctx).quarantinedHeaders, obj.Of)
	list := make([]*model.RecordHeader, len(raw))
	for i, h := range raw {
		list[i] = &model.RecordHeader{
			Name: strings.ToValidUTF8(string(h.Key), "\uFFFD"), Base64: base64.StdEncoding.EncodeToString(h.Value),
		}
		if utf8.Valid(h.Value) {
			text := string(h.Value)
			list[i].Value = &text
		}
	}
	return list, err
}

func (r quarantinedRecordResolver) Body(ctx context.Context, obj *model.QuarantinedRecord) (*model.EventBody, error) {
	if err := showBody(ctx, int(min(obj.SizeBytes, maxKept))); err != nil {
		return nil, err
	}
	raw, err := load(ctx, loadersOf(ctx).quarantinedBodies, obj.Of)
	return toBody(raw), err
}

// maxKept is how much of a quarantined value is kept, in bytes.
const maxKept = 1 << 20

func toQuarantined(q *hub.QuarantinedRecord) *model.QuarantinedRecord {
	if q == nil {
		return nil
	}
	return &model.QuarantinedRecord{
		ID: globalID(quarantinedPrefix, q.ID), Reason: q.Reason,
		Topic: q.Record.Topic, Partition: q.Record.Partition, Offset: q.Record.Offset,
		BodyTruncated: q.KeptBytes < q.BodyBytes, SizeBytes: q.BodyBytes, ReceivedAt: q.ReceivedAt,
		ReadmitRequestedAt: optional(q.ReadmitRequestedAt), ReadmittedAt: optional(q.ReadmittedAt),
		ReadmitResult: optional(q.ReadmitResult), Of: q.ID,
	}
}

func quarantinedConnection(page *db.Page[hub.QuarantinedRecord]) *model.QuarantinedRecordConnection {
	c := &model.QuarantinedRecordConnection{Edges: []*model.QuarantinedRecordEdge{}, Nodes: []*model.QuarantinedRecord{}}
	end := ""
	for i := range page.Rows {
		node := toQuarantined(&page.Rows[i])
		end = cursorOfID(byQuarantinedID, page.Rows[i].ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.QuarantinedRecordEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(byQuarantinedID, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	return c
}

func quarantineFilter(m *model.QuarantinedRecordFilter) db.QuarantineFilter {
	if m == nil {
		return db.QuarantineFilter{}
	}
	return db.QuarantineFilter{
		Reason: value(m.Reason), Topic: value(m.Topic), Partition: m.Partition, Offset: m.Offset, MinOffset: m.MinOffset, MaxOffset: m.MaxOffset,
		ReceivedAfter: moment(m.ReceivedAfter), ReceivedBefore: moment(m.ReceivedBefore),
		Readmitted: m.Readmitted, CEID: value(m.CeID),
	}
}
