package graph_test

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

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
		"rpl_":   gid("rpl_", w.jobNamed(hub.TenantID(tenant), text)),
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

// moving is what differs from moment to moment.
var moving = regexp.MustCompile(`"liveCursor":"[^"]*"`)

// raw is the answer's text, with the id that was asked for, the request's own
// number and what moves taken out.
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
	text = strings.ReplaceAll(moving.ReplaceAllString(string(b), ""), res.Header.Get("X-Request-Id"), "«request»")
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
