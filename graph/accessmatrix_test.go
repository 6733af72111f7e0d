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

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph"
	"github.com/streaming-hub/streaming-hub/hub"
)

// marker is in every text of acme's objects, and may be in no answer to
// others.
const marker = "leakmark"

// objects are the ids of a tenant's objects by kind.
type objects map[string]string

// everything makes one object of each kind for a tenant.
func (w *world) everything(tenant, text string) (objects, delivery) {
	w.t.Helper()
	sub, dest := w.subscriptionOf(tenant)
	d := w.deliver(tenant, sub, dest)
	w.record(d.outcome(500, hub.Dead))
	w.exec(`UPDATE event_subscriptions SET name = $1, description = $1 WHERE id = $2`, text, sub.String())
	w.exec(`UPDATE destinations SET url = 'https://' || $1 || '.example.com/' WHERE id = $2`, text, dest.String())
	w.exec(`UPDATE events SET ce_id = $1, body = convert_to($1, 'UTF8') WHERE id = $2`, text, d.Event.String())
	_, token, err := w.tokens.Create(w.t.Context(), access.NewToken{Tenant: hub.TenantID(tenant), Name: text, Role: hub.Viewer})
	if err != nil {
		w.t.Fatal(err)
	}
	entry := newID()
	w.exec(`INSERT INTO audit_log (id, tenant_id, actor_id, actor_name, action, object, after) VALUES ($1, $2, $3, $4, 'x', $4, jsonb_build_object('x', $4::text))`,
		entry.String(), tenant, token.ID.String(), text)
	return objects{
		"sub_": gid("sub_", sub), "dst_": gid("dst_", dest), "evt_": gid("evt_", d.Event.ID), "dlv_": gid("dlv_", d.Delivery.ID.ID),
		"tok_": gid("tok_", token.ID.ID), "aud_": gid("aud_", entry), "qrn_": gid("qrn_", w.quarantine(tenant, nil)), "dlq_": gid("dlq_", w.observe(hub.TenantID(tenant))),
		"tenant": tenant,
	}, d
}

// missing is an id of a kind that nobody has.
func missing(kind string) string {
	if kind == "tenant" {
		return "nobody"
	}
	return gid(kind, newID())
}

func malformed(kind string) string {
	if kind == "tenant" {
		return "../" + marker[:4]
	}
	return kind + "zz"
}

// asker is somebody with a token, or without a good one.
type asker struct {
	name  string
	token string
	actor controlplane.Actor // zero for those whom no token lets in
}

func (w *world) askers(tenant hub.TenantID) (bad, tenants, platform []asker) {
	w.t.Helper()
	bad = append(bad, asker{name: "no token"})
	dead := func(name, change string) {
		text, token, err := w.tokens.Create(w.t.Context(), access.NewToken{Tenant: tenant, Name: name, Role: hub.Admin})
		if err != nil {
			w.t.Fatal(err)
		}
		w.exec(`UPDATE api_tokens SET `+change+` WHERE id = $1`, token.ID.String())
		bad = append(bad, asker{name: name, token: text})
	}
	dead("revoked", "revoked_at = now()")
	dead("expired", "expires_at = now()")
	for _, role := range []hub.Role{hub.Viewer, hub.Operator, hub.Admin} {
		tenants = append(tenants, asker{"tenant " + string(role), w.token(tenant, role), controlplane.Actor{Tenant: tenant, Role: role}})
		platform = append(platform, asker{"platform " + string(role), w.token("", role), controlplane.Actor{Role: role}})
	}
	return bad, tenants, platform
}

// attempt is a call with ids of one sort at one place.
type attempt struct {
	field rootField
	spot  string
	ids   map[string]string // by sort: foreign, missing, malformed
	node  string
	vars  func(id string) map[string]any
}

// attempts are all calls that the matrix makes of a field: one for each place
// that takes an id, and one without.
func (m *maker) attempts(f rootField, foreign, own objects) (list []attempt) {
	spots := m.spots(f)
	// Where a call needs several ids, the others are good ones.
	good := map[string]any{}
	for _, s := range spots {
		def := f.Arguments.ForName(s.path[0])
		if len(s.path) == 1 && def.Type.NonNull || len(s.path) == 2 && m.schema.Types[def.Type.Name()].Fields.ForName(s.path[1]).Type.NonNull {
			good[s.String()] = own[s.kind]
		}
	}
	for _, s := range spots {
		kinds := []string{s.kind}
		if s.kind == anyKind {
			kinds = slices.Sorted(maps.Keys(m.kinds()))
		}
		for _, kind := range kinds {
			if foreign[kind] == "" {
				m.t.Errorf("the matrix makes no object with a %s id: add it to everything", kind)
			}
			list = append(list, attempt{
				field: f, spot: s.String() + " " + kind, node: m.kinds()[kind],
				ids: map[string]string{"foreign": foreign[kind], "missing": missing(kind), "malformed": malformed(kind)},
				vars: func(id string) map[string]any {
					at := maps.Clone(good)
					at[s.String()] = id
					return m.variables(f, at)
				},
			})
		}
	}
	if len(spots) == 0 || len(good) == 0 {
		list = append(list, attempt{field: f, spot: "without ids", ids: map[string]string{"none": ""}, vars: func(string) map[string]any { return m.variables(f, nil) }})
	}
	return list
}

func (m *maker) request(a attempt, sort string) string {
	m.node = a.node
	return m.body(a.field, a.vars(a.ids[sort]))
}

// raw is the answer's text, with the id that was asked for and the request's
// own number taken out.
func (w *world) raw(token, body, id string) (status int, text string) {
	w.t.Helper()
	res, err := w.request(token, body)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	text = strings.ReplaceAll(string(b), res.Header.Get("X-Request-Id"), "«request»")
	if id != "" {
		text = strings.ReplaceAll(text, id, "«id»")
	}
	return res.StatusCode, text
}

// of is a fingerprint of all rows of a tenant, but for what tokens and feeds
// add by themselves.
func (w *world) rowsOf(tenant string) string {
	w.t.Helper()
	tables := w.texts(`SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace ORDER BY 1`)
	var all []string
	for _, table := range tables {
		all = append(all, w.texts(`SELECT '`+table+` ' || coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM `+table+` t WHERE tenant_id = $1`, tenant)...)
	}
	return strings.Join(all, "\n")
}

// texts is a list of one text column.
func (w *world) texts(sql string, args ...any) (list []string) {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), sql, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			w.t.Fatal(err)
		}
		list = append(list, one)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return list
}

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

// judge says whether answers are what an asker's rights let through.
func (w *world) judge(who asker, a attempt, answers map[string]string) {
	w.t.Helper()
	may := who.actor.Can(graph.ActionOf(a.field.root, a.field.Name))
	for sort, got := range answers {
		if forbidden := strings.Contains(got, `"FORBIDDEN"`) && !strings.Contains(got, `"data":{`); forbidden == may {
			w.t.Errorf("%s, %s: may %t, got %s", who.name, sort, may, got)
		}
		for _, fault := range []string{`"INTERNAL"`, `"UNAVAILABLE","requestId`, `"LIMIT_EXCEEDED"`, "COMPLEXITY_LIMIT", "GRAPHQL_"} {
			if strings.Contains(got, fault) {
				w.t.Errorf("%s, %s: %s\n%s", who.name, sort, got, w.log)
			}
		}
	}
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
