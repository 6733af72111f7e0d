package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/dev/stack"
)

// steadySteps retry three times a second for a while, whatever the draw of the
// jitter: long waits would make tests slow, and there are 12 steps at most.
const steadySteps = "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms"

// desk is an operator's place at a running hub: the API with a token for all
// tenants, a Kafka client, and the scripted receiver.
type desk struct {
	st    stack.State
	token string
	kafka *kgo.Client
}

func newDesk(t *testing.T, st stack.State) *desk {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(st.KafkaBrokers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &desk{st: st, token: st.PlatformToken, kafka: client}
}

// ask sends a query or mutation; GraphQL errors end the test.
func (d *desk) ask(ctx context.Context, t *testing.T, query string, variables map[string]any, into any) {
	t.Helper()
	ask(ctx, t, d.st.GraphQLURL, d.token, query, variables, into)
}

// do runs a mutation with one input and decodes its payload; user errors end
// the test.
func (d *desk) do(ctx context.Context, t *testing.T, mutation, selection string, input map[string]any, into any) {
	t.Helper()
	errs := d.try(ctx, t, mutation, selection, input, into)
	if len(errs) > 0 {
		t.Fatalf("%s is refused: %v", mutation, errs)
	}
}

// try is do for a mutation that may be refused.
func (d *desk) try(ctx context.Context, t *testing.T, mutation, selection string, input map[string]any, into any) (userErrors []string) {
	t.Helper()
	upper := string(mutation[0]-'a'+'A') + mutation[1:]
	var answer map[string]json.RawMessage
	d.ask(ctx, t, fmt.Sprintf(`mutation($input: %sInput!) { %s(input: $input) { %s userErrors { code message } } }`, upper, mutation, selection),
		map[string]any{"input": input}, &answer)
	var errs struct {
		UserErrors []struct{ Code, Message string }
	}
	if err := json.Unmarshal(answer[mutation], &errs); err != nil {
		t.Fatal(err)
	}
	for _, e := range errs.UserErrors {
		userErrors = append(userErrors, e.Code+": "+e.Message)
	}
	if into != nil && len(userErrors) == 0 {
		if err := json.Unmarshal(answer[mutation], into); err != nil {
			t.Fatal(err)
		}
	}
	return userErrors
}

// sub is an event subscription as the tests read it.
type sub struct {
	ID                string
	TenantID          string
	Version           int
	Enabled           bool
	DisabledBy        string
	DisabledReason    string
	VerificationState string
	VerificationError string
	Destination       struct{ ID, URL string }
}

const subFields = `id tenantId version enabled disabledBy disabledReason verificationState verificationError destination { id url }`

// subscribe makes an event subscription to everything of a tenant that goes to
// a path of the receiver, and verifies it. More joins or replaces what the
// mutation is given.
func (d *desk) subscribe(ctx context.Context, t *testing.T, tenant, path string, more map[string]any) sub {
	t.Helper()
	input := map[string]any{
		"tenantId": tenant, "name": tenant + path, "eventTypes": []string{"*"}, "timeout": "PT5S",
		"destination": map[string]any{"url": d.st.ReceiverURL + path},
	}
	for k, v := range more {
		input[k] = v
	}
	var made struct {
		EventSubscription sub
		SigningSecret     string
	}
	d.do(ctx, t, "createEventSubscription", "eventSubscription { "+subFields+" } signingSecret", input, &made)
	if made.SigningSecret != "" {
		d.knows(ctx, t, path, made.SigningSecret)
	}
	return d.verify(ctx, t, made.EventSubscription.ID)
}

// knows gives the receiver a signing secret.
func (d *desk) knows(ctx context.Context, t *testing.T, path, secret string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"path": path, "secret": secret})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, d.st.ReceiverURL+"/secrets", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Fatalf("the receiver refuses a secret: %s", res.Status)
	}
}

// verify asks for the verification and wants it to succeed.
func (d *desk) verify(ctx context.Context, t *testing.T, id string) sub {
	t.Helper()
	var done struct{ EventSubscription sub }
	d.do(ctx, t, "verifyEventSubscription", "eventSubscription { "+subFields+" }", map[string]any{"id": id}, &done)
	if s := done.EventSubscription; s.VerificationState != "ACTIVE" {
		t.Fatalf("%s is %s after its verification: %s", s.ID, s.VerificationState, s.VerificationError)
	}
	return done.EventSubscription
}

func (d *desk) sub(ctx context.Context, t *testing.T, id string) sub {
	t.Helper()
	var one struct{ EventSubscription sub }
	d.ask(ctx, t, `query($id: ID!) { eventSubscription(id: $id) { `+subFields+` } }`, map[string]any{"id": id}, &one)
	return one.EventSubscription
}

// publish makes one fact for each id, as an application does.
func (d *desk) publish(ctx context.Context, t *testing.T, tenant string, ids ...string) {
	t.Helper()
	if err := d.produce(ctx, tenant, ids...); err != nil {
		t.Fatal(err)
	}
}

// produce is publish for a goroutine, which may not end the test.
func (d *desk) produce(ctx context.Context, tenant string, ids ...string) error {
	var records []*kgo.Record
	for _, id := range ids {
		records = append(records, sample.Fact{
			ID: id, Source: "tracer", ResourceType: "loan", EventType: "closed", SchemaVersion: "1", TenantID: tenant,
			Time: time.Now(), Body: []byte(`{"id":"` + id + `"}`),
		}.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"}))
	}
	return d.kafka.ProduceSync(ctx, records...).FirstErr()
}

// numbered are n ids.
func numbered(name string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, name+"-"+strconv.Itoa(i))
	}
	return ids
}

// stands is where a delivery stands.
type stands struct {
	ID            string
	State         string
	AttemptCount  int
	DeadReason    string
	NextAttemptAt *time.Time
	Explanation   string
	Destination   *struct{ ID, URL string }
	Event         *struct{ CeID string }
	Attempts      []struct{ Number, Status int }
}

// deliveries are those of an event subscription, up to 100.
func (d *desk) deliveries(ctx context.Context, t *testing.T, subscription string) []stands {
	t.Helper()
	var page struct{ Deliveries struct{ Nodes []stands } }
	d.ask(ctx, t, `query($f: DeliveryFilter) { deliveries(first: 100, filter: $f) { nodes {
		id state attemptCount deadReason nextAttemptAt explanation destination { id url } event { ceId } attempts { number status } } } }`,
		map[string]any{"f": map[string]any{"eventSubscriptionId": subscription}}, &page)
	return page.Deliveries.Nodes
}

// all waits until an event subscription has n deliveries and each is as wanted.
func (d *desk) all(ctx context.Context, t *testing.T, subscription string, n int, wanted string, is func(stands) bool) (list []stands) {
	t.Helper()
	eventually(ctx, t, func() bool {
		list = d.deliveries(ctx, t, subscription)
		if len(list) != n {
			return false
		}
		for _, one := range list {
			if !is(one) {
				return false
			}
		}
		return true
	}, func() string {
		text := fmt.Sprintf("not all %d deliveries of %s are %s:", n, subscription, wanted)
		for _, one := range list {
			text += fmt.Sprintf("\n%s: %s after %d attempts, %s", one.ID, one.State, one.AttemptCount, one.Explanation)
		}
		return text
	})
	return list
}

// in is the wish for a state, for all.
func in(state string) func(stands) bool {
	return func(d stands) bool { return d.State == state }
}

// came are the requests of one path that carried an event, probes left out.
func (d *desk) came(ctx context.Context, t *testing.T, path string) (list []received) {
	t.Helper()
	for _, r := range requests(ctx, t, d.st) {
		if r.Path == path && r.Headers.Get("X-Lerian-Event-Type") != "hub.verification" {
			list = append(list, r)
		}
	}
	return list
}

// numbersAreReal checks that each delivery had as many requests as attempts were
// recorded, numbered without a gap, and one answer of 2xx, the last one.
func (d *desk) numbersAreReal(ctx context.Context, t *testing.T, path string, list []stands) {
	t.Helper()
	came := map[string][]received{}
	for _, r := range d.came(ctx, t, path) {
		came[r.Headers.Get("Ce-Id")] = append(came[r.Headers.Get("Ce-Id")], r)
	}
	for _, one := range list {
		got := came[one.Event.CeID]
		if len(got) != one.AttemptCount || len(one.Attempts) != one.AttemptCount {
			t.Errorf("%s had %d requests; the hub counts %d attempts and shows %d", one.Event.CeID, len(got), one.AttemptCount, len(one.Attempts))
			continue
		}
		for i, r := range got {
			if n := r.Headers.Get("X-Lerian-Attempt"); n != strconv.Itoa(i+1) || one.Attempts[i].Number != i+1 || one.Attempts[i].Status != r.Status {
				t.Errorf("%s: request %d is attempt %s, answered %d; the hub says %+v", one.Event.CeID, i+1, n, r.Status, one.Attempts[i])
			}
			if good := r.Status/100 == 2; good != (i == len(got)-1) || good && !r.Verified {
				t.Errorf("%s: request %d of %d was answered %d, verified: %v", one.Event.CeID, i+1, len(got), r.Status, r.Verified)
			}
		}
	}
}

// quiet looks for as long as asked whether something stays so.
func quiet(ctx context.Context, t *testing.T, span time.Duration, so func() bool, say func() string) {
	t.Helper()
	over, tick := time.NewTimer(span), time.NewTicker(100*time.Millisecond)
	defer over.Stop()
	defer tick.Stop()
	for {
		if !so() {
			t.Fatal(say())
		}
		select {
		case <-tick.C:
		case <-over.C:
			return
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}
