package controlplane

import (
	"encoding/hex"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Prefixes of global ids, which name an object everywhere outside the hub: a
// type and the UUID's 32 hexadecimal digits.
const (
	EventIDs        = "evt_"
	SubscriptionIDs = "sub_"
	DestinationIDs  = "dst_"
	DeliveryIDs     = "dlv_"
	QuarantinedIDs  = "qrn_"
	ObservationIDs  = "dlq_"
	TokenIDs        = "tok_"
	AuditIDs        = "aud_"
	JobIDs          = "rpl_"
)

// GlobalID is the text of a global id.
func GlobalID(prefix string, id hub.ID) string { return prefix + hex.EncodeToString(id[:]) }

// ParseGlobalID reads an id of one type. Anything else is the zero id, which
// nothing has, and ok is false: it is answered like an id that does not exist.
func ParseGlobalID(prefix, text string) (id hub.ID, ok bool) {
	if len(text) != len(prefix)+2*len(id) || text[:len(prefix)] != prefix {
		return id, false
	}
	if _, err := hex.Decode(id[:], []byte(text[len(prefix):])); err != nil {
		return hub.ID{}, false
	}
	return id, true
}
