package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// listFirst is the length of a page, the longest that the API gives.
const listFirst = 100

// list is one way to page through deliveries or events.
type list struct {
	name   string
	token  string
	field  string
	filter map[string]any
	fields string
	total  int // rows of the whole list; -1 when it is not counted
}

// What a console shows of a row.
const (
	eventFields    = `id seq ceId source eventType schemaVersion subject time receivedAt sizeBytes`
	deliveryFields = `id state attemptCount nextAttemptAt deadReason lastError createdAt finishedAt
  event { id seq ceId eventType } eventSubscription { id name } destination { id url }`
	explainedFields = deliveryFields + ` fingerprint explanation`
)

// filterTypes are the types of the fields' filters.
var filterTypes = map[string]string{"deliveries": "DeliveryFilter", "deadLetters": "DeadLetterFilter", "events": "EventFilter"}

// measureLists: with a long history stored, how long does the API take for a
// page of a list, with and without filters?
func measureLists(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer rig.close()
	h, err := rig.fillHistory(ctx)
	if err != nil {
		return err
	}
	if err := rig.startControl(ctx); err != nil {
		return err
	}
	lists, err := rig.lists(ctx, h)
	if err != nil {
		return err
	}
	for _, l := range lists {
		if _, err := rig.walkList(ctx, l, o.listPages/10+1); err != nil { // warm-up: connections and plans
			return fmt.Errorf("%s: %w", l.name, err)
		}
		meter := startMeter(map[string]int{"controlplane": rig.control.pid(), "postgres": rig.postgres.PID()})
		ms, err := rig.walkList(ctx, l, o.listPages)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		micros, _ := perEvent(meter.spent(), len(ms))
		slices.Sort(ms)
		r.rows = append(r.rows, row{l.name, fmt.Sprintf("%.0f", quantile(ms, .95)), "≤ 100",
			fmt.Sprintf("p95 of %d pages of %d in ms; p50 %.0f, worst %.0f; %.0f ms of CPU a page", len(ms), listFirst, quantile(ms, .5), quantile(ms, 1), micros/1000)})
	}
	r.rows = append(r.rows, row{"… at so many deliveries", fmt.Sprint(o.listDeliveries), "",
		fmt.Sprintf("over %d days, %d tenants, half of them and %d dead letters of one; one client", o.listDays, o.tenants, h.dead)})
	return nil
}

// lists are all that is measured. They follow from what fillHistory stored.
func (r *rig) lists(ctx context.Context, h history) ([]list, error) {
	all, err := r.token(ctx, "")
	if err != nil {
		return nil, err
	}
	large, err := r.token(ctx, hub.TenantID(tenantName(0)))
	if err != nil {
		return nil, err
	}
	small, err := r.token(ctx, hub.TenantID(tenantName(1)))
	if err != nil {
		return nil, err
	}
	deliveries := func(name, token string, total int, filter map[string]any) list {
		return list{"page: deliveries " + name, token, "deliveries", filter, deliveryFields, total}
	}
	dead := func(name, token string, total int, filter map[string]any) list {
		return list{"page: dead letters " + name, token, "deadLetters", filter, explainedFields, total}
	}
	events := func(name, token string, total int) list {
		return list{"page: events " + name, token, "events", nil, eventFields, total}
	}
	type filter = map[string]any
	explained := deliveries("with explanations", large, h.large, nil)
	explained.fields = explainedFields
	return []list{
		deliveries("of all tenants", all, r.o.listDeliveries, nil),
		deliveries("of a large tenant", large, h.large, nil),
		deliveries("of a small tenant", small, h.small, nil),
		explained,
		deliveries("by subscription", all, h.large, filter{"eventSubscriptionId": h.subscription}),
		deliveries("by destination", all, h.large, filter{"destinationId": h.destination}),
		deliveries("DELIVERED", large, h.delivered, filter{"state": []string{"DELIVERED"}}),
		deliveries("WAITING", large, h.waiting, filter{"state": []string{"WAITING"}}),
		deliveries("DEAD", large, h.dead, filter{"state": []string{"DEAD"}}),
		deliveries("HELD, none there", large, 0, filter{"eventSubscriptionId": h.subscription, "state": []string{"HELD"}}),
		dead("of all tenants", all, h.dead, nil),
		dead("of a tenant", large, h.dead, nil),
		dead("by reason", large, h.expired, filter{"reason": []string{"EXPIRED"}}),
		dead("by event type", large, -1, filter{"eventType": "order.*"}),
		dead("by destination", all, h.dead, filter{"destinationId": h.destination}),
		dead("by cause", large, -1, filter{"fingerprint": h.fingerprint}),
		dead("by time", large, -1, filter{"endedAfter": h.from, "endedBefore": h.until}),
		events("of all tenants", all, r.o.listDeliveries),
		events("of a large tenant", large, h.large),
	}, nil
}

// walkList asks for so many pages, one behind the other, and begins again
// behind the last one. It returns how long each took, in ms. No row may come
// twice, and a walk to the end has to find them all.
func (r *rig) walkList(ctx context.Context, l list, pages int) (ms []float64, err error) {
	query := fmt.Sprintf(`query($after: String, $filter: %s) { %s(first: %d, after: $after, filter: $filter) {
 edges { cursor node { %s } } pageInfo { hasNextPage endCursor } } }`, filterTypes[l.field], l.field, listFirst, l.fields)
	seen := map[string]bool{}
	var after *string
	for len(ms) < pages {
		var data map[string]struct {
			Edges    []struct{ Node struct{ ID string } }
			PageInfo struct {
				HasNextPage bool
				EndCursor   *string
			}
		}
		begun := time.Now()
		var raw json.RawMessage
		if err := r.ask(ctx, l.token, query, map[string]any{"after": after, "filter": l.filter}, &raw); err != nil {
			return nil, err
		}
		ms = append(ms, float64(time.Since(begun).Microseconds())/1000)
		if err := json.Unmarshal(raw, &data); err != nil {
			return nil, err
		}
		page := data[l.field]
		for _, e := range page.Edges {
			if seen[e.Node.ID] {
				return nil, fmt.Errorf("%s comes twice", e.Node.ID)
			}
			seen[e.Node.ID] = true
		}
		if after = page.PageInfo.EndCursor; page.PageInfo.HasNextPage {
			continue
		}
		if l.total >= 0 && len(seen) != l.total {
			return nil, fmt.Errorf("the whole list has %d rows, there are %d", len(seen), l.total)
		}
		after, seen = nil, map[string]bool{}
	}
	return ms, nil
}
