package match_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/match.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Name  string
			Event struct {
				Tenant      hub.TenantID
				Source, Key string
				SchemaMajor int32
			}
			Subscription struct {
				Tenant            hub.TenantID
				Origin            *string
				EventTypes        []string
				SchemaMajor       *int32
				Enabled           bool
				VerificationState hub.VerificationState
			}
			Match        bool
			FailedClause string `json:"failed_clause"`
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, row := range vectors.Rows {
		t.Run(row.Name, func(t *testing.T) {
			resource, event, _ := strings.Cut(row.Event.Key, ".")
			ev := &hub.Event{Tenant: row.Event.Tenant, Source: row.Event.Source, ResourceType: resource, EventType: event, SchemaMajor: row.Event.SchemaMajor}
			s := row.Subscription
			sub := hub.EventSubscription{Tenant: s.Tenant, EventTypes: s.EventTypes, SchemaMajor: s.SchemaMajor, Enabled: s.Enabled, VerificationState: s.VerificationState}
			if s.Origin != nil {
				sub.Origin = *s.Origin
			}
			e := match.Explain(ev, &sub)
			if e.Matched != row.Match || e.FailedClause != row.FailedClause {
				t.Errorf("Explain = %v, failed %q; want %v, %q", e.Matched, e.FailedClause, row.Match, row.FailedClause)
			}
			if match.Wants(ev, &sub) != row.Match {
				t.Errorf("Wants = %v", !row.Match)
			}
			if found := match.NewIndex([]hub.EventSubscription{sub}).Match(ev, nil); (len(found) == 1) != row.Match {
				t.Errorf("Index found %d", len(found))
			}
		})
	}
	if len(vectors.Rows) < 17 {
		t.Fatalf("only %d rows", len(vectors.Rows))
	}
}
