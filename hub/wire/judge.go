package wire

import (
	"slices"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// Record is what Judge reads of a Kafka record. Its key carries no meaning.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Headers   []Header
	Value     []byte
}

// Verdict is the judgement of one record.
type Verdict struct {
	Kind   Kind
	Reason Reason // "" unless Kind is Quarantine
	// Event is whole when Kind is Accept, except for what storing it gives:
	// ID, Seq and ReceivedAt. Otherwise only Record is set, and Tenant when a
	// quarantined record names a possible one, once. Body aliases the
	// record's value and is never nil in an accepted event; every string is a
	// copy.
	Event hub.Event
}

// Judge says whether a record is an event of ours. It never fails: a record
// that breaks a rule is a verdict too.
func (r Rules) Judge(rec Record) Verdict {
	var c collected
	v := Verdict{Event: hub.Event{Record: hub.RecordPosition{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset,
	}}}
	c.read(rec.Headers)

	reason := c.fault(r.SingleTenant != "")
	if reason == "" && c.values[systemEvent] == "true" {
		v.Kind = Skip
		return v
	}
	if reason == "" {
		reason = r.mismatch(&c, rec)
	}
	if reason != "" {
		v.Kind, v.Reason = Quarantine, reason
		v.Event.Tenant = c.claimedTenant()
		return v
	}
	v.Kind = Accept
	c.fill(&v.Event, r.SingleTenant)
	if v.Event.Body = rec.Value; v.Event.Body == nil {
		v.Event.Body = []byte{}
	}
	return v
}

// fault names the first broken rule of the attributes by themselves.
func (c *collected) fault(singleTenant bool) Reason {
	if isStructured(c.contentType) {
		return UnsupportedMode
	}
	for a := range attributes {
		if c.conflicts[a] {
			return ConflictingAttribute(table[a].name)
		}
	}
	slices.SortStableFunc(c.extensions, func(a, b hub.Attribute) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(c.extensions); i++ {
		if a, b := c.extensions[i-1], c.extensions[i]; a.Name == b.Name && a.Value != b.Value {
			return ConflictingAttribute(a.Name)
		}
	}
	if v := c.values[specVersion]; v != "" && v != "1.0" {
		return UnsupportedSpecVersion
	}
	if c.values[dataContentType] == "" {
		c.values[dataContentType] = c.contentType
	}
	for a := range attributes {
		rule, value := &table[a], c.values[a]
		if value == "" {
			if rule.needed && !(a == tenantID && (singleTenant || c.values[systemEvent] == "true")) {
				return MissingAttribute(rule.name)
			}
			continue
		}
		if rule.max > 0 && len(value) > rule.max || !isClean(value) || rule.valid != nil && !rule.valid(value) {
			return InvalidAttribute(rule.name)
		}
	}
	for _, e := range c.extensions {
		if !isToken(e.Name) || !isClean(e.Value) {
			return InvalidAttribute(e.Name)
		}
	}
	return ""
}

// claimedTenant is the tenant that the record says it belongs to, "" when it
// does not say, or says what no tenant is called.
func (c *collected) claimedTenant() hub.TenantID {
	rule, value := &table[tenantID], c.values[tenantID]
	if c.conflicts[tenantID] || len(value) > rule.max || !isClean(value) || !rule.valid(value) {
		return ""
	}
	return hub.TenantID(value)
}

// mismatch names the first broken rule between the attributes and the record.
func (r Rules) mismatch(c *collected, rec Record) Reason {
	if s, ok := SourceOfTopic(r.TopicPrefix, rec.Topic); !ok || s != c.values[source] {
		return SourceMismatch
	}
	if !isTypeOf(c.values[ceType], r.TypePrefix, c.values[source], c.values[resourceType], c.values[eventType]) {
		return TypeMismatch
	}
	if c.headerBytes > r.MaxHeaderBytes {
		return HeadersTooLarge
	}
	if len(rec.Value) > r.MaxBodyBytes {
		return BodyTooLarge
	}
	return ""
}

// isStructured reports whether a content type announces a whole event, or a
// batch of them, in the record's value: the Kafka binding's own test, a prefix
// in any case.
func isStructured(contentType string) bool {
	const media = "application/cloudevents"
	contentType = strings.TrimLeft(contentType, " \t")
	return len(contentType) >= len(media) && strings.EqualFold(contentType[:len(media)], media)
}

// isTypeOf reports t == prefix.source.resource.event.
func isTypeOf(t string, parts ...string) bool {
	for i, p := range parts {
		if i > 0 {
			if t == "" || t[0] != '.' {
				return false
			}
			t = t[1:]
		}
		if !strings.HasPrefix(t, p) {
			return false
		}
		t = t[len(p):]
	}
	return t == ""
}
