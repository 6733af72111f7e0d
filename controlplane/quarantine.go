package controlplane

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Quarantine shows the records that the hub could not accept, and asks the
// data planes to judge them again. It is for platform actors: what tenant such
// a record belongs to is not known, whatever it claims.
type Quarantine struct {
	DB     *db.DB
	Now    func() time.Time
	Random io.Reader // crypto/rand.Reader
}

// maxReadmissions bounds the records of one call.
const maxReadmissions = 100

// Page gives up to limit records behind the id before, the newest first; see
// db.Page about short pages. Others than platform actors see none.
func (q *Quarantine) Page(ctx context.Context, a Actor, f db.QuarantineFilter, before hub.ID, limit int) (db.Page[hub.QuarantinedRecord], error) {
	if !a.Can(ReadQuarantine) {
		return db.Page[hub.QuarantinedRecord]{}, nil
	}
	return q.DB.QuarantinePage(ctx, f, before, limit)
}

// ByID gives the records that exist and that the actor sees.
func (q *Quarantine) ByID(ctx context.Context, a Actor, ids []hub.ID) ([]hub.QuarantinedRecord, error) {
	if !a.Can(ReadQuarantine) {
		return nil, nil
	}
	return q.DB.QuarantinedByID(ctx, ids)
}

// Headers gives the headers of records that the caller has already seen.
func (q *Quarantine) Headers(ctx context.Context, ids []hub.ID) (map[hub.ID][]db.RawHeader, error) {
	return q.DB.QuarantinedHeaders(ctx, ids)
}

// Bodies gives what is kept of the values of records that the caller has
// already seen.
func (q *Quarantine) Bodies(ctx context.Context, ids []hub.ID) (map[hub.ID][]byte, error) {
	return q.DB.QuarantinedBodies(ctx, ids)
}

// Readmit asks for records to be judged again by the rules of now. Those that
// exist come back in the order of the ids; one that was accepted already or is
// asked for already stays as it is. Ids that do not exist are told as
// mistakes, and the others are asked for all the same. The ids are global ids.
func (q *Quarantine) Readmit(ctx context.Context, a Actor, ids []string) ([]hub.QuarantinedRecord, []UserError, error) {
	path := []string{"input", "ids"}
	if len(ids) == 0 || len(ids) > maxReadmissions {
		return nil, []UserError{userError(Invalid, path, "name 1 to %d quarantined records", maxReadmissions)}, nil
	}
	var keys []hub.ID
	for _, text := range ids {
		if key, ok := ParseGlobalID(QuarantinedIDs, text); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	byID := map[hub.ID]hub.QuarantinedRecord{}
	if len(keys) > 0 && a.Can(ReadmitQuarantined) {
		now := q.Now()
		list, err := q.DB.RequestReadmission(ctx, keys, func(before, after *hub.QuarantinedRecord) db.AuditEntry {
			return a.auditEntry(now, q.Random, "", auditReadmit, GlobalID(QuarantinedIDs, after.ID), readmissionOf(before), readmissionOf(after))
		})
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list {
			byID[r.ID] = r
		}
	}
	var records []hub.QuarantinedRecord
	for _, key := range keys {
		if r, ok := byID[key]; ok {
			records = append(records, r)
		}
	}
	var mistakes []UserError
	for i, text := range ids {
		key, ok := ParseGlobalID(QuarantinedIDs, text)
		if _, found := byID[key]; !ok || !found {
			mistakes = append(mistakes, userError(NotFound, append(slices.Clone(path), strconv.Itoa(i)), "there is no such quarantined record"))
		}
	}
	return records, mistakes, nil
}
