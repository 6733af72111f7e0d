package graph_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// changing is a mutation of replay jobs.
func changing(name string) string {
	return fmt.Sprintf(`mutation ($input: %s%sInput!) { %s(input: $input) { replayJob { %s } userErrors { code message path } } }`,
		strings.ToUpper(name[:1]), name[1:], name, jobFields)
}

var (
	previewReplay   = changing("previewReplay")
	startReplay     = changing("startReplay")
	pauseReplay     = changing("pauseReplay")
	resumeReplay    = changing("resumeReplay")
	cancelReplay    = changing("cancelReplay")
	previewBackfill = changing("previewBackfill")
	startBackfill   = changing("startBackfill")
)

// replayed calls a mutation and returns its job and its user errors, as code,
// path and text of each.
func (w *world) replayed(token, mutation string, input map[string]any) (job any, mistakes string) {
	w.t.Helper()
	a := w.must(token, mutation, map[string]any{"input": input})
	for _, payload := range a.Data {
		job = at(payload, "replayJob")
		for _, e := range at(payload, "userErrors").([]any) {
			mistakes += fmt.Sprint(at(e, "code"), at(e, "path"), " ", at(e, "message"), "; ")
		}
	}
	if (job == nil) != (mistakes != "") {
		w.t.Errorf("job %v beside mistakes %q", job, mistakes)
	}
	return job, mistakes
}

// From the preview to the end, as a person and the data plane do it.
func TestReplay(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	s, off := w.opened("acme"), w.opened("acme")
	ids := s.died(3)
	off.died(1)
	w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1`, off.sub.String())
	j, mistakes := w.replayed(token, previewReplay, map[string]any{"filter": map[string]any{"states": []string{"DEAD", "DISCARDED"}, "reason": "EXHAUSTED"}})
	wantFields(t, j, map[string]any{
		"kind": "REPLAY", "state": "PREVIEWING", "tenantId": "acme", "ratePerSecond": 50, "canary": 10, "pauseAbovePercent": 20,
		"total": "0", "version": 1, "createdBy": "test", "explanation": "The set is being frozen: 0 items so far.", "estimatedDuration": nil,
	})
	if mistakes != "" || fmt.Sprint(at(j, "filter", "states"), at(j, "filter", "reason")) != "[DEAD DISCARDED] [EXHAUSTED]" {
		t.Errorf("%s %v", mistakes, j)
	}
	id := at(j, "id")
	if _, mistakes := w.replayed(token, startReplay, map[string]any{"id": id}); mistakes != "CONFLICT[input id] the preview is not complete yet; " {
		t.Error(mistakes)
	}
	w.scan(jobID(t, id))
	later := s.died(1) // not in the set
	wantFields(t, w.jobNow(token, id), map[string]any{"state": "READY", "total": "3", "undeliverable": "1", "filter": at(j, "filter")})

	j, mistakes = w.replayed(token, startReplay, map[string]any{"id": id, "ratePerSecond": 1000, "canary": 0, "pauseAbovePercent": 100})
	wantFields(t, j, map[string]any{"state": "RUNNING", "ratePerSecond": 1000, "canary": 0, "pauseAbovePercent": 100, "version": 2})
	if mistakes != "" || at(j, "startedAt") == nil {
		t.Errorf("%s %v", mistakes, j)
	}
	t.Run("a_second_click_starts_nothing", func(t *testing.T) {
		for _, in := range []map[string]any{{"id": id}, {"id": id, "ratePerSecond": 1000, "canary": 0, "pauseAbovePercent": 100}} {
			again, mistakes := w.replayed(token, startReplay, in)
			if fmt.Sprint(again) != fmt.Sprint(j) || mistakes != "" {
				t.Errorf("%s\n%v\n%v", mistakes, again, j)
			}
		}
		if _, mistakes := w.replayed(token, startReplay, map[string]any{"id": id, "ratePerSecond": 7}); mistakes != "CONFLICT[input id] the job runs already, at another pace; " {
			t.Error(mistakes)
		}
	})
	j, _ = w.replayed(token, pauseReplay, map[string]any{"id": id, "reason": " lunch "})
	wantFields(t, j, map[string]any{"state": "PAUSED", "pausedBy": "USER", "reason": "lunch", "version": 3, "explanation": "Paused by a user: lunch; 3 items wait until it is resumed."})
	j, _ = w.replayed(token, resumeReplay, map[string]any{"id": id})
	wantFields(t, j, map[string]any{"state": "RUNNING", "pausedBy": nil, "reason": nil, "version": 4})
	w.step(jobID(t, id), time.Second)
	wantFields(t, w.jobNow(token, id), map[string]any{"released": "3", "pending": "0"})
	for i, one := range ids {
		a := w.must(token, `query ($id: ID!) { delivery(id: $id) { state attemptCount } }`, map[string]any{"id": one})
		if a.at("delivery", "state") != "WAITING" || a.at("delivery", "attemptCount") != 1.0 {
			t.Errorf("item %d: %v", i, a.Data)
		}
	}
	if a := w.must(token, `query ($id: ID!) { delivery(id: $id) { state } }`, map[string]any{"id": later[0]}); a.at("delivery", "state") != "DEAD" {
		t.Errorf("what died after the preview: %v", a.Data)
	}
	j, _ = w.replayed(token, cancelReplay, map[string]any{"id": id, "reason": "enough"})
	wantFields(t, j, map[string]any{"state": "CANCELLED", "reason": "enough", "version": 5})
	for _, c := range []struct{ mutation, want string }{
		{cancelReplay, ""}, // again
		{pauseReplay, "CONFLICT[input id] the job was cancelled; "},
		{resumeReplay, "CONFLICT[input id] the job was cancelled; "},
		{startReplay, "CONFLICT[input id] the job was cancelled; "},
	} {
		if _, mistakes := w.replayed(token, c.mutation, map[string]any{"id": id}); mistakes != c.want {
			t.Errorf("%s: %s", c.mutation, mistakes)
		}
	}
	t.Run("each_change_is_in_the_audit_log", func(t *testing.T) {
		got := w.texts(`SELECT action || ' ' || coalesce(before->>'state', '-') || ' ' || (after->>'state') || ' ' || (after->>'ratePerSecond') || ' ' || coalesce(after->>'reason', '-')
			FROM audit_log WHERE object = $1 AND tenant_id = 'acme' AND actor_name = 'test' ORDER BY id`, id)
		want := []string{
			"preview_replay - PREVIEWING 50 -", "start_replay READY RUNNING 1000 -", "pause_replay RUNNING PAUSED 1000 lunch",
			"resume_replay PAUSED RUNNING 1000 -", "cancel_replay RUNNING CANCELLED 1000 enough",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q", got)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'preview_replay' AND after->'filter' = '{"states": ["DEAD", "DISCARDED"], "reason": ["EXHAUSTED"]}'`); n != 1 {
			t.Error("the entry does not say what was asked for")
		}
	})
}

// What a replay names has to exist, in the job's tenant, and to take deliveries.
func TestReplay_names_what_is_there(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Operator), w.token("", hub.Operator)
	acme, beta, off, gone, pull := w.opened("acme"), w.opened("beta"), w.opened("acme"), w.opened("acme"), w.opened("acme")
	own, foreign := acme.died(2), beta.died(1)
	w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER', disabled_reason = 'too slow' WHERE id = $1`, off.sub.String())
	w.exec(`UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1`, gone.sub.String())
	w.exec(`UPDATE event_subscriptions SET kind = 'PULL' WHERE id = $1`, pull.sub.String())
	sub, dest := func(s *shop) string { return gid("sub_", s.sub) }, func(s *shop) string { return gid("dst_", s.dest) }
	type m = map[string]any
	for name, c := range map[string]struct {
		token  string
		input  m // without filter: that is all of it
		filter m
		tenant any    // of the job
		want   string // the mistakes
	}{
		"nothing":                     {tenant, nil, m{}, "acme", ""},
		"own_tenant":                  {tenant, m{"tenantId": "acme"}, m{}, "acme", ""},
		"foreign_tenant":              {tenant, m{"tenantId": "beta"}, m{}, nil, "TENANT_MISMATCH[input tenantId] this token belongs to another tenant; "},
		"all_tenants":                 {platform, nil, m{}, nil, ""},
		"one_tenant_of_all":           {platform, m{"tenantId": "beta"}, m{}, "beta", ""},
		"no_tenant":                   {platform, m{"tenantId": "../x"}, m{}, nil, "INVALID[input tenantId] a tenant id"},
		"subscription":                {tenant, nil, m{"eventSubscriptionId": sub(acme), "destinationId": dest(acme)}, "acme", ""},
		"subscription_gives_tenant":   {platform, nil, m{"eventSubscriptionId": sub(beta)}, "beta", ""},
		"destination_gives_tenant":    {platform, nil, m{"destinationId": dest(beta)}, "beta", ""},
		"deliveries_give_tenant":      {platform, nil, m{"ids": own}, "acme", ""},
		"deliveries_of_two_tenants":   {platform, nil, m{"ids": append(append([]string{}, own...), foreign...)}, nil, ""},
		"subscription_foreign":        {tenant, nil, m{"eventSubscriptionId": sub(beta)}, nil, "NOT_FOUND[input filter eventSubscriptionId] there is no such event subscription; "},
		"subscription_missing":        {tenant, nil, m{"eventSubscriptionId": gid("sub_", newID())}, nil, "NOT_FOUND[input filter eventSubscriptionId] there is no such event subscription; "},
		"subscription_malformed":      {tenant, nil, m{"eventSubscriptionId": "zz"}, nil, "NOT_FOUND[input filter eventSubscriptionId] there is no such event subscription; "},
		"subscription_of_another":     {platform, m{"tenantId": "acme"}, m{"eventSubscriptionId": sub(beta)}, nil, "NOT_FOUND[input filter eventSubscriptionId] there is no such event subscription; "},
		"destination_foreign":         {tenant, nil, m{"destinationId": dest(beta)}, nil, "NOT_FOUND[input filter destinationId] there is no such destination; "},
		"destination_of_another":      {platform, nil, m{"eventSubscriptionId": sub(acme), "destinationId": dest(beta)}, nil, "NOT_FOUND[input filter destinationId] there is no such destination; "},
		"deliveries_foreign":          {tenant, nil, m{"ids": []string{own[0], foreign[0], "zz", own[0]}}, nil, "NOT_FOUND[input filter ids 1] there is no such delivery; NOT_FOUND[input filter ids 2] there is no such delivery; "},
		"deliveries_of_another":       {platform, m{"tenantId": "beta"}, m{"ids": own[:1]}, nil, "NOT_FOUND[input filter ids 0] there is no such delivery; "},
		"subscription_disabled":       {tenant, nil, m{"eventSubscriptionId": sub(off)}, nil, "INVALID[input filter eventSubscriptionId] nothing can be delivered: its event subscription is disabled (too slow); enable it to go on; "},
		"subscription_deleted":        {tenant, nil, m{"eventSubscriptionId": sub(gone)}, nil, "INVALID[input filter eventSubscriptionId] nothing can be delivered: its event subscription was deleted; "},
		"subscription_of_kind_pull":   {tenant, nil, m{"eventSubscriptionId": sub(pull)}, nil, "INVALID[input filter eventSubscriptionId] nothing is sent to a PULL destination; read its events instead; "},
		"mistakes_are_told_at_once":   {tenant, m{"ratePerSecond": 0, "canary": -1, "pauseAbovePercent": 101}, m{"ids": []string{}, "states": []string{"WAITING"}}, nil, "INVALID[input ratePerSecond] the rate is 0 items per second; it must be 1 to 10000; INVALID[input canary] "},
		"several_ids_that_are_not_it": {tenant, nil, m{"eventSubscriptionId": "zz", "destinationId": "zz", "ids": []string{"zz"}}, nil, "NOT_FOUND[input filter eventSubscriptionId] there is no such event subscription; NOT_FOUND[input filter destinationId] there is no such destination; NOT_FOUND[input filter ids 0] "},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			input := m{"filter": c.filter, "idempotencyKey": name}
			for k, v := range c.input {
				input[k] = v
			}
			before := w.count(`SELECT count(*) FROM replay_jobs`)
			j, mistakes := w.replayed(c.token, previewReplay, input)
			if !strings.HasPrefix(mistakes, c.want) || (c.want == "") != (mistakes == "") {
				t.Errorf("mistakes %s", mistakes)
			}
			made := w.count(`SELECT count(*) FROM replay_jobs`) - before
			if made != 0 && mistakes != "" || made != 1 && mistakes == "" {
				t.Errorf("made %d jobs", made)
			}
			if j != nil && at(j, "tenantId") != c.tenant {
				t.Errorf("it is of tenant %v", at(j, "tenantId"))
			}
		})
	}
	w.t = t
	t.Run("named_ones_are_the_set", func(t *testing.T) {
		j, _ := w.replayed(tenant, previewReplay, m{"filter": m{"ids": []string{own[1], own[1]}, "eventSubscriptionId": sub(acme), "eventType": "loan.*"}})
		w.scan(jobID(t, at(j, "id")))
		j = w.jobNow(tenant, at(j, "id"))
		wantFields(t, j, m{"total": "1"})
		wantFields(t, at(j, "filter"), m{"ids": own[1:], "eventSubscriptionId": sub(acme), "eventType": "loan.*"})
	})
	t.Run("a_viewer_may_not", func(t *testing.T) {
		if a := w.ask(w.token("acme", hub.Viewer), previewReplay, m{"input": m{"filter": m{}}}); a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
}

func TestReplay_starts_nothing_that_would_deliver_nothing(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	s := w.opened("acme")
	ids := s.died(2)
	named, _ := w.replayed(token, previewReplay, map[string]any{"filter": map[string]any{"eventSubscriptionId": gid("sub_", s.sub)}})
	w.scan(jobID(t, at(named, "id")))
	w.exec(`UPDATE event_subscriptions SET verification_state = 'FAILED' WHERE id = $1`, s.sub.String())
	each, _ := w.replayed(token, previewReplay, map[string]any{"filter": map[string]any{"ids": ids}})
	w.scan(jobID(t, at(each, "id")))
	none, _ := w.replayed(token, previewReplay, map[string]any{"filter": map[string]any{"states": []string{"DELIVERED"}}})
	w.scan(jobID(t, at(none, "id")))
	wantFields(t, w.jobNow(token, at(each, "id")), map[string]any{"total": "0", "undeliverable": "2", "state": "READY"})
	for _, c := range []struct {
		job  any
		want string
	}{
		{named, "INVALID[input id] nothing can be delivered: its event subscription is not verified (FAILED); verify it to go on; "},
		{each, "INVALID[input id] nothing can be delivered: the event subscriptions of all deliveries that the filter names are gone, "},
	} {
		if _, mistakes := w.replayed(token, startReplay, map[string]any{"id": at(c.job, "id")}); !strings.HasPrefix(mistakes, c.want) {
			t.Error(mistakes)
		}
		wantFields(t, w.jobNow(token, at(c.job, "id")), map[string]any{"state": "READY", "version": 1})
	}
	if j, mistakes := w.replayed(token, startReplay, map[string]any{"id": at(none, "id")}); mistakes != "" || at(j, "state") != "RUNNING" {
		t.Errorf("an empty set: %s %v", mistakes, j)
	}
	w.exec(`UPDATE event_subscriptions SET verification_state = 'ACTIVE' WHERE id = $1`, s.sub.String())
	if j, mistakes := w.replayed(token, startReplay, map[string]any{"id": at(named, "id")}); mistakes != "" || at(j, "state") != "RUNNING" {
		t.Errorf("once it is verified: %s %v", mistakes, j)
	}
	t.Run("a_job_that_runs_is_answered_with_whatever_became_of_its_subscription", func(t *testing.T) {
		w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1`, s.sub.String())
		if j, mistakes := w.replayed(token, startReplay, map[string]any{"id": at(named, "id")}); mistakes != "" || at(j, "state") != "RUNNING" {
			t.Errorf("%s %v", mistakes, j)
		}
	})
	t.Run("a_pace_that_no_job_may_have", func(t *testing.T) {
		_, mistakes := w.replayed(token, startReplay, map[string]any{"id": at(each, "id"), "ratePerSecond": 10001, "canary": 10001, "pauseAbovePercent": -1})
		if strings.Count(mistakes, "INVALID[input ") != 3 || !strings.Contains(mistakes, "INVALID[input canary] the canary is 10001 items; it must be 0 to 10000; ") {
			t.Error(mistakes)
		}
	})
}

// Foreign and missing jobs are answered alike, by every mutation that names one.
func TestReplay_jobs_of_others_do_not_exist(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	foreign := gid("rpl_", w.jobIn(hub.JobReady, hub.ReplayJob{Tenant: "beta", Kind: hub.JobReplay}).ID)
	wide := gid("rpl_", w.jobIn(hub.JobReady, hub.ReplayJob{Kind: hub.JobReplay}).ID)
	for _, mutation := range []string{startReplay, pauseReplay, resumeReplay, cancelReplay, startBackfill} {
		for _, id := range []string{foreign, wide, gid("rpl_", newID()), gid("dlv_", newID()), "nonsense"} {
			if _, mistakes := w.replayed(token, mutation, map[string]any{"id": id}); mistakes != "NOT_FOUND[input id] there is no such replay job; " {
				t.Errorf("%s: %s", id, mistakes)
			}
		}
	}
	if n := w.count(`SELECT count(*) FROM replay_jobs WHERE version = 1 AND state = 'READY'`); n != 2 {
		t.Errorf("%d jobs are as they were", n)
	}
	for _, mutation := range []string{pauseReplay, cancelReplay} {
		if _, mistakes := w.replayed(token, mutation, map[string]any{"id": foreign, "reason": strings.Repeat("x", 501)}); mistakes != "INVALID[input reason] the reason has more than 500 characters; " {
			t.Error(mistakes)
		}
	}
}

func TestReplay_double_clicks_make_one_job(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	s := w.opened("acme")
	s.died(1)
	for _, c := range []struct {
		mutation string
		input    map[string]any
	}{
		{previewReplay, map[string]any{"filter": map[string]any{}}},
		{previewBackfill, map[string]any{"eventSubscriptionId": gid("sub_", s.sub)}},
	} {
		var wg sync.WaitGroup
		answers := make(chan any, 6)
		for range cap(answers) {
			wg.Go(func() {
				j, _ := w.replayed(token, c.mutation, c.input)
				answers <- at(j, "id")
			})
		}
		wg.Wait()
		close(answers)
		first := <-answers
		for id := range answers {
			if id != first {
				t.Errorf("%v, %v", id, first)
			}
		}
		t.Run("another_wish_is_another_job", func(t *testing.T) {
			other := map[string]any{"ratePerSecond": 51}
			for k, v := range c.input {
				other[k] = v
			}
			if j, _ := w.replayed(token, c.mutation, other); at(j, "id") == first || at(j, "id") == nil {
				t.Errorf("%v", j)
			}
			if j, _ := w.replayed(w.token("acme", hub.Operator), c.mutation, c.input); at(j, "id") == first {
				t.Error("another person has the same job")
			}
		})
		t.Run("half_a_second_later_too", func(t *testing.T) {
			w.exec(`UPDATE idempotency_keys SET created_at = created_at - interval '501 milliseconds'`)
			if j, _ := w.replayed(token, c.mutation, c.input); at(j, "id") == first || at(j, "id") == nil {
				t.Errorf("%v", j)
			}
		})
	}
	if n := w.count(`SELECT count(*) FROM replay_jobs`); n != 8 {
		t.Errorf("%d jobs", n)
	}
}
