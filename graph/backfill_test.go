package graph_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestBackfill(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	s, beta := w.opened("acme"), w.opened("beta")
	s.stored(6)
	s.died(1) // has its delivery
	sub := gid("sub_", s.sub)
	j, mistakes := w.replayed(token, previewBackfill, map[string]any{"eventSubscriptionId": sub, "firstSeq": "3", "lastSeq": 5, "receivedAfter": "2026-01-31T12:04:05Z", "ratePerSecond": 100})
	wantFields(t, j, map[string]any{"kind": "BACKFILL", "state": "PREVIEWING", "tenantId": "acme", "ratePerSecond": 100, "canary": 10, "pauseAbovePercent": 20, "filter": nil})
	wantFields(t, at(j, "range"), map[string]any{"eventSubscriptionId": sub, "firstSeq": "3", "lastSeq": "5", "receivedAfter": "2026-01-31T12:04:05Z", "receivedBefore": nil})
	if mistakes != "" {
		t.Fatal(mistakes)
	}
	id := at(j, "id")
	w.scan(jobID(t, id))
	wantFields(t, w.jobNow(token, id), map[string]any{"state": "READY", "total": "3"})
	if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'preview_backfill' AND object = $1 AND after->'range' = jsonb_build_object('eventSubscriptionId', $2::text, 'firstSeq', 3, 'lastSeq', 5, 'receivedAfter', '2026-01-31T12:04:05Z')`, id, sub); n != 1 {
		t.Error("the audit log does not say what was asked for")
	}
	t.Run("is_started_by_startBackfill_only", func(t *testing.T) {
		if _, mistakes := w.replayed(token, startReplay, map[string]any{"id": id}); mistakes != "INVALID[input id] the job is a backfill: start it with startBackfill; " {
			t.Error(mistakes)
		}
		replay := gid("rpl_", w.jobIn(hub.JobReady, hub.ReplayJob{Tenant: "acme", Kind: hub.JobReplay}).ID)
		if _, mistakes := w.replayed(token, startBackfill, map[string]any{"id": replay}); mistakes != "INVALID[input id] the job is a replay: start it with startReplay; " {
			t.Error(mistakes)
		}
	})
	t.Run("a_disabled_one_is_previewed_and_not_started", func(t *testing.T) {
		w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1`, s.sub.String())
		j, mistakes := w.replayed(token, previewBackfill, map[string]any{"eventSubscriptionId": sub})
		if mistakes != "" {
			t.Fatal(mistakes)
		}
		w.scan(jobID(t, at(j, "id")))
		wantFields(t, w.jobNow(token, at(j, "id")), map[string]any{"state": "READY", "total": "6"})
		if _, mistakes := w.replayed(token, startBackfill, map[string]any{"id": at(j, "id")}); mistakes != "INVALID[input id] nothing can be delivered: its event subscription is disabled; enable it to go on; " {
			t.Error(mistakes)
		}
		w.exec(`UPDATE event_subscriptions SET enabled = true, disabled_by = NULL WHERE id = $1`, s.sub.String())
	})
	j, mistakes = w.replayed(token, startBackfill, map[string]any{"id": id, "canary": 0})
	if mistakes != "" || at(j, "state") != "RUNNING" {
		t.Errorf("%s %v", mistakes, j)
	}
	w.step(jobID(t, id), time.Second)
	if n := w.count(`SELECT count(*) FROM deliveries d JOIN events e ON e.id = d.event_id JOIN delivery_queue q ON q.id = d.id WHERE d.subscription_id = $1 AND e.seq IN (3, 4, 5)`, s.sub.String()); n != 3 {
		t.Errorf("%d deliveries of the events in the range", n)
	}
	for name, c := range map[string]struct {
		sub  string
		more map[string]any
		want string
	}{
		"foreign":   {gid("sub_", beta.sub), nil, "NOT_FOUND[input eventSubscriptionId] there is no such event subscription; "},
		"missing":   {gid("sub_", newID()), nil, "NOT_FOUND[input eventSubscriptionId] there is no such event subscription; "},
		"malformed": {"zz", nil, "NOT_FOUND[input eventSubscriptionId] there is no such event subscription; "},
		"mistakes": {sub, map[string]any{"firstSeq": 0, "lastSeq": "-1", "ratePerSecond": 0, "receivedAfter": "2026-01-31T12:04:05Z", "receivedBefore": "2026-01-31T12:04:05Z"},
			"INVALID[input ratePerSecond] the rate is 0 items per second; it must be 1 to 10000; INVALID[input firstSeq] a seq is at least 1; INVALID[input lastSeq] a seq is at least 1; INVALID[input receivedBefore] receivedBefore is not later than receivedAfter; "},
	} {
		t.Run(name, func(t *testing.T) {
			input := map[string]any{"eventSubscriptionId": c.sub}
			for k, v := range c.more {
				input[k] = v
			}
			if _, mistakes := w.replayed(token, previewBackfill, input); mistakes != c.want {
				t.Error(mistakes)
			}
		})
	}
}
