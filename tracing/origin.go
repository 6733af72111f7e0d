package tracing

import (
	"context"
	"encoding/binary"
	mathrand "math/rand/v2"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/streaming-hub/streaming-hub/hub"
)

// origin is where in which trace an event stands.
type origin struct {
	trace  trace.TraceID
	parent trace.SpanID // the producer's; zero when the trace begins here
	flags  trace.TraceFlags
}

// keptFlags are those that version 00 of traceparent knows: sampled, random.
const keptFlags = trace.FlagsSampled | 0x02

// originOf says where an event stands, and whether it is followed: what the
// producer decided holds, else a share of the events is. Every process finds
// the same.
func originOf(ev *hub.Event, share threshold) (o origin, followed bool) {
	parent := ev.TraceParent
	if parent == "" {
		return origin{trace: trace.TraceID(ev.ID.ID), flags: trace.FlagsSampled}, share.has(ev.ID.ID)
	}
	// Stored as version-traceid-parentid-flags: 2, 32, 16 and 2 digits.
	if len(parent) < 55 {
		return o, false
	}
	flags, err := strconv.ParseUint(parent[53:55], 16, 8)
	if o.flags = trace.TraceFlags(flags) & keptFlags; err != nil || !o.flags.IsSampled() {
		return o, false
	}
	if o.trace, err = trace.TraceIDFromHex(parent[3:35]); err != nil {
		return o, false
	}
	o.parent, err = trace.SpanIDFromHex(parent[36:52])
	return o, err == nil
}

// context is that of a span in the event's trace.
func (o origin) context(span trace.SpanID, remote bool) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: o.trace, SpanID: span, TraceFlags: o.flags, Remote: remote})
}

// spanOf is the id of the span that tells of what has this id. It is never
// zero: a UUID has its variant there.
func spanOf(id hub.ID) trace.SpanID { return trace.SpanID(id[8:]) }

// traceParent is the header that names a span as the parent.
func (o origin) traceParent(span trace.SpanID) string {
	return "00-" + o.trace.String() + "-" + span.String() + "-" + o.flags.String()
}

// threshold is a share of all ids. It is compared with the last 56 bits, which
// are random in ids of version 7, and in trace ids as W3C Trace Context wants
// them.
type threshold uint64

const randomBits = 56

func thresholdOf(ratio float64) threshold {
	return threshold(max(0, min(ratio, 1)) * (1 << randomBits))
}

func (t threshold) has(id hub.ID) bool {
	return binary.BigEndian.Uint64(id[8:])&(1<<randomBits-1) < uint64(t)
}

// identities gives spans the ids that their context names, else random ones.
type identities struct{}

type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

type identityKey struct{}

func withIdentity(ctx context.Context, id identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// NewIDs are the ids of a span that begins a trace.
func (identities) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if own, ok := ctx.Value(identityKey{}).(identity); ok {
		return own.trace, own.span
	}
	return randomTrace(), randomSpan()
}

// NewSpanID is the id of a span with a parent.
func (identities) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if own, ok := ctx.Value(identityKey{}).(identity); ok {
		return own.span
	}
	return randomSpan()
}

func randomTrace() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], mathrand.Uint64())
	binary.BigEndian.PutUint64(id[8:], mathrand.Uint64()|1) // zero is no id
	return id
}

func randomSpan() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], mathrand.Uint64()|1)
	return id
}
