package graph_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
)

const auditPage = `query ($first: Int!, $after: String, $filter: AuditLogFilter) { auditLog(first: $first, after: $after, filter: $filter) {
	nodes { id at tenantId actorId actorName action object before after } edges { cursor } pageInfo { hasNextPage endCursor } } }`

func TestAuditLog(t *testing.T) {
	w := newWorld(t)
	admin, actor := w.tokenOf("acme", hub.Admin)
	platform, other := w.token("", hub.Admin), w.token("other", hub.Admin)
	name := func(token, name string) string {
		return w.must(token, createToken, map[string]any{"input": map[string]any{"name": name, "role": "VIEWER"}}).at("createApiToken", "apiToken", "id").(string)
	}
	one := name(admin, "one")
	between := hubtest.Now()
	w.must(admin, revokeToken, map[string]any{"id": one})
	name(other, "theirs")
	w.must(platform, createToken, map[string]any{"input": map[string]any{"name": "all", "role": "VIEWER", "scope": "PLATFORM"}})
	actions := func(token string, filter map[string]any) string {
		t.Helper()
		var list []string
		after := any(nil)
		for range 20 {
			p := w.must(token, auditPage, map[string]any{"first": 1, "after": after, "filter": filter}).at("auditLog")
			for _, n := range at(p, "nodes").([]any) {
				list = append(list, fmt.Sprint(at(n, "action"), " ", at(n, "tenantId")))
			}
			if at(p, "pageInfo", "hasNextPage") == false {
				break
			}
			after = at(p, "pageInfo", "endCursor")
		}
		return fmt.Sprint(list)
	}
	for name, c := range map[string]struct {
		token  string
		filter map[string]any
		want   string
	}{
		"of_the_own_tenant": {admin, nil, "[revoke_api_token acme create_api_token acme]"},
		"by_the_platform":   {platform, nil, "[create_api_token <nil> create_api_token other revoke_api_token acme create_api_token acme]"},
		"tenant":            {platform, map[string]any{"tenantId": "other"}, "[create_api_token other]"},
		"another_tenant":    {admin, map[string]any{"tenantId": "other"}, "[]"},
		"actor":             {platform, map[string]any{"actorId": gid("tok_", actor.ID)}, "[revoke_api_token acme create_api_token acme]"},
		"no_actor":          {platform, map[string]any{"actorId": "nonsense"}, "[]"},
		"action":            {platform, map[string]any{"action": "revoke_api_token"}, "[revoke_api_token acme]"},
		"object":            {platform, map[string]any{"object": one}, "[revoke_api_token acme create_api_token acme]"},
		"after":             {admin, map[string]any{"after": between.Format(time.RFC3339Nano)}, "[revoke_api_token acme]"},
		"before":            {admin, map[string]any{"before": between.Format(time.RFC3339Nano)}, "[create_api_token acme]"},
		"after_1960":        {admin, map[string]any{"after": "1960-01-01T00:00:00Z"}, "[revoke_api_token acme create_api_token acme]"},
		"before_1960":       {admin, map[string]any{"before": "1960-01-01T00:00:00Z"}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := actions(c.token, c.filter); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	t.Run("tells_who_did_what", func(t *testing.T) {
		n := at(w.must(admin, auditPage, map[string]any{"first": 1}).at("auditLog", "nodes"), 0)
		if at(n, "actorId") != gid("tok_", actor.ID) || at(n, "actorName") != "test" || at(n, "object") != one ||
			at(n, "before", "revokedAt") != nil || at(n, "after", "revokedAt") == nil || at(n, "after", "name") != "one" {
			t.Errorf("%v", n)
		}
		again := w.must(admin, `query ($id: ID!) { node(id: $id) { ... on AuditLogEntry { action } } }`, map[string]any{"id": at(n, "id")})
		if again.at("node", "action") != "revoke_api_token" {
			t.Errorf("%v", again.Data)
		}
	})
	t.Run("operators_may_not", func(t *testing.T) {
		if a := w.ask(w.token("acme", hub.Operator), auditPage, map[string]any{"first": 1}); a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
}
