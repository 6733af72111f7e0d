package hub

import (
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// ID is a UUID. Those that the hub makes are version 7 (RFC 9562): the first
// 48 bits are Unix milliseconds, so that ids sort by time and the tables that
// grow can be partitioned by their own key.
type ID [16]byte

// The ids of the hub's nouns. They are distinct types so that a destination
// can never be handed where a delivery is expected.
type (
	EventID        struct{ ID }
	SubscriptionID struct{ ID }
	DestinationID  struct{ ID }
	DeliveryID     struct{ ID }
	AttemptID      struct{ ID }
	TokenID        struct{ ID }
)

// TenantID names a tenant: 1–256 bytes of [A-Za-z0-9_-], the first one a
// letter or digit. Tenants need no registration; the id comes from the event's
// tenantid attribute or from an API token.
type TenantID string

// Valid reports whether the tenant's name is a possible one.
func (t TenantID) Valid() bool {
	for i := range len(t) {
		c := t[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return t != "" && len(t) <= 256
}

// NewID makes a version 7 UUID for the millisecond of now; the other 74 bits
// are read from random. It panics when random fails, which a cryptographic
// source never does.
func NewID(now time.Time, random io.Reader) ID {
	var id ID
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		panic("hub: no randomness for an id: " + err.Error())
	}
	id.stamp(now)
	return id
}

// IDs makes the ids of one batch: all are of one millisecond and keep the order
// in which they were made, so that a list by id is a list by age. The counter
// takes 18 of the random bits, the other 56 stay.
type IDs struct {
	now    time.Time
	random io.Reader
	made   uint32
}

// NewIDs makes ids for the millisecond of now; see [NewID] for random.
func NewIDs(now time.Time, random io.Reader) *IDs { return &IDs{now: now, random: random} }

// Next is the next id, greater than those before it. The order begins anew
// after 262 144 ids, more than a batch may hold.
func (s *IDs) Next() ID {
	id := NewID(s.now, s.random)
	id[6] = id[6]&0xf0 | byte(s.made>>14)&0x0f
	id[7] = byte(s.made >> 6)
	id[8] = id[8]&0xc0 | byte(s.made)&0x3f
	s.made++
	return id
}

func (id *ID) stamp(now time.Time) {
	ms := uint64(now.UnixMilli())
	id[0], id[1], id[2] = byte(ms>>40), byte(ms>>32), byte(ms>>24)
	id[3], id[4], id[5] = byte(ms>>16), byte(ms>>8), byte(ms)
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
}

// FloorID is the smallest version-agnostic id of the millisecond of t: every
// id made at or after t is greater or equal, every older one is smaller. No id
// is older than 1970.
func FloorID(t time.Time) ID {
	var id ID
	ms := uint64(max(t.UnixMilli(), 0))
	id[0], id[1], id[2] = byte(ms>>40), byte(ms>>32), byte(ms>>24)
	id[3], id[4], id[5] = byte(ms>>16), byte(ms>>8), byte(ms)
	return id
}

// Time is the millisecond in which a version 7 id was made.
func (id ID) Time() time.Time {
	ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
	return time.UnixMilli(ms).UTC()
}

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// String is the canonical form, 36 characters in lower case.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// MarshalText is String, for JSON and logs.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseID.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// ParseID reads the canonical form; letters may be upper case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, fmt.Errorf("%.40q is not a UUID", s)
	}
	compact := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil {
		return ID{}, fmt.Errorf("%.40q is not a UUID", s)
	}
	return id, nil
}

// HubTenant is the reserved tenant of the hub's own events. No record can name
// it: it does not begin with a letter or digit.
const HubTenant TenantID = "_hub"
