package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dev/stack"
)

// TestRedelivery lets a delivery die of a broken receiver, mends the receiver
// and asks for the delivery again: the same webhook comes under the next
// attempt number.
func TestRedelivery(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	st := startDev(ctx, t, dir, "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,50ms").state
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	script(ctx, t, st, "/hooks/all", `{"answers":[{"status":500}]}`)
	// The source tracer is wanted by one of the two sample subscriptions.
	out, err := exec.CommandContext(ctx, program(t, "hub"), "produce", "--brokers", st.KafkaBrokers, "--tenant", st.TenantID,
		"--source", "tracer", "--event", "loan.closed", "--id", "dies", "--data", `{"amount":"1.00"}`).CombinedOutput()
	if err != nil {
		t.Fatalf("produce: %v\n%s", err, out)
	}
	first := arrivals(ctx, t, st, "dies", 2)
	dead := onlyDelivery(ctx, t, st, "dies")
	if dead.State != "DEAD" || dead.AttemptCount != 2 {
		t.Fatalf("the delivery is %+v", dead)
	}
	if list := deadLetters(ctx, t, st); len(list) != 1 || list[0] != dead.ID {
		t.Errorf("dead letters are %v, want %s", list, dead.ID)
	}

	script(ctx, t, st, "/hooks/all", `{"answers":[{"status":200}]}`)
	var answer struct {
		Redeliver struct {
			Delivery   *struct{ State string }
			UserErrors []struct{ Message string }
		}
	}
	for range 2 { // the second call is one of a client that had no answer
		ask(ctx, t, st.GraphQLURL, st.TenantToken, `mutation($id: ID!) { redeliver(input: {id: $id, idempotencyKey: "once"}) {
			delivery { state } userErrors { message } } }`, map[string]any{"id": dead.ID}, &answer)
		if answer.Redeliver.Delivery == nil || len(answer.Redeliver.UserErrors) > 0 {
			t.Fatalf("redeliver says %+v", answer.Redeliver)
		}
	}
	got := arrivals(ctx, t, st, "dies", 3)
	again := got[2]
	if again.WebhookID != first[0].WebhookID || string(again.Body) != string(first[0].Body) || again.Status != 200 {
		t.Errorf("came again as %s, answered %d: %s; was %s: %s", again.WebhookID, again.Status, again.Body, first[0].WebhookID, first[0].Body)
	}
	checkSignature(t, filepath.Join(dir, "receiver-secrets.json"), again)
	var alive delivery
	eventually(ctx, t, func() bool {
		alive = onlyDelivery(ctx, t, st, "dies")
		return alive.State == "DELIVERED"
	}, func() string { return fmt.Sprintf("the delivery is %+v", alive) })
	if alive.ID != dead.ID || alive.AttemptCount != 3 || len(alive.Attempts) != 3 || alive.Attempts[2].Number != 3 || alive.Attempts[2].Status != 200 {
		t.Errorf("after the redelivery: %+v", alive)
	}
	if list := deadLetters(ctx, t, st); len(list) != 0 {
		t.Errorf("dead letters are %v still", list)
	}
	if n := len(arrivalsOf(ctx, t, st, "dies")); n != 3 {
		t.Errorf("%d requests arrived, want 3", n)
	}
}

func deadLetters(ctx context.Context, t *testing.T, st stack.State) (ids []string) {
	t.Helper()
	var page struct {
		DeadLetters struct{ Nodes []struct{ ID string } }
	}
	ask(ctx, t, st.GraphQLURL, st.TenantToken, `{ deadLetters(filter: {eventType: "loan.*", reason: EXHAUSTED}) { nodes { id } } }`, nil, &page)
	for _, n := range page.DeadLetters.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}
