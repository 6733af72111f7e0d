package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestToken_commands(t *testing.T) {
	c := &commands{}
	c.Token.PostgresDSN = dbtest.New(t)
	var out bytes.Buffer
	create := &tokenCreate{Name: "night", Tenant: "acme", Role: hub.Operator, Expires: time.Hour}
	if err := create.Run(t.Context(), c, &out); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(out.String())
	d, err := db.Open(t.Context(), db.Config{DSN: c.Token.PostgresDSN})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	token, err := access.NewTokens(d).Authenticate(t.Context(), text)
	if err != nil || token.Tenant != "acme" || token.Role != hub.Operator || token.ExpiresAt.IsZero() {
		t.Fatalf("%+v, %v", token, err)
	}
	if err := (&tokenRevoke{ID: token.ID.String()}).Run(t.Context(), c, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := access.NewTokens(d).Authenticate(t.Context(), text); err == nil {
		t.Error("the revoked token lets in")
	}
	if err := (&tokenRevoke{ID: strings.ReplaceAll(token.ID.String(), "0", "1")}).Run(t.Context(), c, &out); err == nil || !strings.Contains(err.Error(), "no such API token") {
		t.Errorf("%v", err)
	}
	if err := (&tokenCreate{Name: " ", Platform: true, Role: hub.Viewer}).Run(t.Context(), c, &out); err == nil || !strings.Contains(err.Error(), "needs a name") {
		t.Errorf("%v", err)
	}
	t.Run("are_audited", func(t *testing.T) {
		page, err := d.AuditPage(t.Context(), db.AuditFilter{Tenant: "acme"}, hub.ID{0xff}, 10)
		if err != nil || len(page.Rows) != 2 || page.Rows[0].Action != "revoke_api_token" || page.Rows[1].Action != "create_api_token" ||
			page.Rows[0].ActorName != "hub token" || !page.Rows[0].Actor.IsZero() {
			t.Errorf("%+v, %v", page.Rows, err)
		}
	})
}
