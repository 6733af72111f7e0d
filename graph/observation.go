package graph

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) DlqObservations(ctx context.Context, first int32, after *string, filter *model.DlqObservationFilter) (*model.DlqObservationConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byObservationID, after)
	if err != nil {
		return nil, err
	}
	page, err := r.Observations.Page(ctx, actorOf(ctx), observationFilter(filter), before, size)
	if err != nil {
		return nil, err
	}
	return observationConnection(&page), nil
}

func (r queryResolver) observation(ctx context.Context, id string) (*model.DlqObservation, error) {
	key, ok := parseGlobalID(observationPrefix, id)
	if !ok {
		return nil, nil
	}
	o, err := load(ctx, loadersOf(ctx).observations, key)
	return toObservation(o), err
}

func (r dlqObservationResolver) Body(ctx context.Context, obj *model.DlqObservation) (*model.EventBody, error) {
	raw, err := load(ctx, loadersOf(ctx).observationBodies, obj.Of)
	return toBody(raw), err
}

func toObservation(o *hub.Observation) *model.DlqObservation {
	if o == nil {
		return nil
	}
	attributes := make([]*model.RecordAttribute, len(o.Attributes))
	for i, a := range o.Attributes {
		attributes[i] = &model.RecordAttribute{Name: a.Name, Value: a.Value}
	}
	return &model.DlqObservation{
		ID: globalID(observationPrefix, o.ID), Writer: o.Writer,
		Topic: o.Record.Topic, Partition: o.Record.Partition, Offset: o.Record.Offset, Source: controlplane.SourceOfDeadLetters(o.Record.Topic),
		TenantID: optional(string(o.Tenant)), ObservedAt: o.ObservedAt, Attributes: attributes, AttributesTruncated: o.AttributesCut,
		SourceTopic: optional(o.SourceTopic), ErrorClass: optional(o.ErrorClass), ErrorMessage: optional(o.ErrorMessage),
		RetryCount: o.RetryCount, FirstFailureAt: optional(o.FirstFailureAt), ProducerID: optional(o.ProducerID),
		SourcePartition: o.SourcePartition, SourceOffset: o.SourceOffset, CauseKind: optional(o.CauseKind),
		PayloadOmitted: o.PayloadOmitted, PayloadBytes: o.PayloadBytes,
		BodyTruncated: o.KeptBytes < o.BodyBytes, SizeBytes: o.BodyBytes, Of: o.ID,
	}
}

func observationConnection(page *db.Page[hub.Observation]) *model.DlqObservationConnection {
	c := &model.DlqObservationConnection{Edges: []*model.DlqObservationEdge{}, Nodes: []*model.DlqObservation{}}
	end := ""
	for i := range page.Rows {
		node := toObservation(&page.Rows[i])
		end = cursorOfID(byObservationID, page.Rows[i].ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.DlqObservationEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(byObservationID, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	return c
}

func observationFilter(m *model.DlqObservationFilter) db.ObservationFilter {
	if m == nil {
		return db.ObservationFilter{}
	}
	f := db.ObservationFilter{
		Topic: value(m.Topic), Source: value(m.Source), Tenant: hub.TenantID(value(m.TenantID)),
		ErrorClass: value(m.ErrorClass), After: moment(m.After), Before: moment(m.Before),
	}
	if m.Writer != nil {
		f.Writer = *m.Writer
	}
	return f
}

// moment is the zero time for null.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
