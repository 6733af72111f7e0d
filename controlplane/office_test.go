package controlplane_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// office is the use cases of subscriptions over a database of their own, with a
// clock that stands and a prober that answers as told.
type office struct {
	*testing.T
	*controlplane.Subscriptions
	raw    *pgxpool.Pool
	keys   *secret.Keyring
	clock  time.Time
	probes []controlplane.Probe
	// answer is what the prober sees; nil repeats the challenge with 200.
	answer func(controlplane.Probe) hub.Attempt
}

var acme = controlplane.Actor{Name: "me", Role: hub.Admin, Tenant: "acme"}

// Key-encryption keys of tests.
const (
	oldKey = "old:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	newKey = "new:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
)

func keyring(t *testing.T, text string) *secret.Keyring {
	t.Helper()
	k, err := secret.ParseKeyring(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newOffice(t *testing.T) *office {
	t.Helper()
	t.Parallel()
	dsn := dbtest.New(t)
	d, err := db.Open(t.Context(), db.Config{DSN: dsn, MaxConns: 6, Hot: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	o := &office{T: t, keys: keyring(t, oldKey), clock: time.Now().Truncate(time.Microsecond)}
	if o.raw, err = pgxpool.New(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.raw.Close)
	o.Subscriptions = &controlplane.Subscriptions{
		DB: d, Keys: o.keys, Addresses: address.Policy{AllowLoopback: true, AllowHTTP: true}, Prober: o,
		Now: func() time.Time { return o.clock }, Random: rand.Reader,
	}
	return o
}

func (o *office) Probe(_ context.Context, p controlplane.Probe) hub.Attempt {
	o.probes = append(o.probes, p)
	if o.answer != nil {
		return o.answer(p)
	}
	return hub.Attempt{ID: p.AttemptID, Number: 1, Answer: hub.Answer{Status: 200, Snippet: string(p.Event.Body)}}
}

// wish is a valid webhook subscription to a URL.
func wish(url string) controlplane.NewSubscription {
	return controlplane.NewSubscription{
		Name: "Mine", EventTypes: []string{"loan.*"}, Kind: hub.SinkWebhook, URL: url, Timeout: hub.DefaultTimeout,
		RetryPolicy: hub.RetryPolicy{Kind: hub.RetryCurve},
	}
}

// create makes a subscription that has to be fine.
func (o *office) create(n controlplane.NewSubscription) controlplane.Created {
	o.Helper()
	made, mistakes, err := o.Create(o.Context(), acme, n)
	if err != nil || len(mistakes) > 0 {
		o.Fatalf("Create: %v %v", mistakes, err)
	}
	return made
}

// active makes a subscription and verifies it.
func (o *office) active(url string) hub.EventSubscription {
	o.Helper()
	return o.verified(o.create(wish(url)).Subscription.ID)
}

func (o *office) verified(id hub.SubscriptionID) hub.EventSubscription {
	o.Helper()
	v, mistakes, err := o.Verify(o.Context(), acme, id)
	if err != nil || len(mistakes) > 0 || v.Subscription.VerificationState != hub.VerificationActive {
		o.Fatalf("Verify: %+v %v %v", v.Subscription, mistakes, err)
	}
	return v.Subscription
}

// update makes an update that has to be fine.
func (o *office) update(u controlplane.SubscriptionUpdate) controlplane.Updated {
	o.Helper()
	done, mistakes, err := o.Update(o.Context(), acme, u)
	if err != nil || len(mistakes) > 0 {
		o.Fatalf("Update: %v %v", mistakes, err)
	}
	return done
}

func (o *office) read(id hub.SubscriptionID) hub.EventSubscription {
	o.Helper()
	list, err := o.ByID(o.Context(), acme, []hub.SubscriptionID{id})
	if err != nil || len(list) != 1 {
		o.Fatalf("read %s: %v %v", id, list, err)
	}
	return list[0]
}

func (o *office) destination(id hub.DestinationID) *db.DestinationState {
	o.Helper()
	d, err := o.DB.DestinationByID(o.Context(), id)
	if err != nil || d == nil {
		o.Fatalf("read destination %s: %v", id, err)
	}
	return d
}

// signing opens the signing secrets of a destination, the newest first.
func (o *office) signing(id hub.DestinationID) (texts []string, keys []secret.Secret) {
	o.Helper()
	for _, k := range o.destination(id).Keys {
		plain, err := o.keys.Open(k.Sealed, k.Binding)
		if err != nil {
			o.Fatal(err)
		}
		texts, keys = append(texts, secret.SigningText(plain)), append(keys, plain)
	}
	return texts, keys
}

func (o *office) exec(sql string, args ...any) {
	o.Helper()
	if _, err := o.raw.Exec(o.Context(), sql, args...); err != nil {
		o.Fatalf("%s: %v", sql, err)
	}
}

func (o *office) count(sql string, args ...any) (n int) {
	o.Helper()
	if err := o.raw.QueryRow(o.Context(), sql, args...).Scan(&n); err != nil {
		o.Fatalf("%s: %v", sql, err)
	}
	return n
}

// chores are the lanes that the data plane was asked to walk since the last
// call, as subscription and destination.
func (o *office) chores() []string {
	o.Helper()
	rows, err := o.raw.Query(o.Context(), `DELETE FROM lane_chores RETURNING tenant_id || ' ' || subscription_id || ' ' || destination_id`)
	if err != nil {
		o.Fatal(err)
	}
	defer rows.Close()
	list := []string{}
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			o.Fatal(err)
		}
		list = append(list, one)
	}
	slices.Sort(list)
	return list
}

func lane(s hub.SubscriptionID, d hub.DestinationID) string { return fmt.Sprintf("acme %s %s", s, d) }

func (o *office) wantChores(what string, want ...string) {
	o.Helper()
	slices.Sort(want)
	if got := o.chores(); !slices.Equal(got, want) {
		o.Errorf("%s: chores %v, want %v", what, got, want)
	}
}

// audited are the entries of an action, as "before → after" in JSON.
func (o *office) audited(action string) []string {
	o.Helper()
	rows, err := o.raw.Query(o.Context(), `SELECT coalesce(before::text, '-'), coalesce(after::text, '-') FROM audit_log WHERE action = $1 ORDER BY id`, action)
	if err != nil {
		o.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var before, after string
		if err := rows.Scan(&before, &after); err != nil {
			o.Fatal(err)
		}
		list = append(list, compact(o, before)+" → "+compact(o, after))
	}
	return list
}

func compact(o *office, text string) string {
	if text == "-" {
		return text
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		o.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		o.Fatal(err)
	}
	return string(raw)
}

func (o *office) configVersion() int {
	o.Helper()
	return o.count(`SELECT config_version FROM tenant_counters WHERE tenant_id = 'acme'`)
}

// told are mistakes as codes and paths: "INVALID name".
func told(mistakes []controlplane.UserError) string {
	list := make([]string, len(mistakes))
	for i, m := range mistakes {
		list[i] = string(m.Code) + " " + strings.Join(m.Path[1:], ".")
	}
	return strings.Join(list, ", ")
}

// span gives a subscription failures in a row.
func (o *office) span(s *hub.EventSubscription) {
	o.Helper()
	o.exec(`INSERT INTO failure_spans (subscription_id, tenant_id, destination_id, first_failure_at, last_failure_at, failure_count, changed_at)
		VALUES ($1, 'acme', $2, now(), now(), 3, now())`, s.ID.String(), s.Destination.String())
}

func (o *office) wantSpans(what string, want int) {
	o.Helper()
	if n := o.count(`SELECT count(*) FROM failure_spans`); n != want {
		o.Errorf("%s: %d failure spans, want %d", what, n, want)
	}
}

// disabled switches a subscription off as the hub or a person would.
func (o *office) disabled(id hub.SubscriptionID, by hub.DisabledBy) {
	o.Helper()
	o.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = $2, disabled_reason = 'x', disabled_at = now() WHERE id = $1`, id.String(), string(by))
}

func id() hub.ID { return hubtest.NewID() }
