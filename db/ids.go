package db

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/streaming-hub/streaming-hub/hub"
)

// registerTypes teaches a connection to read and write hub.ID as uuid, alone
// and in arrays, in binary.
func registerTypes(m *pgtype.Map) {
	m.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapEncodeID}, m.TryWrapEncodePlanFuncs...)
	m.TryWrapScanPlanFuncs = append([]pgtype.TryWrapScanPlanFunc{wrapScanID}, m.TryWrapScanPlanFuncs...)
	m.RegisterDefaultPgType(hub.ID{}, "uuid")
	m.RegisterDefaultPgType([]hub.ID{}, "_uuid")
}

type uuidValue hub.ID

func (u uuidValue) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: u, Valid: true}, nil
}

func (u *uuidValue) ScanUUID(v pgtype.UUID) error {
	if !v.Valid {
		return fmt.Errorf("a uuid is NULL where the schema forbids it")
	}
	*u = v.Bytes
	return nil
}

type idEncodePlan struct{ next pgtype.EncodePlan }

func (p *idEncodePlan) SetNext(next pgtype.EncodePlan) { p.next = next }
func (p *idEncodePlan) Encode(v any, buf []byte) ([]byte, error) {
	return p.next.Encode(uuidValue(v.(hub.ID)), buf)
}

type idsEncodePlan struct{ next pgtype.EncodePlan }

func (p *idsEncodePlan) SetNext(next pgtype.EncodePlan) { p.next = next }
func (p *idsEncodePlan) Encode(v any, buf []byte) ([]byte, error) {
	return p.next.Encode(pgtype.FlatArray[hub.ID](v.([]hub.ID)), buf)
}

func wrapEncodeID(v any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	switch v := v.(type) {
	case hub.ID:
		return &idEncodePlan{}, uuidValue(v), true
	case []hub.ID:
		return &idsEncodePlan{}, pgtype.FlatArray[hub.ID](v), true
	}
	return nil, nil, false
}

type idScanPlan struct{ next pgtype.ScanPlan }

func (p *idScanPlan) SetNext(next pgtype.ScanPlan) { p.next = next }
func (p *idScanPlan) Scan(src []byte, dst any) error {
	return p.next.Scan(src, (*uuidValue)(dst.(*hub.ID)))
}

func wrapScanID(dst any) (pgtype.WrappedScanPlanNextSetter, any, bool) {
	if id, ok := dst.(*hub.ID); ok {
		return &idScanPlan{}, (*uuidValue)(id), true
	}
	return nil, nil, false
}
