package controlplane

import (
	"context"
	"slices"
	"strings"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Observations shows what producers and consumers wrote to their own
// dead-letter topics. A tenant sees the records that claim to be its own; who
// is no ADMIN sees no error messages, which may hold personal data.
type Observations struct {
	DB *db.DB
}

// Page gives up to limit observations behind the id before, the newest first;
// see db.Page about short pages.
func (o *Observations) Page(ctx context.Context, a Actor, f db.ObservationFilter, before hub.ID, limit int) (db.Page[hub.Observation], error) {
	tenant, none := a.narrow(f.Tenant)
	if none {
		return db.Page[hub.Observation]{}, nil
	}
	f.Tenant = tenant
	page, err := o.DB.ObservationPage(ctx, f, before, limit)
	a.redact(page.Rows)
	return page, err
}

// ByID gives the observations that exist and that the actor sees.
func (o *Observations) ByID(ctx context.Context, a Actor, ids []hub.ID) ([]hub.Observation, error) {
	list, err := o.DB.ObservationsByID(ctx, ids)
	list = slices.DeleteFunc(list, func(one hub.Observation) bool { return !a.Sees(one.Tenant) })
	a.redact(list)
	return list, err
}

// Bodies gives what is kept of the values of records that the caller has
// already seen.
func (o *Observations) Bodies(ctx context.Context, ids []hub.ID) (map[hub.ID][]byte, error) {
	return o.DB.ObservationBodies(ctx, ids)
}

// SourceOfDeadLetters is the application whose dead-letter topic it is:
// <prefix>.<source>.dlq.
func SourceOfDeadLetters(topic string) string {
	name := strings.TrimSuffix(topic, ".dlq")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// redact takes away what only an ADMIN may see.
func (a Actor) redact(list []hub.Observation) {
	if a.Role.Includes(hub.Admin) {
		return
	}
	for i := range list {
		list[i].ErrorMessage = ""
	}
}
