package wire

import (
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// collected is what one pass over a record's headers finds.
type collected struct {
	values     [attributes]string
	given      [attributes]bool
	conflicts  [attributes]bool
	extensions []hub.Attribute // in the record's order, copies included

	contentType string // first content-type header that is not empty
	traceParent string
	traceState  string

	headerBytes int // names and values of the ce- headers
}

// read sorts the headers. All values share one allocation: an event lives and
// dies as a whole.
func (c *collected) read(headers []Header) {
	total := 0
	for i := range headers {
		if role(headers[i].Key) != foreign {
			total += len(headers[i].Value)
		}
	}
	var text strings.Builder
	text.Grow(total)
	for i := range headers {
		if role(headers[i].Key) != foreign {
			text.Write(headers[i].Value)
		}
	}
	rest := text.String()
	for i := range headers {
		key := headers[i].Key
		r := role(key)
		if r == foreign {
			continue
		}
		value := rest[:len(headers[i].Value)]
		rest = rest[len(value):]
		switch r {
		case attributeHeader:
			c.headerBytes += len(key) + len(value)
			c.add(lower(key[3:]), value)
		case contentTypeHeader:
			if c.contentType == "" {
				c.contentType = value
			}
		case traceParentHeader:
			if c.traceParent == "" {
				c.traceParent = value
			}
		case traceStateHeader: // several are one list (W3C Trace Context, 3.3.1.1)
			if c.traceState != "" && value != "" {
				value = c.traceState + "," + value
			}
			if value != "" {
				c.traceState = value
			}
		}
	}
}

func (c *collected) add(name, value string) {
	a, ok := known(name)
	if !ok {
		c.extensions = append(c.extensions, hub.Attribute{Name: name, Value: value})
		return
	}
	if c.given[a] && c.values[a] != value {
		c.conflicts[a] = true
	}
	c.given[a], c.values[a] = true, value
}

// fill writes an event whose attributes have passed every check.
func (c *collected) fill(ev *hub.Event, singleTenant hub.TenantID) {
	v := &c.values
	if ev.Tenant = hub.TenantID(v[tenantID]); ev.Tenant == "" {
		ev.Tenant = singleTenant
	}
	ev.CEID, ev.Source, ev.CEType, ev.Time = v[id], v[source], v[ceType], v[ceTime]
	ev.ResourceType, ev.EventType = v[resourceType], v[eventType]
	ev.SchemaVersion = v[schemaVersion]
	ev.SchemaMajor, _ = schemaMajor(v[schemaVersion])
	ev.Subject, ev.ContentType, ev.DataSchema = v[subject], v[dataContentType], v[dataSchema]
	ev.TraceParent, ev.TraceState = traceContext(c.traceParent, c.traceState)
	kept := c.extensions[:0]
	for _, e := range c.extensions { // sorted: equal copies are neighbours
		if e.Value != "" && (len(kept) == 0 || kept[len(kept)-1].Name != e.Name) {
			kept = append(kept, e)
		}
	}
	if len(kept) > 0 {
		ev.Extensions = kept
	}
}

// headerRole is what a record's header is for.
type headerRole uint8

const (
	foreign headerRole = iota
	attributeHeader
	contentTypeHeader
	traceParentHeader
	traceStateHeader
)

// role tells a header by its name, in any case.
func role(key string) headerRole {
	if len(key) >= 3 && key[0]|0x20 == 'c' && key[1]|0x20 == 'e' && (key[2] == '-' || key[2] == '_') {
		return attributeHeader
	}
	switch len(key) {
	case len("tracestate"):
		if strings.EqualFold(key, "tracestate") {
			return traceStateHeader
		}
	case len("traceparent"):
		if strings.EqualFold(key, "traceparent") {
			return traceParentHeader
		}
	case len("content-type"):
		if strings.EqualFold(key, "content-type") {
			return contentTypeHeader
		}
	}
	return foreign
}

// lower maps A–Z only: attribute names are ASCII, and mapping more would make
// equals of names that differ.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}
