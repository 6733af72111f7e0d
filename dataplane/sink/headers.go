package sink

import (
	"net/http"
	"slices"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// storableHeaders keeps an answer's headers, sorted by name. The transport has
// bounded their sum already.
func storableHeaders(h http.Header) []hub.Header {
	kept := make([]hub.Header, 0, len(h))
	for name, values := range h {
		for _, v := range values {
			kept = append(kept, hub.Header{Name: hub.Storable(name, 256), Value: hub.Storable(v, maxResponseHeaderBytes)})
		}
	}
	slices.SortStableFunc(kept, func(a, b hub.Header) int { return strings.Compare(a.Name, b.Name) })
	return kept
}
