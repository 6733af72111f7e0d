package graph

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r eventResolver) Body(ctx context.Context, obj *model.Event) (*model.EventBody, error) {
	if err := showBody(ctx, int(obj.SizeBytes)); err != nil {
		return nil, err
	}
	raw, err := load(ctx, loadersOf(ctx).bodies, obj.Of.ID)
	return toBody(raw), err
}

func (r eventResolver) Deliveries(ctx context.Context, obj *model.Event, first int32, after *string) (*model.DeliveryConnection, error) {
	return r.deliveryPage(ctx, db.DeliveryFilter{Event: obj.Of.ID}, true, first, after)
}

func toEvent(h *db.EventHead) *model.Event {
	if h == nil {
		return nil
	}
	e := &h.Event
	return &model.Event{
		ID: globalID(eventPrefix, e.ID.ID), TenantID: string(e.Tenant), Seq: e.Seq, CeID: e.CEID, Source: e.Source,
		CeType: e.CEType, EventType: e.Key(), SchemaVersion: e.SchemaVersion, SchemaMajor: e.SchemaMajor,
		Subject: optional(e.Subject), Time: producerTime(e.Time), ReceivedAt: e.ReceivedAt,
		ContentType: optional(e.ContentType), SizeBytes: h.BodyBytes, Of: e,
		Kafka: &model.KafkaPosition{Topic: e.Record.Topic, Partition: e.Record.Partition, Offset: e.Record.Offset},
	}
}

// producerTime is nil for a leap second, which Go's time does not hold.
func producerTime(text string) *time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil
	}
	return &t
}

func eventConnection(page db.EventPage, size int, cursor func(*db.EventHead) string) (*model.EventConnection, error) {
	list, more := cut(page.Events, size)
	c := &model.EventConnection{Edges: []*model.EventEdge{}, Nodes: []*model.Event{}}
	end := ""
	for i := range list {
		node := toEvent(&list[i])
		end = cursor(&list[i])
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.EventEdge{Cursor: end, Node: node})
	}
	c.PageInfo = pageInfo(more, end)
	var err error
	c.LiveCursor, err = liveCursor(page.Snapshot)
	return c, err
}

func tenantOfEvents(f *model.EventFilter) hub.TenantID {
	if f == nil || f.TenantID == nil {
		return ""
	}
	return hub.TenantID(*f.TenantID)
}
