package db_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// entry makes an audit entry at a time and returns its id.
func (l *lab) entry(at time.Time, tenant, actor, action, object string) hub.ID {
	l.Helper()
	id := hub.NewID(at, &constant{})
	l.exec(`INSERT INTO audit_log (id, tenant_id, actor_id, actor_name, action, object) VALUES ($1, nullif($2, ''), nullif($3, '')::uuid, 'x', $4, $5)`,
		text(id), tenant, actor, action, object)
	return id
}

// constant makes ids that differ by their time only.
type constant struct{}

func (*constant) Read(p []byte) (int, error) { return len(p), nil }

func TestAuditLog_is_append_only(t *testing.T) {
	l := newLab(t)
	l.entry(time.Now(), "acme", "", "redeliver", "dlv_1")
	d := l.walled(2)
	run := db.StatementsOf(d)
	leaf := l.names(`SELECT c.relname FROM pg_class c WHERE c.relispartition AND c.relname LIKE 'audit_log_p%' AND c.relkind = 'r' ORDER BY 1 LIMIT 1`)[0]
	for _, sql := range []string{
		`UPDATE audit_log SET action = 'nothing'`, `DELETE FROM audit_log`, `TRUNCATE audit_log`,
		`UPDATE ` + leaf + ` SET action = 'nothing'`, `DELETE FROM ` + leaf,
	} {
		for who, do := range map[string]func() error{
			"tenant":   func() error { _, err := run.Exec(db.OfTenant(t.Context(), "acme"), sql); return err },
			"platform": func() error { _, err := run.Exec(db.OfPlatform(t.Context()), sql); return err },
			// The owner of the table, in tests a superuser even.
			"data plane": func() error { _, err := db.StatementsOf(l.db).Exec(t.Context(), sql); return err },
		} {
			var pgErr *pgconn.PgError
			if err := do(); !errors.As(err, &pgErr) || pgErr.Code != "42501" {
				t.Errorf("%s by %s: %v", sql, who, err)
			}
		}
	}
	l.wantCount("entries", 1, `SELECT count(*) FROM audit_log WHERE action = 'redeliver'`)
	t.Run("also_in_partitions_that_are_made_later", func(t *testing.T) {
		l.exec(`SELECT hub_ensure_partitions(now() + interval '90 days')`)
		later := time.Now().Add(70 * 24 * time.Hour)
		l.entry(later, "acme", "", "redeliver", "dlv_2")
		if _, err := l.raw.Exec(t.Context(), `DELETE FROM audit_log WHERE object = 'dlv_2'`); err == nil {
			t.Error("it was deleted")
		}
	})
}

func TestAuditPage(t *testing.T) {
	l := newLab(t)
	base := time.Now().Truncate(time.Millisecond)
	one, two := text(newID()), text(newID())
	ids := []hub.ID{
		l.entry(base.Add(1*time.Millisecond), "acme", one, "redeliver", "dlv_1"),
		l.entry(base.Add(2*time.Millisecond), "acme", two, "redeliver", "dlv_2"),
		l.entry(base.Add(3*time.Millisecond), "", one, "create_api_token", "tok_1"),
		l.entry(base.Add(4*time.Millisecond), "other", two, "redeliver", "dlv_1"),
	}
	parse := func(s string) hub.TokenID { id, _ := hub.ParseID(s); return hub.TokenID{ID: id} }
	for name, c := range map[string]struct {
		f    db.AuditFilter
		want []int
	}{
		"all_newest_first": {db.AuditFilter{}, []int{3, 2, 1, 0}},
		"tenant":           {db.AuditFilter{Tenant: "acme"}, []int{1, 0}},
		"actor":            {db.AuditFilter{Actor: parse(one)}, []int{2, 0}},
		"action":           {db.AuditFilter{Action: "redeliver", Tenant: "acme"}, []int{1, 0}},
		"object":           {db.AuditFilter{Object: "dlv_1"}, []int{3, 0}},
		"after_includes":   {db.AuditFilter{After: base.Add(3 * time.Millisecond)}, []int{3, 2}},
		"before_excludes":  {db.AuditFilter{Before: base.Add(3 * time.Millisecond)}, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for before := (hub.ID{0xff}); ; { // page by page
				page, err := l.db.AuditPage(t.Context(), c.f, before, 1)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Rows {
					got = append(got, slices.Index(ids, r.ID))
				}
				if before = page.End; !page.More {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	byID, err := l.db.AuditByID(context.Background(), []hub.ID{ids[2], newID()})
	if err != nil || len(byID) != 1 || byID[0].Action != "create_api_token" || byID[0].Tenant != "" || byID[0].Actor != parse(one) {
		t.Errorf("%+v, %v", byID, err)
	}
}
