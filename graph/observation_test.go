package graph_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// observe stores a dead-letter observation.
func (w *world) observe(tenant hub.TenantID, change ...func(*db.NewObservation)) hub.ID {
	w.t.Helper()
	o := db.NewObservation{Place: newID(), Body: []byte(`{"a":1}`), Observation: hub.Observation{
		ID: newID(), Writer: hub.WriterProducer, Tenant: tenant, BodyBytes: 7, KeptBytes: 7, ErrorMessage: "Ms Miller's card",
		Attributes: []hub.Attribute{{Name: "id", Value: "1"}},
		Record:     hub.RecordPosition{Topic: "lerian.streaming.lender.dlq", Partition: 1, Offset: 1 << 60},
	}}
	for _, c := range change {
		c(&o)
	}
	if _, err := w.db.StoreObservations(w.t.Context(), time.Now(), []db.NewObservation{o}); err != nil {
		w.t.Fatal(err)
	}
	return o.ID
}

func TestDlqObservations(t *testing.T) {
	w := newWorld(t)
	retries, partition, offset := int32(3), int32(4), int64(1<<60)
	full := w.observe("acme", func(o *db.NewObservation) {
		o.Writer, o.CauseKind, o.ErrorClass, o.SourceTopic, o.ProducerID = hub.WriterConsumer, "codec", "BROKER", "lerian.streaming.lender", "pod-1"
		o.RetryCount, o.SourcePartition, o.SourceOffset, o.BodyBytes = &retries, &partition, &offset, 100_000
		o.FirstFailureAt = time.Date(2026, 1, 31, 12, 4, 5, 0, time.UTC)
	})
	w.observe("beta", func(o *db.NewObservation) { o.Record.Topic = "lerian.streaming.tracer.dlq" })
	w.observe("")
	const fields = `id writer topic partition offset source tenantId observedAt attributes { name value } attributesTruncated sourceTopic errorClass errorMessage
		retryCount firstFailureAt producerId sourcePartition sourceOffset causeKind payloadOmitted payloadBytes body { text } bodyTruncated sizeBytes`
	t.Run("shows_all_of_it", func(t *testing.T) {
		a := w.must(w.token("acme", hub.Admin), `query ($id: ID!) { node(id: $id) { ... on DlqObservation { `+fields+` } } }`, map[string]any{"id": gid("dlq_", full)})
		for path, want := range map[string]any{
			"writer": "CONSUMER", "topic": "lerian.streaming.lender.dlq", "partition": 1.0, "offset": "1152921504606846976", "source": "lender", "tenantId": "acme",
			"attributesTruncated": false, "sourceTopic": "lerian.streaming.lender", "errorClass": "BROKER", "errorMessage": "Ms Miller's card", "retryCount": 3.0,
			"firstFailureAt": "2026-01-31T12:04:05Z", "producerId": "pod-1", "sourcePartition": 4.0, "sourceOffset": "1152921504606846976", "causeKind": "codec",
			"payloadOmitted": nil, "payloadBytes": nil, "bodyTruncated": true, "sizeBytes": 100_000.0,
		} {
			if a.at("node", path) != want {
				t.Errorf("%s = %v, want %v", path, a.at("node", path), want)
			}
		}
		if a.at("node", "attributes", 0, "value") != "1" || a.at("node", "body", "text") != `{"a":1}` {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("error_messages_are_for_admins", func(t *testing.T) {
		for role, want := range map[hub.Role]any{hub.Viewer: nil, hub.Operator: nil, hub.Admin: "Ms Miller's card"} {
			a := w.must(w.token("", role), `query ($id: ID!) { node(id: $id) { ... on DlqObservation { errorMessage } } dlqObservations { nodes { errorMessage } } }`, map[string]any{"id": gid("dlq_", full)})
			if a.at("node", "errorMessage") != want || a.at("dlqObservations", "nodes", 0, "errorMessage") != want {
				t.Errorf("%s: %v", role, a.Data)
			}
		}
	})
	for name, c := range map[string]struct {
		tenant hub.TenantID
		filter string
		want   int
	}{
		"platform_sees_all":         {"", `{}`, 3},
		"tenant_sees_its_own":       {"acme", `{}`, 1},
		"tenant_that_has_none":      {"nobody", `{}`, 0},
		"by_tenant":                 {"", `{tenantId: "beta"}`, 1},
		"tenant_asks_for_another":   {"acme", `{tenantId: "beta"}`, 0},
		"by_source":                 {"", `{source: "tracer"}`, 1},
		"by_topic":                  {"", `{topic: "lerian.streaming.lender.dlq"}`, 2},
		"by_writer":                 {"", `{writer: CONSUMER}`, 1},
		"by_error_class":            {"", `{errorClass: "BROKER"}`, 1},
		"after_now":                 {"", fmt.Sprintf(`{after: %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), 0},
		"before_now":                {"", fmt.Sprintf(`{before: %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), 3},
		"before_and_after_together": {"", fmt.Sprintf(`{after: %q, before: %[1]q}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.must(w.token(c.tenant, hub.Viewer), `{ dlqObservations(filter: `+c.filter+`) { nodes { id } edges { cursor } } }`, nil)
			if nodes := a.at("dlqObservations", "nodes").([]any); len(nodes) != c.want {
				t.Errorf("%v", nodes)
			}
		})
	}
}
