package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/dev/stack"
)

// oddBody is not text, not UTF-8, and JSON neither: it must arrive as it is.
var oddBody = []byte("{\"b\":2, \"a\":1.0,\"n\":12345678901234567890,\"a\":1}\x00\xff\xfe \\u0000 \xc3\xa9<&>")

// TestFirstFlow follows one event through the real programs, produced by a
// Kafka client that is neither ours nor written in Go.
func TestFirstFlow(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not on this machine: a foreign Kafka client is needed to show that the hub takes its records (apt-get install kcat)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	hub := startDev(ctx, t, dir, "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,100ms,100ms,100ms")
	st := hub.state
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()

	t.Run("one_event_is_delivered_once_signed_and_seen_live", func(t *testing.T) {
		socket, events := watchSocket(ctx, t, st), watchEvents(ctx, t, st)
		// The source tracer is wanted by one of the two sample subscriptions.
		kcatProduce(ctx, t, kcat, st, "tracer", "flow-1", oddBody)
		got := arrivals(ctx, t, st, "flow-1", 1)

		if !bytes.Equal(got[0].Body, oddBody) {
			t.Errorf("body arrived as %q, was produced as %q", got[0].Body, oddBody)
		}
		checkSignature(t, filepath.Join(dir, "receiver-secrets.json"), got[0])
		d := onlyDelivery(ctx, t, st, "flow-1")
		if d.State != "DELIVERED" || d.AttemptCount != 1 || len(d.Attempts) != 1 || d.Attempts[0].Status != 200 {
			t.Errorf("GraphQL says %+v", d)
		}
		if base64.StdEncoding.EncodeToString(oddBody) != d.Event.Body.Base64 {
			t.Errorf("GraphQL shows the body as %s", d.Event.Body.Base64)
		}
		for name, items := range map[string]<-chan outcome{"WebSocket": socket, "SSE": events} {
			o := next(ctx, t, items, name)
			if o.DeliveryID != d.ID || o.State != "DELIVERED" || o.AttemptNumber != 1 || o.Status != 200 {
				t.Errorf("%s showed %+v, the delivery is %s", name, o, d.ID)
			}
		}
		if again := len(arrivalsOf(ctx, t, st, "flow-1")); again != 1 {
			t.Errorf("%d requests arrived", again)
		}
	})

	t.Run("a_receiver_that_fails_twice_gets_three_attempts_and_one_delivery", func(t *testing.T) {
		script(ctx, t, st, "/hooks/all", `{"answers":[{"status":500,"times":2},{"status":200}]}`)
		socket := watchSocket(ctx, t, st)
		kcatProduce(ctx, t, kcat, st, "tracer", "flow-2", oddBody)
		got := arrivals(ctx, t, st, "flow-2", 3)
		for i, want := range []int{500, 500, 200} {
			if got[i].Status != want || !bytes.Equal(got[i].Body, oddBody) || got[i].WebhookID != got[0].WebhookID {
				t.Errorf("request %d: answered %d, webhook-id %s, body %q", i+1, got[i].Status, got[i].WebhookID, got[i].Body)
			}
			if n := got[i].Headers.Get("X-Lerian-Attempt"); n != fmt.Sprint(i+1) {
				t.Errorf("request %d is attempt %s", i+1, n)
			}
			checkSignature(t, filepath.Join(dir, "receiver-secrets.json"), got[i])
		}
		for i, want := range []string{"WAITING", "WAITING", "DELIVERED"} {
			if o := next(ctx, t, socket, "WebSocket"); o.State != want || o.AttemptNumber != i+1 {
				t.Errorf("live item %d: %+v", i+1, o)
			}
		}
		d := onlyDelivery(ctx, t, st, "flow-2")
		if d.State != "DELIVERED" || d.AttemptCount != 3 || len(d.Attempts) != 3 {
			t.Errorf("GraphQL says %+v", d)
		}
		if n := len(arrivalsOf(ctx, t, st, "flow-2")); n != 3 {
			t.Errorf("%d requests arrived", n)
		}
	})

	t.Run("a_broken_record_is_quarantined_and_its_neighbours_arrive", func(t *testing.T) {
		kcatProduce(ctx, t, kcat, st, "tracer", "flow-3", oddBody)
		run(ctx, t, "broken", kcat, "-P", "-b", st.KafkaBrokers, "-t", "lerian.streaming.tracer", "-p", "0", "-H", "ce-specversion=1.0")
		kcatProduce(ctx, t, kcat, st, "tracer", "flow-4", oddBody)
		arrivals(ctx, t, st, "flow-3", 1)
		arrivals(ctx, t, st, "flow-4", 1)
	})
}

func run(ctx context.Context, t *testing.T, stdin string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// kcatProduce publishes one record whose value is exactly body.
func kcatProduce(ctx context.Context, t *testing.T, kcat string, st stack.State, source, id string, body []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-P", "-b", st.KafkaBrokers, "-t", "lerian.streaming." + source, "-p", "0"}
	for _, h := range []string{
		"ce_specversion=1.0", "ce_id=" + id, "ce_source=" + source, "ce_type=studio.lerian." + source + ".transaction.flagged",
		"ce_time=2026-11-29T10:00:00.5Z", "ce_schemaversion=v1", "ce_resourcetype=transaction", "ce_eventtype=flagged",
		"ce_tenantid=" + st.TenantID, "content-type=application/octet-stream",
	} {
		args = append(args, "-H", h)
	}
	run(ctx, t, "", kcat, append(args, file)...)
}

func arrivalsOf(ctx context.Context, t *testing.T, st stack.State, ceID string) (list []received) {
	t.Helper()
	for _, r := range requests(ctx, t, st) {
		if r.Headers.Get("Ce-Id") == ceID {
			list = append(list, r)
		}
	}
	return list
}

// arrivals waits for n requests of one event, in the order of their attempts.
func arrivals(ctx context.Context, t *testing.T, st stack.State, ceID string, n int) (list []received) {
	t.Helper()
	eventually(ctx, t, func() bool {
		list = arrivalsOf(ctx, t, st, ceID)
		return len(list) >= n
	}, func() string { return fmt.Sprintf("of event %s %d requests came, want %d", ceID, len(list), n) })
	ordered := make([]received, len(list))
	for _, r := range list {
		var attempt int
		if _, err := fmt.Sscan(r.Headers.Get("X-Lerian-Attempt"), &attempt); err != nil || attempt < 1 || attempt > len(list) {
			t.Fatalf("request with X-Lerian-Attempt %q", r.Headers.Get("X-Lerian-Attempt"))
		}
		ordered[attempt-1] = r
	}
	return ordered
}

// checkSignature verifies a request by the Standard Webhooks library itself.
func checkSignature(t *testing.T, secretsFile string, r received) {
	t.Helper()
	text, err := os.ReadFile(secretsFile)
	if err != nil {
		t.Fatal(err)
	}
	var secrets map[string]string
	if err := json.Unmarshal(text, &secrets); err != nil {
		t.Fatalf("%s: %v", secretsFile, err)
	}
	verifier, err := standardwebhooks.NewWebhook(secrets[r.Path])
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(r.Body, r.Headers); err != nil {
		t.Errorf("the Standard Webhooks library refuses the request: %v", err)
	}
	tampered := append([]byte(nil), r.Body...)
	tampered[0] ^= 1
	if verifier.Verify(tampered, r.Headers) == nil {
		t.Error("the library accepts another body too: it checks nothing")
	}
	if !r.Verified {
		t.Error("the receiver did not verify both signatures")
	}
}

type delivery struct {
	ID           string
	State        string
	AttemptCount int
	Attempts     []struct {
		Number, Status int
	}
	Event struct {
		CeID string
		Body struct{ Base64 string }
	}
}

// onlyDelivery waits until the API knows the single delivery of an event as
// settled.
func onlyDelivery(ctx context.Context, t *testing.T, st stack.State, ceID string) (only delivery) {
	t.Helper()
	var found []delivery
	eventually(ctx, t, func() bool {
		var page struct {
			Deliveries struct{ Nodes []delivery }
		}
		ask(ctx, t, st.GraphQLURL, st.TenantToken, `{ deliveries(first: 50) { nodes {
			id state attemptCount attempts { number status } event { ceId body { base64 } } } } }`, nil, &page)
		found = nil
		for _, d := range page.Deliveries.Nodes {
			if d.Event.CeID == ceID {
				found = append(found, d)
			}
		}
		return len(found) == 1 && found[0].State != "IN_FLIGHT" && found[0].State != "WAITING"
	}, func() string { return fmt.Sprintf("deliveries of %s: %+v", ceID, found) })
	// The single object says the same as the list.
	var single struct{ Delivery delivery }
	ask(ctx, t, st.GraphQLURL, st.TenantToken, `query($id: ID!) { delivery(id: $id) {
		id state attemptCount attempts { number status } event { ceId body { base64 } } } }`,
		map[string]any{"id": found[0].ID}, &single)
	if single.Delivery.State != found[0].State || single.Delivery.AttemptCount != found[0].AttemptCount {
		t.Errorf("the list says %+v, the object %+v", found[0], single.Delivery)
	}
	return single.Delivery
}

func script(ctx context.Context, t *testing.T, st stack.State, path, answers string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, st.ReceiverURL+"/script"+path, strings.NewReader(answers))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("the receiver refuses the script: %s", res.Status)
	}
}
