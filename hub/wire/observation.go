package wire

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// What is kept of a dead-letter record, in bytes.
const (
	MaxObservedBody       = 64 << 10
	maxErrorMessage       = 4096
	maxObservedText       = 1024 // of any other text
	maxObservedAttributes = DefaultMaxHeaderBytes
)

// dlqPart stands between the header prefix, in lower case, and the name of a
// dead-letter header: x-lerian-dlq-error-class.
const dlqPart = "dlq-"

// Observe reads what a record of a dead-letter topic says about itself. It
// takes any record: what is missing or makes no sense is left out. Header
// names compare without case; of a header that is given twice, the first one
// that is not empty counts. headerPrefix is the setting, such as
// DefaultHeaderPrefix.
func Observe(headerPrefix string, rec Record) hub.Observation {
	o := hub.Observation{
		Writer: hub.WriterProducer,
		Record: hub.RecordPosition{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset},
		// A record's value is smaller than 2 GiB in Kafka.
		BodyBytes: int32(len(rec.Value)), KeptBytes: int32(min(len(rec.Value), MaxObservedBody)),
	}
	prefix := lower(headerPrefix) + dlqPart
	var dlq dlqHeaders
	var tenants []string
	for _, h := range rec.Headers {
		switch name := lower(h.Key); {
		case role(h.Key) == attributeHeader:
			if name[3:] == table[tenantID].name {
				tenants = append(tenants, string(h.Value))
			}
			o.Attributes = append(o.Attributes, hub.Attribute{Name: shown(name[3:]), Value: string(h.Value)})
		case strings.HasPrefix(name, prefix):
			dlq.add(name[len(prefix):], h.Value)
		}
	}
	o.Attributes, o.AttributesCut = observedAttributes(o.Attributes)
	o.Tenant = claimedTenant(tenants)
	dlq.fill(&o)
	return o
}

// dlqHeaders are the dead-letter headers of one record by name.
type dlqHeaders map[string]string

func (d *dlqHeaders) add(name string, value []byte) {
	if *d == nil {
		*d = dlqHeaders{}
	}
	if (*d)[name] == "" {
		(*d)[name] = string(value)
	}
}

func (d dlqHeaders) fill(o *hub.Observation) {
	o.SourceTopic = hub.Storable(d["source-topic"], maxObservedText)
	o.ErrorClass = hub.Storable(d["error-class"], maxObservedText)
	o.ErrorMessage = hub.Storable(d["error-message"], maxErrorMessage)
	o.RetryCount = int32Of(d["retry-count"])
	o.ProducerID = hub.Storable(d["producer-id"], maxObservedText)
	if t, err := time.Parse(time.RFC3339Nano, d["first-failure-at"]); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
		o.FirstFailureAt = t.UTC()
	}
	partition, has1 := d["source-partition"]
	offset, has2 := d["source-offset"]
	cause, has3 := d["cause-kind"]
	if has1 && has2 && has3 {
		o.Writer = hub.WriterConsumer
	}
	o.SourcePartition, o.SourceOffset = int32Of(partition), int64Of(offset)
	o.CauseKind = hub.Storable(cause, maxObservedText)
	switch lower(d["payload-omitted"]) {
	case "true":
		omitted := true
		o.PayloadOmitted = &omitted
	case "false":
		omitted := false
		o.PayloadOmitted = &omitted
	}
	o.PayloadBytes = int64Of(d["payload-bytes"])
}

// observedAttributes sorts attributes, keeps the first of each name that is
// not empty, and bounds them all together.
func observedAttributes(list []hub.Attribute) (kept []hub.Attribute, cut bool) {
	slices.SortStableFunc(list, func(a, b hub.Attribute) int { return strings.Compare(a.Name, b.Name) })
	left := maxObservedAttributes
	for _, a := range list {
		if a.Value == "" || len(kept) > 0 && kept[len(kept)-1].Name == a.Name {
			continue
		}
		whole := a.Value
		a.Value = hub.Storable(whole, max(left-len(a.Name), 0))
		if len(a.Value) < len(whole) {
			cut = true
		}
		if a.Value == "" {
			continue
		}
		left -= len(a.Name) + len(a.Value)
		kept = append(kept, a)
	}
	return kept, cut
}

// claimedTenant is the one tenant that a record names; "" when it names none,
// several, or one that cannot be.
func claimedTenant(named []string) hub.TenantID {
	tenant := ""
	for _, t := range named {
		if t == "" {
			continue
		}
		if tenant != "" && tenant != t || len(t) > table[tenantID].max || !isTenant(t) {
			return ""
		}
		tenant = t
	}
	return hub.TenantID(tenant)
}

// int32Of and int64Of are nil for what is no whole number from 0 on.
func int32Of(s string) *int32 {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return nil
	}
	v := int32(n)
	return &v
}

func int64Of(s string) *int64 {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return nil
	}
	v := int64(n)
	return &v
}
