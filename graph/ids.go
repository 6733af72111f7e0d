package graph

import (
	"encoding/hex"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Prefixes of global ids: a type and the UUID's 32 hexadecimal digits.
const (
	eventPrefix        = "evt_"
	subscriptionPrefix = "sub_"
	destinationPrefix  = "dst_"
	deliveryPrefix     = "dlv_"
)

func globalID(prefix string, id hub.ID) string { return prefix + hex.EncodeToString(id[:]) }

// parseGlobalID reads an id of one type. ok is false for anything else, which
// is answered like an id that does not exist.
func parseGlobalID(prefix, text string) (id hub.ID, ok bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(digits) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil
}
