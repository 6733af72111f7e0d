package adminapi_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/controlplane/adminapi"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
)

type answer struct {
	status       int
	Observations []map[string]any
	Next         *string
	HasMore      bool `json:"has_more"`
	Error        struct{ Code, Message, Parameter string }
}

func TestDLQ(t *testing.T) {
	d, err := db.Open(t.Context(), db.Config{DSN: dbtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	tokens := access.NewTokens(d)
	token := func(tenant hub.TenantID, role hub.Role) string {
		t.Helper()
		text, _, err := tokens.Create(t.Context(), access.NewToken{Tenant: tenant, Name: "test", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	id := hubtest.NewID
	offset := int64(1 << 60)
	var list []db.NewObservation
	for _, tenant := range []hub.TenantID{"acme", "beta", ""} {
		list = append(list, db.NewObservation{Place: id(), Body: []byte("{}"), Observation: hub.Observation{
			ID: id(), Writer: hub.WriterConsumer, Tenant: tenant, ErrorMessage: "Ms Miller's card", ErrorClass: "HANDLER", CauseKind: "handler", SourceOffset: &offset,
			Record: hub.RecordPosition{Topic: "lerian.streaming.lender.dlq", Offset: 1 << 60}, BodyBytes: 2, KeptBytes: 2,
		}})
	}
	if _, err := d.StoreObservations(t.Context(), time.Now(), list); err != nil {
		t.Fatal(err)
	}
	handler := adminapi.DLQ{Observations: &controlplane.Observations{DB: d}, Tokens: tokens, Log: slog.New(slog.DiscardHandler)}
	get := func(t *testing.T, token, query string) (a answer) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/admin/dlq?"+query, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		a.status = w.Code
		return a
	}
	platform := token("", hub.Admin)
	t.Run("a_token_is_needed", func(t *testing.T) {
		for _, text := range []string{"", "shub_nonsense"} {
			if a := get(t, text, ""); a.status != 401 || a.Error.Code != "unauthenticated" {
				t.Errorf("%+v", a)
			}
		}
	})
	t.Run("a_tenant_sees_its_own", func(t *testing.T) {
		if a := get(t, token("acme", hub.Viewer), ""); len(a.Observations) != 1 || a.Observations[0]["tenant"] != "acme" || a.HasMore {
			t.Errorf("%+v", a)
		}
		if a := get(t, token("acme", hub.Viewer), "tenant=beta"); a.status != 200 || len(a.Observations) != 0 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("shows_an_observation", func(t *testing.T) {
		o := get(t, platform, "tenant=acme&body=1").Observations[0]
		for name, want := range map[string]any{
			"writer": "CONSUMER", "source": "lender", "offset": "1152921504606846976", "source_offset": "1152921504606846976", "cause_kind": "handler",
			"error_message": "Ms Miller's card", "body_base64": "e30=", "size_bytes": 2.0, "body_truncated": false,
		} {
			if o[name] != want {
				t.Errorf("%s = %v, want %v", name, o[name], want)
			}
		}
	})
	t.Run("error_messages_are_for_admins", func(t *testing.T) {
		if o := get(t, token("", hub.Operator), "").Observations[0]; o["error_message"] != nil {
			t.Errorf("%v", o)
		}
	})
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		seen := map[any]bool{}
		query := "limit=2&writer=CONSUMER&source=lender&topic=lerian.streaming.lender.dlq&error_class=HANDLER&observed_after=2020-01-01T00:00:00Z&observed_before=2120-01-01T00:00:00Z"
		for after := ""; ; {
			a := get(t, platform, query+after)
			for _, o := range a.Observations {
				seen[o["id"]] = true
			}
			if !a.HasMore || a.Next == nil {
				break
			}
			after = "&after=" + *a.Next
		}
		if len(seen) != 3 {
			t.Errorf("saw %v", seen)
		}
	})
	t.Run("faulty_parameters_are_named", func(t *testing.T) {
		for query, name := range map[string]string{
			"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "writer=ME": "writer", "after=x": "after", "body=maybe": "body",
			"observed_after=yesterday": "observed_after", "tennant=acme": "tennant", "topic=a&topic=b": "topic",
		} {
			if a := get(t, platform, query); a.status != 400 || a.Error.Code != "bad_parameter" || a.Error.Parameter != name || !strings.Contains(a.Error.Message, name) {
				t.Errorf("%s: %+v", query, a)
			}
		}
		if a := get(t, platform, "%zz"); a.status != 400 || a.Error.Code != "bad_request" {
			t.Errorf("%+v", a)
		}
	})
}
