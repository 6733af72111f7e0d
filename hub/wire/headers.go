package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// DefaultContentType is sent for an event that names none. It is never stored.
const DefaultContentType = "application/json"

// names are the hub's own header names under one prefix.
type names struct {
	eventID, deliveryID, eventType, eventSource, schemaVersion, tenantID, seq, attempt, timestamp string
}

func namesOf(prefix string) names {
	return names{
		eventID:       prefix + "Event-Id",
		deliveryID:    prefix + "Delivery-Id",
		eventType:     prefix + "Event-Type",
		eventSource:   prefix + "Event-Source",
		schemaVersion: prefix + "Schema-Version",
		tenantID:      prefix + "Tenant-Id",
		seq:           prefix + "Seq",
		attempt:       prefix + "Attempt",
		timestamp:     prefix + "Timestamp",
	}
}

// defaultNames saves building the usual names for each attempt.
var defaultNames = namesOf(DefaultHeaderPrefix)

// WebhookHeaders appends to dst all headers of one attempt, except the
// signatures and User-Agent: content type, the hub's own under prefix, the
// Standard Webhooks id and timestamp, the CloudEvents attributes as the HTTP
// binding encodes them, and the trace context. at is the start of the attempt;
// receivers see it in whole seconds.
func WebhookHeaders(dst []hub.Header, prefix string, ev *hub.Event, d *hub.Delivery, attempt hub.AttemptID, number int32, at time.Time) []hub.Header {
	n := &defaultNames
	if prefix != DefaultHeaderPrefix {
		own := namesOf(prefix)
		n = &own
	}
	encodedID := Encode(ev.CEID)
	timestamp := strconv.FormatInt(at.Unix(), 10)

	dst = append(dst,
		hub.Header{Name: "Content-Type", Value: contentTypeOf(ev)},
		hub.Header{Name: n.eventID, Value: encodedID},
		hub.Header{Name: n.deliveryID, Value: attempt.String()},
		hub.Header{Name: n.eventType, Value: Encode(ev.Key())},
		hub.Header{Name: n.eventSource, Value: ev.Source},
		hub.Header{Name: n.schemaVersion, Value: Encode(ev.SchemaVersion)},
		hub.Header{Name: n.tenantID, Value: string(ev.Tenant)},
		hub.Header{Name: n.seq, Value: strconv.FormatInt(ev.Seq, 10)},
		hub.Header{Name: n.attempt, Value: strconv.FormatInt(int64(number), 10)},
		hub.Header{Name: n.timestamp, Value: timestamp},
		hub.Header{Name: "webhook-id", Value: d.ID.String()},
		hub.Header{Name: "webhook-timestamp", Value: timestamp},
		hub.Header{Name: "ce-specversion", Value: "1.0"},
		hub.Header{Name: "ce-id", Value: encodedID},
		hub.Header{Name: "ce-source", Value: ev.Source},
		hub.Header{Name: "ce-type", Value: Encode(ev.CEType)},
		hub.Header{Name: "ce-time", Value: Encode(ev.Time)},
	)
	if ev.Subject != "" {
		dst = append(dst, hub.Header{Name: "ce-subject", Value: Encode(ev.Subject)})
	}
	if ev.DataSchema != "" {
		dst = append(dst, hub.Header{Name: "ce-dataschema", Value: Encode(ev.DataSchema)})
	}
	dst = append(dst,
		hub.Header{Name: "ce-schemaversion", Value: Encode(ev.SchemaVersion)},
		hub.Header{Name: "ce-resourcetype", Value: Encode(ev.ResourceType)},
		hub.Header{Name: "ce-eventtype", Value: Encode(ev.EventType)},
		hub.Header{Name: "ce-tenantid", Value: string(ev.Tenant)},
	)
	for _, e := range ev.Extensions {
		dst = append(dst, hub.Header{Name: "ce-" + e.Name, Value: Encode(e.Value)})
	}
	if ev.TraceParent != "" {
		dst = append(dst, hub.Header{Name: "traceparent", Value: ev.TraceParent})
		if ev.TraceState != "" {
			dst = append(dst, hub.Header{Name: "tracestate", Value: ev.TraceState})
		}
	}
	return dst
}

const upperHex = "0123456789ABCDEF"

// Encode writes an attribute value as the CloudEvents HTTP binding asks (1.0,
// section 3.1.3.2): space, double quote, percent sign and every byte outside
// 0x21–0x7E become %XX. Decoding once gives the value back.
func Encode(s string) string {
	n := 0
	for i := range len(s) {
		if escaped(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; escaped(c) {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func escaped(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }

// contentTypeOf is the Content-Type of a delivery: what the producer said,
// with every byte that a header value may not hold as %XX. Unlike in the ce-
// headers, spaces and quotes stay, for they belong to the grammar of media
// types.
func contentTypeOf(ev *hub.Event) string {
	s := strings.Trim(ev.ContentType, " ")
	if s == "" {
		return DefaultContentType
	}
	if isPrintable(s) {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
