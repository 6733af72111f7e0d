// Package sample makes facts as an application of the house would publish
// them: CloudEvents in Kafka's binary mode.
package sample

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Fact is one CloudEvent with the attributes that the hub asks for. Empty
// optional attributes are left out.
type Fact struct {
	ID            string
	Source        string
	ResourceType  string
	EventType     string
	SchemaVersion string
	TenantID      string
	Time          time.Time
	Subject       string
	ContentType   string
	DataSchema    string
	System        bool
	Extensions    map[string]string // by attribute name, without ce-
	Body          []byte

	// Type and Topic are derived from the attributes above and the prefixes
	// unless they are given, to make a wrong one on purpose.
	Type  string
	Topic string
}

// Prefixes of a company's topics and CloudEvents types.
type Prefixes struct {
	Topic string // lerian.streaming
	Type  string // studio.lerian
}

// Record is the fact as a Kafka record with ce- headers. Facts of one tenant
// share a key, thus a partition, and keep their order.
func (f Fact) Record(p Prefixes) *kgo.Record {
	typ := f.Type
	if typ == "" {
		typ = p.Type + "." + f.Source + "." + f.ResourceType + "." + f.EventType
	}
	topic := f.Topic
	if topic == "" {
		topic = p.Topic + "." + f.Source
	}
	r := &kgo.Record{Topic: topic, Key: []byte(f.TenantID), Value: f.Body}
	header := func(name, value string) {
		if value != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce-" + name, Value: []byte(value)})
		}
	}
	header("specversion", "1.0")
	header("id", f.ID)
	header("source", f.Source)
	header("type", typ)
	header("time", f.Time.UTC().Format(time.RFC3339Nano))
	header("schemaversion", f.SchemaVersion)
	header("resourcetype", f.ResourceType)
	header("eventtype", f.EventType)
	header("tenantid", f.TenantID)
	header("subject", f.Subject)
	header("datacontenttype", f.ContentType)
	header("dataschema", f.DataSchema)
	if f.System {
		header("systemevent", "true")
	}
	for name, value := range f.Extensions {
		header(name, value)
	}
	return r
}
