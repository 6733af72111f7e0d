package graph_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Every query and mutation of the schema, with every id that it takes, asked by
// everybody. A field that is new is in it by itself.
func TestAccessMatrix(t *testing.T) {
	w, m := newWorld(t), newMaker(t)
	foreign, _ := w.everything("acme", marker)
	own, _ := w.everything("stranger", "harmless")
	bad, tenants, platform := w.askers("stranger")
	fields := m.roots(m.schema.Query, m.schema.Mutation)
	before := w.rowsOf("acme")
	leaks := func(answer string) (list []string) {
		for _, one := range append(slices.Collect(maps.Values(foreign)), marker) {
			if one != "acme" && strings.Contains(answer, one) {
				list = append(list, one)
			}
		}
		return list
	}
	tried := 0
	for _, f := range fields {
		for _, a := range m.attempts(f, foreign, own) {
			t.Run(f.root+"."+f.Name+"/"+a.spot, func(t *testing.T) {
				w.t, m.t = t, t
				for _, who := range bad {
					for sort, id := range a.ids {
						tried++
						if status, got := w.raw(who.token, m.request(a, sort), id); status != http.StatusUnauthorized || !strings.Contains(got, `"UNAUTHENTICATED"`) || strings.Contains(got, `"data"`) {
							t.Errorf("%s, %s: %d %s", who.name, sort, status, got)
						}
					}
				}
				for _, who := range tenants {
					answers := map[string]string{}
					for sort, id := range a.ids {
						tried++
						_, answers[sort] = w.raw(who.token, m.request(a, sort), id)
					}
					w.judge(who, a, answers)
					for sort, got := range answers {
						if found := leaks(got); len(found) > 0 {
							t.Errorf("%s, %s: the answer has %v: %s", who.name, sort, found, got)
						}
						if want := answers["foreign"]; sort == "missing" && want != got || sort == "malformed" && inWords.ReplaceAllString(want, "") != inWords.ReplaceAllString(got, "") {
							t.Errorf("%s: foreign %s\n%s %s", who.name, want, sort, got)
						}
					}
				}
			})
		}
	}
	w.t, m.t = t, t
	if after := w.rowsOf("acme"); after != before {
		t.Errorf("rows of acme changed:\nbefore\n%s\nafter\n%s", before, after)
	}
	for _, f := range fields {
		for _, a := range m.attempts(f, foreign, own) {
			t.Run("platform/"+f.root+"."+f.Name+"/"+a.spot, func(t *testing.T) {
				w.t, m.t = t, t
				for _, who := range platform {
					answers := map[string]string{}
					for sort, id := range a.ids {
						if sort != "foreign" || f.root == "Query" { // which is nothing foreign to them
							tried++
							_, answers[sort] = w.raw(who.token, m.request(a, sort), id)
						}
					}
					w.judge(who, a, answers)
				}
			})
		}
	}
	w.t = t
	t.Logf("%d fields, %d requests", len(fields), tried)
	t.Run("the_owner_sees_them", func(t *testing.T) {
		m.t = t
		admin := w.token("acme", hub.Admin)
		platform := w.token("", hub.Admin)
		for kind, name := range m.kinds() {
			m.node = name
			token := admin
			if kind == "qrn_" {
				token = platform
			}
			a := w.must(token, `query ($id: ID!) { node(id: $id) { id __typename } }`, map[string]any{"id": foreign[kind]})
			if a.at("node", "id") != foreign[kind] || a.at("node", "__typename") != name {
				t.Errorf("%s: %v", kind, a.Data)
			}
		}
	})
}

// inWords is what an answer says for people, where a malformed id may be told
// otherwise than a missing one.
var inWords = regexp.MustCompile(`"message":"[^"]*"`)

// unsteady is what differs from stream to stream: pings and the request's
// number.
var unsteady = regexp.MustCompile(`(?m)^:.*$|"requestId":"[^"]*"|\n+`)

// Every live feed, with every id that it takes.
func TestAccessMatrix_subscriptions(t *testing.T) {
	w, m := newWorld(t), newMaker(t)
	foreign, theirs := w.everything("acme", marker)
	own, _ := w.everything("stranger", "harmless")
	bad, tenants, platform := w.askers("stranger")
	cursor := w.must(tenants[0].token, `{ deliveries { liveCursor } }`, nil).at("deliveries", "liveCursor")
	stream := func(token, body string) (*http.Response, error) {
		return w.request(token, body, "Accept", "text/event-stream")
	}

	type open struct {
		who     string
		attempt attempt
		sort    string
		got     chan string
	}
	var all []open
	for _, f := range m.roots(m.schema.Subscription) {
		for _, a := range m.attempts(f, foreign, own) {
			for sort, id := range a.ids {
				m.node = a.node
				vars := a.vars(id)
				if f.Arguments.ForName("after") != nil {
					vars["after"] = cursor
				}
				body := m.body(f, vars)
				for _, who := range bad {
					if status, got := w.raw(who.token, body, id); status != http.StatusUnauthorized {
						t.Errorf("%s of %s: %d %s", f.Name, who.name, status, got)
					}
				}
				for _, who := range tenants {
					res, err := stream(who.token, body)
					if err != nil {
						t.Fatal(err)
					}
					one := open{who.name, a, sort, make(chan string, 1)}
					go func() {
						defer res.Body.Close()
						b, _ := io.ReadAll(res.Body) // until the hub closes it
						one.got <- string(bytes.ReplaceAll(b, []byte(id), []byte("«id»")))
					}()
					all = append(all, one)
				}
			}
		}
	}
	// What happens to acme reaches the platform, and nobody of stranger.
	watch, err := stream(platform[0].token, `{"query": "subscription { deliveryOutcomes { ... on DeliveryOutcome { deliveryId tenantId } } }"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		buf, text := make([]byte, 4096), ""
		for !strings.Contains(text, `"acme"`) {
			n, err := watch.Body.Read(buf)
			if text += string(buf[:n]); err != nil {
				return
			}
		}
	}()
	// The follower may join later than its stream opens: it is told again.
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for waiting := true; waiting; {
		d := w.deliver("acme", theirs.Subscription.ID, theirs.Destination.ID)
		w.record(d.outcome(500, hub.Dead))
		select {
		case <-seen:
			waiting = false
		case <-again.C:
		}
	}
	closing, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	w.api.Close(closing)
	answers := map[string]string{}
	for _, one := range all {
		got := <-one.got
		if strings.Contains(got, marker) || strings.Contains(got, `"acme"`) {
			t.Errorf("%s of %s, %s %s: %s", one.attempt.field.Name, one.who, one.attempt.spot, one.sort, got)
		}
		key := fmt.Sprint(one.attempt.field.Name, one.who, one.attempt.spot)
		first, known := answers[key]
		got = unsteady.ReplaceAllString(got, "")
		if !known {
			answers[key] = got
		} else if first != got {
			t.Errorf("%s: %s\n%s", key, first, got)
		}
	}
	if len(all) == 0 {
		t.Error("no live feed was tried")
	}
}
