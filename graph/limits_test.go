package graph_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/graph/generated"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestRequest_refusals_have_status_code_and_request_id(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	const query = `{"query":"{ viewer { name } }"}`
	for name, c := range map[string]struct {
		token, body string
		headers     []string
		status      int
		code        string
	}{
		"no_token":              {"", query, nil, 401, "UNAUTHENTICATED"},
		"bad_token":             {"shub_x_y_z", query, nil, 401, "UNAUTHENTICATED"},
		"introspection_outside": {"", `{"query":"{ __schema { types { name } } }"}`, nil, 401, "UNAUTHENTICATED"},
		"form":                  {token, query, []string{"Content-Type", "text/plain"}, 415, "BAD_REQUEST"},
		"batch":                 {token, `[` + query + `]`, nil, 400, "BAD_REQUEST"},
		"no_json":               {token, `secret nonsense`, nil, 400, "BAD_REQUEST"},
		"no_query":              {token, `{"id":"x"}`, nil, 400, "BAD_REQUEST"},
		"variables_list":        {token, `{"query":"{ viewer { name } }","variables":["nonsense"]}`, nil, 400, "BAD_REQUEST"},
		"query_number":          {token, `{"query":5}`, nil, 400, "BAD_REQUEST"},
		"two_operations":        {token, `{"query":"query A { viewer { name } } query B { viewer { name } }"}`, nil, 422, "GRAPHQL_VALIDATION_FAILED"},
		"feed_of_one_answer":    {token, `{"query":"subscription { deliveryOutcomes { __typename } }"}`, nil, 200, "BAD_REQUEST"},
		"too_large":             {token, `{"query":"` + strings.Repeat(" ", 257<<10) + `"}`, nil, 413, "LIMIT_EXCEEDED"},
		"foreign_origin":        {token, query, []string{"Origin", "https://evil.example"}, 403, "FORBIDDEN"},
		"stream_no_json":        {token, `nonsense`, []string{"Accept", "text/event-stream"}, 400, "BAD_REQUEST"},
		"syntax":                {token, `{"query":"{"}`, nil, 422, "GRAPHQL_PARSE_FAILED"},
		"unknown_field":         {token, `{"query":"{ nothing }"}`, nil, 422, "GRAPHQL_VALIDATION_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.send(c.token, c.body, c.headers...)
			if a.Status != c.status || a.code() != c.code || a.Errors[0].Extensions["requestId"] == "" {
				t.Errorf("status %d, %+v", a.Status, a.Errors)
			}
			if strings.Contains(a.Errors[0].Message, "nonsense") {
				t.Errorf("the body came back: %s", a.Errors[0].Message)
			}
		})
	}
	t.Run("they_say_what_to_do", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"query":"{ viewer { name } }","variables":[]}`:                      "variables is no object",
			`{"query":"{ viewer { name } }","extensions":1}`:                      "extensions is no object",
			`{"query":"{ viewer { name } }","operationName":{}}`:                  "operationName is no string",
			`{"query":["nonsense"]}`:                                              "query is no string",
			`{"query":"query A { viewer { name } } query B { viewer { name } }"}`: "the document has several operations; operationName has to name one of them",
			`{"query":"subscription { deliveryOutcomes { __typename } }"}`:        "a subscription needs a WebSocket (graphql-transport-ws) or the header Accept: text/event-stream",
		} {
			if a := w.send(token, body); a.Errors[0].Message != want {
				t.Errorf("%s: %s", body, a.Errors[0].Message)
			}
		}
	})
	t.Run("allowed_origin", func(t *testing.T) {
		if a := w.send(token, query, "Origin", "https://console.example"); a.Status != http.StatusOK || len(a.Errors) > 0 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("GET", func(t *testing.T) {
		res, err := http.Get(w.server.URL + "?query={viewer{name}}")
		if err != nil || res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%v %v", res, err)
		}
	})
}

func TestLimits(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	deep := strings.Repeat(`deliveries { nodes { event { `, 6) + `id` + strings.Repeat(` } } }`, 6)
	for name, c := range map[string]struct{ query, code string }{
		"depth":       {`{ ` + deep + ` }`, "LIMIT_EXCEEDED"},
		"root_fields": {`{ ` + strings.Repeat(`viewer { name } `, 21) + `}`, "LIMIT_EXCEEDED"},
		"aliases":     {`{ viewer { ` + strings.Repeat(`a: name `, 101) + `} }`, "LIMIT_EXCEEDED"},
		"fragments":   {`{ viewer { ...a } } fragment a on Viewer { ` + strings.Repeat(`...b `, 200) + `} fragment b on Viewer { ` + strings.Repeat(`...c `, 200) + `} fragment c on Viewer { name }`, "LIMIT_EXCEEDED"},
		"complexity":  {`{ deliveries(first: 100) { nodes { event { deliveries(first: 100) { nodes { event { id } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"complexity_of_a_mutation": {`mutation { discardDeadLetters(input: {reason: "x", ids: [` + strings.Repeat(`"dlv_x" `, 100) + `]}) {
			deliveries { event { deliveries(first: 100) { nodes { event { id } } } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"tokens": {`{ viewer { ` + strings.Repeat(`name `, 10_001) + `} }`, "GRAPHQL_PARSE_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.ask(token, c.query, nil); a.code() != c.code {
				t.Errorf("%+v", a.Errors)
			}
		})
	}
	t.Run("a_rich_page_passes", func(t *testing.T) {
		w.must(token, `{ deliveries(first: 100) { nodes { `+deliveryFields+` } pageInfo { endCursor } liveCursor } }`, nil)
	})
	t.Run("a_full_introspection_passes", func(t *testing.T) {
		ref := `kind name`
		for range 9 {
			ref = `kind name ofType { ` + ref + ` }`
		}
		w.must(token, `{ __schema { queryType { name } types { kind name description specifiedByURL fields(includeDeprecated: true) { name description args { name type { `+ref+` } } type { `+ref+` } } } } }`, nil)
	})
	t.Run("a_bad_scalar_is_the_callers_mistake", func(t *testing.T) {
		in := input("https://example.com")
		in["timeout"] = "quickly"
		if a := w.ask(w.token("acme", hub.Admin), createMutation, map[string]any{"input": in}); a.code() != "BAD_USER_INPUT" {
			t.Errorf("%+v", a.Errors)
		}
	})
	t.Run("faults_of_the_hub_are_logged_and_not_told", func(t *testing.T) {
		w.exec(`ALTER TABLE event_subscriptions RENAME TO hidden`)
		a := w.ask(token, `{ eventSubscriptions { nodes { id } } }`, nil)
		id, _ := a.Errors[0].Extensions["requestId"].(string)
		if a.code() != "INTERNAL" || strings.Contains(a.Errors[0].Message, "event_subscriptions") {
			t.Errorf("%+v", a.Errors)
		}
		if logged := w.log.String(); !strings.Contains(logged, id) || !strings.Contains(logged, "event_subscriptions") {
			t.Errorf("the log lacks it: %s", logged)
		}
	})
}

func TestErrors_of_an_absent_database(t *testing.T) {
	through := countStatements(t, dbtest.New(t))
	w := newWorldOn(t, through.dsn)
	token := w.token("acme", hub.Viewer)
	w.must(token, `{ events { nodes { id } } }`, nil)
	through.cut()
	for range 3 { // by a connection that was cut, and by new ones
		if a := w.ask(token, `{ events { nodes { id } } }`, nil); a.code() != "UNAVAILABLE" {
			t.Errorf("status %d, %+v\n%s", a.Status, a.Errors, w.log)
		}
	}
}

func TestSchema(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	t.Run("everything_is_described", func(t *testing.T) {
		for _, d := range schema.Types {
			if d.BuiltIn || strings.HasPrefix(d.Name, "__") {
				continue
			}
			if d.Description == "" {
				t.Errorf("%s has no description", d.Name)
			}
			for _, f := range d.Fields {
				if f.Description == "" && !strings.HasPrefix(f.Name, "__") {
					t.Errorf("%s.%s has no description", d.Name, f.Name)
				}
				for _, a := range f.Arguments {
					if a.Description == "" && !strings.HasPrefix(f.Name, "__") {
						t.Errorf("%s.%s(%s) has no description", d.Name, f.Name, a.Name)
					}
				}
			}
			for _, v := range d.EnumValues {
				if v.Description == "" {
					t.Errorf("%s.%s has no description", d.Name, v.Name)
				}
			}
		}
	})
	t.Run("every_scalar_says_its_format", func(t *testing.T) {
		for _, d := range schema.Types {
			if d.Kind == ast.Scalar && !d.BuiltIn && d.Directives.ForName("specifiedBy") == nil {
				t.Errorf("%s lacks @specifiedBy", d.Name)
			}
		}
	})
}
