package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/dev/sample"
)

func TestProduceFacts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	make := func(t *testing.T, c produceCommand) sample.Fact {
		t.Helper()
		next, err := c.facts()
		if err != nil {
			t.Fatal(err)
		}
		return next(now)
	}
	t.Run("every_attribute_can_be_given", func(t *testing.T) {
		at := now.Add(-time.Hour)
		got := make(t, produceCommand{
			Event: "loan.closed", Data: "x", ID: "i", Source: "s", Tenant: "t", SchemaVersion: "v2", Time: at, Subject: "u",
			ContentType: "text/plain", DataSchema: "d", System: true, Extension: map[string]string{"e": "1"}, Type: "ty", Topic: "to",
		})
		want := sample.Fact{
			ID: "i", Source: "s", ResourceType: "loan", EventType: "closed", SchemaVersion: "v2", TenantID: "t", Time: at, Subject: "u",
			ContentType: "text/plain", DataSchema: "d", System: true, Extensions: map[string]string{"e": "1"}, Body: []byte("x"), Type: "ty", Topic: "to",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("without_flags_a_sample", func(t *testing.T) {
		got := make(t, produceCommand{Tenant: "acme", SchemaVersion: "1.0.0"})
		if got.ID == "" || got.ResourceType == "" || len(got.Body) == 0 || !got.Time.Equal(now) {
			t.Errorf("fact %+v", got)
		}
	})
	t.Run("ids_differ", func(t *testing.T) {
		c := produceCommand{Event: "a.b"}
		next, err := c.facts()
		if err != nil {
			t.Fatal(err)
		}
		if one, two := next(now), next(now); one.ID == two.ID {
			t.Errorf("both are %s", one.ID)
		}
	})
	t.Run("event_without_a_dot_is_refused", func(t *testing.T) {
		c := produceCommand{Event: "approved"}
		if _, err := c.facts(); err == nil {
			t.Error("no error")
		}
	})
}
