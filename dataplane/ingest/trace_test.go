package ingest

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/tracing"
	"github.com/streaming-hub/streaming-hub/tracing/tracingtest"
)

// TestConsumer_traces_what_is_stored sends sampled and unsampled facts, a
// repeat and one for quarantine, to a database that fails at first.
func TestConsumer_traces_what_is_stored(t *testing.T) {
	t.Parallel()
	c := tracingtest.New(t)
	tracer, err := tracing.New(tracing.Config{Endpoint: c.URL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const trace, producer = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	with := func(id, flags string) *kgo.Record {
		r := fact(0, id)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte("00-" + trace + "-" + producer + "-" + flags)})
		return r
	}
	d := newDesk(t, 1, lenderTopic)
	d.tracer = tracer
	inbox := newInbox()
	var tries atomic.Int32
	inbox.before = func(db.IngestWrites) error {
		if tries.Add(1) == 1 {
			return errors.New("the database is away")
		}
		return nil
	}
	d.produce(with("sampled", "01"), with("unsampled", "00"), with("sampled", "01"), without(with("bad", "01"), "ce-type", ""), fact(0, "none"), with("last", "01"))
	r := d.consume(inbox)
	inbox.waitEvents(t, 4)
	r.end(t)
	tracer.Close(t.Context())
	var want, got []string
	for _, e := range inbox.events {
		if strings.HasSuffix(e.TraceParent, "01") {
			want = append(want, e.ID.String())
		}
	}
	for _, s := range c.Spans() {
		got = append(got, s.Attributes["streaming_hub.event.id"])
		if s.Trace != trace || s.Parent != producer || s.Kind != "CONSUMER" || s.Ended.Before(s.Begun) || s.Attributes["messaging.kafka.offset"] == "" {
			t.Errorf("span = %+v", s)
		}
	}
	if len(want) != 2 || !slices.Equal(want, got) {
		t.Errorf("spans of %v, want %v", got, want)
	}
}
