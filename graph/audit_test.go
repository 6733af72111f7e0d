package graph_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestAudit_of_creating_and_verifying_a_subscription(t *testing.T) {
	w := newWorld(t)
	receiver := httptest.NewServer(nil) // answers 404
	defer receiver.Close()
	token := w.token("", hub.Operator)
	in := input(receiver.URL)
	in["tenantId"] = "acme"
	a := w.must(token, createMutation, map[string]any{"input": in})
	id := a.at("createEventSubscription", "eventSubscription", "id").(string)
	secret := a.at("createEventSubscription", "signingSecret").(string)
	w.must(token, verifyMutation, map[string]any{"id": id})
	w.must(token, createMutation, map[string]any{"input": input("https://localhost/")}) // refused: nothing to tell

	rows, err := w.pool.Query(t.Context(), `SELECT action, tenant_id, actor_name, actor_id IS NOT NULL, object, coalesce(before::text, ''), after::text FROM audit_log ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for rows.Next() {
		var action, tenant, actor, object, before, after string
		var known bool
		if err := rows.Scan(&action, &tenant, &actor, &known, &object, &before, &after); err != nil {
			t.Fatal(err)
		}
		actions = append(actions, action)
		if tenant != "acme" || actor != "test" || !known || object != id {
			t.Errorf("%s: tenant %s, actor %s, object %s", action, tenant, actor, object)
		}
		if strings.Contains(before+after, secret) {
			t.Errorf("%s tells the secret", action)
		}
		var was, is map[string]any
		if err := json.Unmarshal([]byte(after), &is); err != nil {
			t.Fatal(err)
		}
		switch action {
		case "create_event_subscription":
			if before != "" || is["name"] != "Mine" || is["url"] != receiver.URL+"/" {
				t.Errorf("%s: %s → %s", action, before, after)
			}
		case "verify_event_subscription":
			if err := json.Unmarshal([]byte(before), &was); err != nil {
				t.Fatal(err)
			}
			if was["verificationState"] != "PENDING" || is["verificationState"] != "FAILED" || !strings.Contains(is["verificationError"].(string), "HTTP 404") {
				t.Errorf("%s: %s → %s", action, before, after)
			}
		}
	}
	if got := strings.Join(actions, " "); got != "create_event_subscription verify_event_subscription" || rows.Err() != nil {
		t.Errorf("entries %q, %v", got, rows.Err())
	}
}
