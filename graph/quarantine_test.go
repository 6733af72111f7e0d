package graph_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// quarantined is what a test says of a quarantined record.
type quarantined struct {
	reason, topic     string
	partition, offset int
	headers           []db.RawHeader
	body              []byte
	bodyBytes         int // 0 for that of body
	at                time.Time
}

// quarantine makes a quarantined record by SQL.
func (w *world) quarantine(tenant string, q *quarantined) hub.ID {
	w.t.Helper()
	if q == nil {
		q = &quarantined{}
	}
	if q.reason == "" {
		q.reason = "type_mismatch"
	}
	if q.topic == "" {
		q.topic = "lerian.streaming.lender"
	}
	if q.bodyBytes == 0 {
		q.bodyBytes = len(q.body)
	}
	if q.headers == nil {
		q.headers = []db.RawHeader{}
	}
	if q.body == nil {
		q.body = []byte{}
	}
	if q.at.IsZero() {
		q.at = time.Now()
	}
	id := hub.NewID(q.at, rand.Reader)
	headers, err := json.Marshal(q.headers)
	if err != nil {
		w.t.Fatal(err)
	}
	w.exec(`INSERT INTO quarantined_records (id, tenant_id, reason, topic, kafka_partition, kafka_offset, headers, body, body_bytes, received_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, id.String(), tenant, q.reason, q.topic, q.partition, q.offset, headers, q.body, q.bodyBytes, q.at)
	return id
}

func header(name, value string) db.RawHeader {
	return db.RawHeader{Key: []byte(name), Value: []byte(value)}
}

const quarantinedFields = `id reason topic partition offset headers { name value base64 } body { text base64 json } bodyTruncated sizeBytes
	receivedAt readmitRequestedAt readmittedAt readmitResult`

func TestQuarantinedRecord_shows_all_of_it(t *testing.T) {
	w := newWorld(t)
	token := w.token("", hub.Viewer)
	id := w.quarantine("acme", &quarantined{
		reason: "missing_attribute:id", partition: 3, offset: 1 << 60, body: []byte(`{"a":1}`), bodyBytes: 2 << 20,
		headers: []db.RawHeader{header("ce-type", "a.b"), header("x\xff", "\xff\x00")},
	})
	a := w.must(token, `query ($id: ID!) { node(id: $id) { ... on QuarantinedRecord { `+quarantinedFields+` } } }`, map[string]any{"id": gid("qrn_", id)})
	got := a.at("node")
	for path, want := range map[string]any{
		"id": gid("qrn_", id), "reason": "missing_attribute:id", "topic": "lerian.streaming.lender", "partition": 3.0, "offset": "1152921504606846976",
		"bodyTruncated": true, "sizeBytes": float64(2 << 20), "readmitRequestedAt": nil, "readmittedAt": nil, "readmitResult": nil,
	} {
		if at(got, path) != want {
			t.Errorf("%s = %v, want %v", path, at(got, path), want)
		}
	}
	if at(got, "headers", 0, "name") != "ce-type" || at(got, "headers", 0, "value") != "a.b" ||
		at(got, "headers", 1, "name") != "x\uFFFD" || at(got, "headers", 1, "value") != nil || at(got, "headers", 1, "base64") != "/wA=" {
		t.Errorf("headers %v", at(got, "headers"))
	}
	if at(got, "body", "text") != `{"a":1}` || at(got, "body", "base64") != base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)) {
		t.Errorf("body %v", at(got, "body"))
	}
}

func TestQuarantinedRecords_filters(t *testing.T) {
	w := newWorld(t)
	token := w.token("", hub.Viewer)
	now := time.Now().UTC().Truncate(time.Millisecond)
	w.quarantine("", &quarantined{reason: "missing_attribute:id", offset: 1, at: now.Add(-3 * time.Second)})
	w.quarantine("", &quarantined{reason: "missing_attribute:idx", offset: 2, partition: 1, at: now.Add(-2 * time.Second)})
	done := w.quarantine("", &quarantined{reason: "type_mismatch", topic: "lerian.streaming.tracer", offset: 3, at: now.Add(-time.Second),
		headers: []db.RawHeader{header("CE_ID", "order-4711"), header("ce-subject", "nobody")}})
	w.exec(`UPDATE quarantined_records SET readmitted_at = now(), readmit_result = 'accepted' WHERE id = $1`, done.String())
	for filter, want := range map[string]string{
		`{}`:                               "[3 2 1]",
		`{reason: "missing_attribute"}`:    "[2 1]",
		`{reason: "missing_attribute:id"}`: "[1]",
		`{reason: "missing"}`:              "[]",
		`{topic: "lerian.streaming.lender", partition: 1}`: "[2]",
		`{offset: "2"}`:                    "[2]",
		`{minOffset: "2"}`:                 "[3 2]",
		`{minOffset: "1", maxOffset: "2"}`: "[2 1]",
		`{readmitted: true}`:               "[3]",
		`{readmitted: false}`:              "[2 1]",
		`{ceId: "4711"}`:                   "[3]",
		`{ceId: "nobody"}`:                 "[]",
		fmt.Sprintf(`{receivedAfter: %q}`, now.Add(-2*time.Second).Format(time.RFC3339Nano)):      "[3 2]",
		fmt.Sprintf(`{receivedBefore: %q}`, now.Add(-2*time.Second).Format(time.RFC3339Nano)):     "[1]",
		fmt.Sprintf(`{receivedAfter: %q, reason: "type_mismatch"}`, now.Format(time.RFC3339Nano)): "[]",
	} {
		t.Run(filter, func(t *testing.T) {
			a := w.must(token, `{ quarantinedRecords(filter: `+filter+`) { nodes { offset } pageInfo { hasNextPage } } }`, nil)
			offsets := []any{}
			for _, n := range a.at("quarantinedRecords", "nodes").([]any) {
				offsets = append(offsets, at(n, "offset"))
			}
			if fmt.Sprint(offsets) != want || a.at("quarantinedRecords", "pageInfo", "hasNextPage") != false {
				t.Errorf("got %v, want %s", a.Data, want)
			}
		})
	}
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		var seen []any
		var after any
		for range 5 {
			a := w.must(token, `query ($c: String) { quarantinedRecords(first: 2, after: $c) { nodes { offset } pageInfo { hasNextPage endCursor } } }`, map[string]any{"c": after})
			for _, n := range a.at("quarantinedRecords", "nodes").([]any) {
				seen = append(seen, at(n, "offset"))
			}
			if after = a.at("quarantinedRecords", "pageInfo", "endCursor"); a.at("quarantinedRecords", "pageInfo", "hasNextPage") != true {
				break
			}
		}
		if fmt.Sprint(seen) != "[3 2 1]" {
			t.Errorf("saw %v", seen)
		}
	})
}

const readmit = `mutation ($ids: [ID!]!) { readmitQuarantinedRecords(input: {ids: $ids}) { records { id readmitRequestedAt } userErrors { code message path } } }`

func TestReadmitQuarantinedRecords(t *testing.T) {
	w := newWorld(t)
	token := w.token("", hub.Operator)
	one, two, done := w.quarantine("", nil), w.quarantine("", nil), w.quarantine("", nil)
	w.exec(`UPDATE quarantined_records SET readmitted_at = now() WHERE id = $1`, done.String())
	ids := []string{gid("qrn_", one), gid("qrn_", newID()), gid("qrn_", two), gid("qrn_", one), gid("qrn_", done), "nonsense"}
	count := func(want int, sql string) {
		t.Helper()
		var got int
		if err := w.pool.QueryRow(t.Context(), sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d (%v)", sql, got, want, err)
		}
	}
	for range 2 { // the second call is a double click
		a := w.must(token, readmit, map[string]any{"ids": ids})
		p := a.at("readmitQuarantinedRecords")
		records, mistakes := at(p, "records").([]any), at(p, "userErrors").([]any)
		if len(records) != 3 || at(records, 0, "id") != ids[0] || at(records, 0, "readmitRequestedAt") == nil || at(records, 2, "readmitRequestedAt") != nil {
			t.Errorf("records %v", records)
		}
		if len(mistakes) != 2 || at(mistakes, 0, "code") != "NOT_FOUND" || fmt.Sprint(at(mistakes, 0, "path"), at(mistakes, 1, "path")) != "[input ids 1] [input ids 5]" {
			t.Errorf("mistakes %v", mistakes)
		}
		count(2, `SELECT count(*) FROM audit_log WHERE action = 'readmit_quarantined_record' AND actor_name = 'test' AND actor_id IS NOT NULL AND tenant_id IS NULL
			AND before->>'readmitRequestedAt' IS NULL AND after->>'readmitRequestedAt' IS NOT NULL AND object LIKE 'qrn_%'`)
	}
	count(2, `SELECT count(*) FROM quarantined_records WHERE readmit_requested_at IS NOT NULL`)
	t.Run("one_to_a_hundred", func(t *testing.T) {
		for _, n := range []int{0, 101} {
			a := w.must(token, readmit, map[string]any{"ids": make([]string, n)})
			if a.at("readmitQuarantinedRecords", "userErrors", 0, "code") != "INVALID" {
				t.Errorf("%d ids: %v", n, a.Data)
			}
		}
	})
	t.Run("a_viewer_may_not", func(t *testing.T) {
		if a := w.ask(w.token("", hub.Viewer), readmit, map[string]any{"ids": ids}); a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
}
