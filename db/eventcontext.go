package db

import (
	"encoding/json"
	"fmt"

	"github.com/streaming-hub/streaming-hub/hub"
)

// eventContext is the JSON in events.context: the attributes that no query
// filters by. The names are those of the CloudEvents attributes.
type eventContext struct {
	Type            string          `json:"type"`
	ResourceType    string          `json:"resourcetype"`
	EventType       string          `json:"eventtype"`
	Time            string          `json:"time"`
	Subject         string          `json:"subject,omitempty"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	DataSchema      string          `json:"dataschema,omitempty"`
	Extensions      []hub.Attribute `json:"extensions,omitempty"`
	TraceParent     string          `json:"traceparent,omitempty"`
	TraceState      string          `json:"tracestate,omitempty"`
}

func encodeContext(e *hub.Event) []byte {
	// The rules let valid UTF-8 through only, which always encodes.
	raw, err := json.Marshal(eventContext{
		Type: e.CEType, ResourceType: e.ResourceType, EventType: e.EventType, Time: e.Time,
		Subject: e.Subject, DataContentType: e.ContentType, DataSchema: e.DataSchema,
		Extensions: e.Extensions, TraceParent: e.TraceParent, TraceState: e.TraceState,
	})
	if err != nil {
		panic("db: an event's context does not encode: " + err.Error())
	}
	return raw
}

func decodeContext(raw []byte, e *hub.Event) error {
	var c eventContext
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("read the context of event %s: %w", e.ID, err)
	}
	e.CEType, e.ResourceType, e.EventType, e.Time = c.Type, c.ResourceType, c.EventType, c.Time
	e.Subject, e.ContentType, e.DataSchema = c.Subject, c.DataContentType, c.DataSchema
	e.Extensions, e.TraceParent, e.TraceState = c.Extensions, c.TraceParent, c.TraceState
	return nil
}
