package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

const jobFields = `id kind state tenantId ratePerSecond canary pauseAbovePercent total destinationCount byDestination { destinationId count destination { id } }
	alreadyDelivered possibleDuplicates undeliverable estimatedDuration pending released skipped tried failed delivered dead pausedBy reason explanation
	version createdBy createdAt previewedAt startedAt finishedAt
	filter { ids eventSubscriptionId destinationId eventType states reason fingerprint createdAfter createdBefore endedAfter endedBefore }
	range { eventSubscriptionId firstSeq lastSeq receivedAfter receivedBefore }`

// jobNow reads a job.
func (w *world) jobNow(token string, id any) any {
	w.t.Helper()
	return w.must(token, `query ($id: ID!) { replayJob(id: $id) { `+jobFields+` } }`, map[string]any{"id": id}).at("replayJob")
}

// wantFields compares fields of an object, as they print.
func wantFields(t *testing.T, object any, want map[string]any) {
	t.Helper()
	for name, w := range want {
		if got := at(object, name); fmt.Sprint(got) != fmt.Sprint(w) {
			t.Errorf("%s is %v, want %v", name, got, w)
		}
	}
}

func TestReplayJobs(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Viewer), w.token("", hub.Viewer)
	acme, beta := w.opened("acme"), w.opened("beta")
	acme.died(2)
	names := map[any]string{}
	add := func(name string, state hub.JobState, j hub.ReplayJob) hub.JobID {
		id := w.jobIn(state, j)
		names[gid("rpl_", id.ID)] = name
		return id
	}
	ready := add("ready", hub.JobReady, hub.ReplayJob{Tenant: "acme", Kind: hub.JobReplay})
	add("paused", hub.JobPaused, hub.ReplayJob{Tenant: "acme", Kind: hub.JobReplay})
	fill := add("fill", hub.JobReady, hub.ReplayJob{Tenant: "acme", Kind: hub.JobBackfill, Range: hub.BackfillRange{Subscription: hub.SubscriptionID{ID: acme.sub}, FirstSeq: 1}})
	foreign := add("foreign", hub.JobPreviewing, hub.ReplayJob{Tenant: "beta", Kind: hub.JobReplay, Filter: hub.ReplayFilter{Subscription: hub.SubscriptionID{ID: beta.sub}}})
	wide := add("wide", hub.JobReady, hub.ReplayJob{Kind: hub.JobReplay})

	for _, c := range []struct{ token, filter, want string }{
		{tenant, `{}`, "[fill paused ready]"},
		{platform, `{}`, "[wide foreign fill paused ready]"},
		{platform, `{tenantId: "beta"}`, "[foreign]"},
		{tenant, `{tenantId: "beta"}`, "[]"},
		{tenant, `{kind: BACKFILL}`, "[fill]"},
		{platform, `{kind: [REPLAY], state: [PREVIEWING, PAUSED]}`, "[foreign paused]"},
		{tenant, `{state: READY}`, "[fill ready]"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			a := w.must(c.token, `{ replayJobs(filter: `+c.filter+`) { nodes { id } edges { node { id } } pageInfo { hasNextPage } liveCursor } }`, nil)
			got := []string{}
			for _, n := range a.at("replayJobs", "nodes").([]any) {
				got = append(got, names[at(n, "id")])
			}
			if fmt.Sprint(got) != c.want || a.at("replayJobs", "pageInfo", "hasNextPage") != false || a.at("replayJobs", "liveCursor") == "" {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		var got []string
		var after any
		for range 7 {
			a := w.must(platform, `query ($c: String) { replayJobs(first: 2, after: $c) { nodes { id } pageInfo { hasNextPage endCursor } } }`, map[string]any{"c": after})
			for _, n := range a.at("replayJobs", "nodes").([]any) {
				got = append(got, names[at(n, "id")])
			}
			if after = a.at("replayJobs", "pageInfo", "endCursor"); a.at("replayJobs", "pageInfo", "hasNextPage") != true {
				break
			}
		}
		if fmt.Sprint(got) != "[wide foreign fill paused ready]" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("all_fields_of_a_replay", func(t *testing.T) {
		j := w.jobNow(tenant, gid("rpl_", ready.ID))
		wantFields(t, j, map[string]any{
			"kind": "REPLAY", "state": "READY", "tenantId": "acme", "ratePerSecond": 50, "canary": 1, "pauseAbovePercent": 20,
			"total": "2", "destinationCount": 1, "alreadyDelivered": "0", "possibleDuplicates": "0", "undeliverable": "0", "pending": "2",
			"released": "0", "skipped": "0", "tried": "0", "failed": "0", "delivered": "0", "dead": "0", "pausedBy": nil, "reason": nil,
			"version": 1, "createdBy": "somebody", "startedAt": nil, "finishedAt": nil, "estimatedDuration": "PT0.04S", "range": nil,
		})
		dest := gid("dst_", acme.dest)
		if at(j, "byDestination", 0, "destinationId") != dest || at(j, "byDestination", 0, "destination", "id") != dest || at(j, "byDestination", 0, "count") != "2" {
			t.Errorf("%v", at(j, "byDestination"))
		}
		if fmt.Sprint(at(j, "filter", "states")) != "[DEAD]" || at(j, "filter", "ids") != nil || at(j, "previewedAt") == nil || !strings.HasPrefix(at(j, "explanation").(string), "2 items can be started until ") {
			t.Errorf("%v", j)
		}
	})
	t.Run("of_a_backfill", func(t *testing.T) {
		j := w.jobNow(tenant, gid("rpl_", fill.ID))
		wantFields(t, j, map[string]any{"kind": "BACKFILL", "filter": nil, "total": "0", "byDestination": "[]"})
		wantFields(t, at(j, "range"), map[string]any{"eventSubscriptionId": gid("sub_", acme.sub), "firstSeq": "1", "lastSeq": nil, "receivedAfter": nil, "receivedBefore": nil})
	})
	t.Run("the_estimate_knows_limits_and_waits_for_the_count", func(t *testing.T) {
		w.exec(`UPDATE destinations SET rate_limit = 1 WHERE id = $1`, acme.dest.String())
		wantFields(t, w.jobNow(tenant, gid("rpl_", ready.ID)), map[string]any{"estimatedDuration": "PT2S"})
		wantFields(t, w.jobNow(platform, gid("rpl_", foreign.ID)), map[string]any{"estimatedDuration": nil, "state": "PREVIEWING"})
	})
	t.Run("what_is_not_theirs_is_missing", func(t *testing.T) {
		for _, id := range []string{gid("rpl_", foreign.ID), gid("rpl_", wide.ID), gid("rpl_", newID()), gid("dlv_", ready.ID), "nonsense"} {
			if j := w.jobNow(tenant, id); j != nil {
				t.Errorf("%s: %v", id, j)
			}
		}
		wantFields(t, w.jobNow(platform, gid("rpl_", wide.ID)), map[string]any{"tenantId": nil, "total": 2})
	})
	t.Run("the_largest_shares_come_first", func(t *testing.T) {
		second := w.opened("acme")
		second.died(3)
		id := gid("rpl_", w.jobIn(hub.JobReady, hub.ReplayJob{Tenant: "acme", Kind: hub.JobReplay}).ID)
		a := w.must(tenant, `query ($id: ID!) { replayJob(id: $id) { destinationCount byDestination(first: 1) { destinationId count } } }`, map[string]any{"id": id})
		if got := fmt.Sprint(a.at("replayJob", "byDestination")); got != fmt.Sprintf("[map[count:3 destinationId:%s]]", gid("dst_", second.dest)) || a.at("replayJob", "destinationCount") != 2.0 {
			t.Errorf("%v", a.Data)
		}
	})
}

const progressQuery = `subscription ($after: String, $filter: ReplayProgressFilter) { replayProgress(after: $after, filter: $filter) {
	__typename ... on ReplayProgress { cursor at tenantId jobId state total released skipped tried failed delivered dead reason replayJob { id state } }
	... on LiveGap { cursor after through missed } } }`

func TestLive_replay_progress(t *testing.T) {
	w := newWorld(t)
	token, platform := w.token("acme", hub.Operator), w.token("", hub.Viewer)
	acme := w.opened("acme")
	acme.died(1)
	page := w.must(token, `{ replayJobs { liveCursor } }`, nil)
	wide := w.jobIn(hub.JobReady, hub.ReplayJob{Kind: hub.JobReplay})
	other := gid("rpl_", w.jobIn(hub.JobReady, hub.ReplayJob{Tenant: "acme", Kind: hub.JobReplay}).ID)
	acme.died(1) // outcomes stand between
	id := gid("rpl_", w.jobIn(hub.JobReady, hub.ReplayJob{Tenant: "acme", Kind: hub.JobReplay}).ID)
	w.must(token, startReplay, map[string]any{"input": map[string]any{"id": id, "canary": 0}})
	w.step(jobID(t, id), time.Second)
	w.must(token, pauseReplay, map[string]any{"input": map[string]any{"id": id, "reason": "lunch"}})

	c := w.socket(token)
	c.subscribe("all", progressQuery, map[string]any{"after": page.at("replayJobs", "liveCursor")})
	next := func(c *client, want string) map[string]any {
		t.Helper()
		i := c.itemOf("replayProgress")
		if got := fmt.Sprint(i["jobId"], " ", i["state"], " ", i["total"], " ", i["released"], " ", i["reason"]); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		return i
	}
	next(c, other+" READY 1 0 <nil>")
	first := next(c, id+" READY 2 0 <nil>")
	next(c, id+" RUNNING 2 0 <nil>")
	next(c, id+" RUNNING 2 2 <nil>")
	i := next(c, id+" PAUSED 2 2 lunch")
	if i["tenantId"] != "acme" || i["at"] == nil || at(i, "replayJob", "id") != id || at(i, "replayJob", "state") != "PAUSED" ||
		i["skipped"] != "0" || i["tried"] != "0" || i["failed"] != "0" || i["delivered"] != "0" || i["dead"] != "0" {
		t.Errorf("%v", i)
	}
	t.Run("resumes_and_filters_by_job", func(t *testing.T) {
		c := w.socket(token)
		c.subscribe("b", progressQuery, map[string]any{"after": first["cursor"], "filter": map[string]any{"jobId": id}})
		next(c, id+" RUNNING 2 0 <nil>")
		d := w.socket(token)
		d.subscribe("c", progressQuery, map[string]any{"after": page.at("replayJobs", "liveCursor"), "filter": map[string]any{"jobId": id}})
		next(d, id+" READY 2 0 <nil>")
	})
	t.Run("jobs_over_all_tenants_are_for_the_platform", func(t *testing.T) {
		c := w.socket(platform)
		c.subscribe("p", progressQuery, map[string]any{"after": page.at("replayJobs", "liveCursor")})
		if i := next(c, gid("rpl_", wide.ID)+" READY 1 0 <nil>"); i["tenantId"] != nil {
			t.Errorf("%v", i)
		}
		next(c, other+" READY 1 0 <nil>")
	})
	t.Run("is_live", func(t *testing.T) {
		w.must(token, cancelReplay, map[string]any{"input": map[string]any{"id": id}})
		next(c, id+" CANCELLED 2 2 <nil>")
	})
}
