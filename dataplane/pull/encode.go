package pull

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// eventJSON is an event without its payload. Numbers that may pass 2^53 are
// strings; absent attributes are left out.
type eventJSON struct {
	ID            string            `json:"id"`
	TenantID      hub.TenantID      `json:"tenant_id"`
	Seq           string            `json:"seq"`
	CEID          string            `json:"ce_id"`
	Source        string            `json:"source"`
	CEType        string            `json:"ce_type"`
	EventType     string            `json:"event_type"`
	SchemaVersion string            `json:"schema_version"`
	SchemaMajor   int32             `json:"schema_major"`
	Time          string            `json:"time"`
	ReceivedAt    time.Time         `json:"received_at"`
	Subject       string            `json:"subject,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	DataSchema    string            `json:"data_schema,omitempty"`
	Extensions    map[string]string `json:"extensions,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
	TraceState    string            `json:"tracestate,omitempty"`
	Kafka         kafkaJSON         `json:"kafka"`
	SizeBytes     int               `json:"size_bytes"`
}

type kafkaJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    string `json:"offset"`
}

// appendEvent adds an event to an answer: its attributes, and its payload as
// it came when that is JSON and raw is false, else in base64.
func appendEvent(b *bytes.Buffer, e *hub.Event, raw bool) error {
	j := eventJSON{
		ID: "evt_" + hex.EncodeToString(e.ID.ID[:]), TenantID: e.Tenant, Seq: strconv.FormatInt(e.Seq, 10),
		CEID: e.CEID, Source: e.Source, CEType: e.CEType, EventType: e.Key(),
		SchemaVersion: e.SchemaVersion, SchemaMajor: e.SchemaMajor, Time: e.Time, ReceivedAt: e.ReceivedAt.UTC(),
		Subject: e.Subject, ContentType: e.ContentType, DataSchema: e.DataSchema,
		TraceParent: e.TraceParent, TraceState: e.TraceState, SizeBytes: len(e.Body),
		Kafka: kafkaJSON{Topic: e.Record.Topic, Partition: e.Record.Partition, Offset: strconv.FormatInt(e.Record.Offset, 10)},
	}
	if len(e.Extensions) > 0 {
		j.Extensions = make(map[string]string, len(e.Extensions))
		for _, x := range e.Extensions {
			j.Extensions[x.Name] = x.Value
		}
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(j); err != nil {
		return fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	b.Truncate(b.Len() - len("}\n"))
	// The encoder would write JSON anew; the payload's bytes go in beside it.
	if !raw && wire.IsJSON(e.Body) {
		b.WriteString(`,"payload":`)
		b.Write(e.Body)
		b.WriteString("}")
		return nil
	}
	b.WriteString(`,"payload_base64":"`)
	b.Write(base64.StdEncoding.AppendEncode(b.AvailableBuffer(), e.Body))
	b.WriteString(`"}`)
	return nil
}
