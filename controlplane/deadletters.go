package controlplane

import (
	"context"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// DeadLetters gives up to limit deliveries that are dead now, those behind the
// position before, the newest end first; see db.DeadLetterPage about short
// pages.
func (h *History) DeadLetters(ctx context.Context, a Actor, f db.DeadLetterFilter, before hub.ID, limit int) (db.DeliveryPage, error) {
	tenant, none := a.narrow(f.Tenant)
	if none {
		moment, err := h.DB.FeedSnapshot(ctx)
		return db.DeliveryPage{Snapshot: moment}, err
	}
	f.Tenant = tenant
	return h.DB.DeadLetterPage(ctx, f, before, limit)
}
