package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// told are user errors as code and path.
func told(mistakes []UserError) string {
	list := make([]string, len(mistakes))
	for i, m := range mistakes {
		list[i] = string(m.Code) + " " + strings.Join(m.Path, ".")
	}
	return strings.Join(list, ", ")
}

func text(s string) *string { return &s }

func TestJudgeReplay(t *testing.T) {
	operator := Actor{Tenant: "acme", Role: hub.Operator}
	const cause = "0102030405060708090a0b0c0d0e0f10"
	for _, c := range []struct {
		name   string
		change func(*ReplayWish)
		want   string
	}{
		{"without_a_filter", func(*ReplayWish) {}, ""},
		{"with_all_of_it", func(w *ReplayWish) {
			w.Deliveries, w.EventType, w.Fingerprint = []string{"dlv_x"}, text("loan.*"), text(cause)
			w.States, w.Reasons = []hub.State{hub.Dead, hub.Delivered, hub.Discarded}, []hub.DeadReason{hub.DeadPoison}
			w.CreatedAfter, w.CreatedBefore, w.EndedAfter, w.EndedBefore = noon, noon.Add(1), noon, noon.Add(1)
		}, ""},
		{"no_deliveries_is_not_any", func(w *ReplayWish) { w.Deliveries = []string{} }, "INVALID input.filter.ids"},
		{"1000_deliveries", func(w *ReplayWish) { w.Deliveries = make([]string, 1000) }, ""},
		{"1001_deliveries", func(w *ReplayWish) { w.Deliveries = make([]string, 1001) }, "INVALID input.filter.ids"},
		{"no_event_type_is_not_any", func(w *ReplayWish) { w.EventType = text("") }, "INVALID input.filter.eventType"},
		{"event_type_that_is_none", func(w *ReplayWish) { w.EventType = text("*.approved") }, "INVALID input.filter.eventType"},
		{"no_state_is_not_any", func(w *ReplayWish) { w.States = []hub.State{} }, "INVALID input.filter.states"},
		{"states_that_are_not_settled", func(w *ReplayWish) { w.States = []hub.State{hub.Waiting, hub.Dead, hub.Held, hub.InFlight} },
			"INVALID input.filter.states.0, INVALID input.filter.states.2, INVALID input.filter.states.3"},
		{"no_reason_is_not_any", func(w *ReplayWish) { w.Reasons = []hub.DeadReason{} }, "INVALID input.filter.reason"},
		{"no_fingerprint_is_not_any", func(w *ReplayWish) { w.Fingerprint = text("") }, "INVALID input.filter.fingerprint"},
		{"fingerprint_that_is_none", func(w *ReplayWish) { w.Fingerprint = text(cause[:31] + "g") }, "INVALID input.filter.fingerprint"},
		{"fingerprint_that_is_cut", func(w *ReplayWish) { w.Fingerprint = text(cause[:30]) }, "INVALID input.filter.fingerprint"},
		{"what_only_dead_letters_have", func(w *ReplayWish) {
			w.States, w.Reasons, w.Fingerprint, w.EndedAfter, w.EndedBefore = []hub.State{hub.Delivered, hub.Discarded}, []hub.DeadReason{hub.DeadPoison}, text(cause), noon, noon.Add(1)
		}, "INVALID input.filter.reason, INVALID input.filter.fingerprint, INVALID input.filter.endedAfter, INVALID input.filter.endedBefore"},
		{"times_of_delivered_ones", func(w *ReplayWish) { w.States, w.CreatedAfter = []hub.State{hub.Delivered}, noon }, ""},
		{"no_time_between", func(w *ReplayWish) {
			w.CreatedAfter, w.CreatedBefore, w.EndedAfter, w.EndedBefore = noon, noon, noon.Add(1), noon
		}, "INVALID input.filter.createdBefore, INVALID input.filter.endedBefore"},
		{"pace", func(w *ReplayWish) {
			w.Pace = hub.ReplayPace{RatePerSecond: 10_001, Canary: 10_001, PauseAbovePercent: 101}
		},
			"INVALID input.ratePerSecond, INVALID input.canary, INVALID input.pauseAbovePercent"},
		{"largest_pace", func(w *ReplayWish) {
			w.Pace = hub.ReplayPace{RatePerSecond: 10_000, Canary: 10_000, PauseAbovePercent: 100}
		}, ""},
		{"everything_is_told_at_once", func(w *ReplayWish) { w.Tenant, w.Pace.RatePerSecond, w.States = "beta", 0, []hub.State{hub.Held} },
			"TENANT_MISMATCH input.tenantId, INVALID input.ratePerSecond, INVALID input.filter.states.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ReplayWish{Pace: hub.ReplayPace{RatePerSecond: 50, Canary: 10, PauseAbovePercent: 20}}
			c.change(&w)
			j, mistakes := judgeReplay(operator, &w)
			if got := told(mistakes); got != c.want {
				t.Errorf("%s; %v", got, mistakes)
			}
			if c.want == "" && (j.Tenant != "acme" || j.Kind != hub.JobReplay || j.Pace != w.Pace || fmt.Sprint(j.Filter.States) != fmt.Sprint(w.States) ||
				!j.Filter.EndedBefore.Equal(w.EndedBefore) || w.Fingerprint != nil && len(j.Filter.Fingerprint) != 16) {
				t.Errorf("%+v", j)
			}
		})
	}
	t.Run("of_a_platform_actor", func(t *testing.T) {
		for named, want := range map[string]hub.TenantID{"": "", "beta": "beta"} {
			j, mistakes := judgeReplay(Actor{Role: hub.Operator}, &ReplayWish{Tenant: named, Pace: hub.ReplayPace{RatePerSecond: 1}})
			if j.Tenant != want || mistakes != nil {
				t.Errorf("%q: %q %v", named, j.Tenant, mistakes)
			}
		}
	})
}

func TestJudgeBackfill(t *testing.T) {
	seq := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name   string
		change func(*BackfillWish, *hub.EventSubscription)
		want   string
	}{
		{"all_that_is_stored", func(*BackfillWish, *hub.EventSubscription) {}, ""},
		{"one_seq", func(w *BackfillWish, _ *hub.EventSubscription) { w.FirstSeq, w.LastSeq = seq(7), seq(7) }, ""},
		{"open_at_its_end", func(w *BackfillWish, _ *hub.EventSubscription) { w.FirstSeq = seq(7) }, ""},
		{"open_at_its_beginning", func(w *BackfillWish, _ *hub.EventSubscription) { w.LastSeq = seq(7) }, ""},
		{"last_before_first", func(w *BackfillWish, _ *hub.EventSubscription) { w.FirstSeq, w.LastSeq = seq(7), seq(6) }, "INVALID input.lastSeq"},
		{"seq_0", func(w *BackfillWish, _ *hub.EventSubscription) { w.FirstSeq, w.LastSeq = seq(0), seq(0) }, "INVALID input.firstSeq, INVALID input.lastSeq"},
		{"no_time_between", func(w *BackfillWish, _ *hub.EventSubscription) { w.ReceivedAfter, w.ReceivedBefore = noon, noon }, "INVALID input.receivedBefore"},
		{"pace", func(w *BackfillWish, _ *hub.EventSubscription) { w.Pace.Canary = -1 }, "INVALID input.canary"},
		{"disabled", func(_ *BackfillWish, s *hub.EventSubscription) { s.Enabled = false }, ""},
		{"not_verified", func(_ *BackfillWish, s *hub.EventSubscription) { s.VerificationState = hub.VerificationFailed }, ""},
		{"deleted", func(_ *BackfillWish, s *hub.EventSubscription) { s.DeletedAt = noon }, "INVALID input.eventSubscriptionId"},
		{"pull", func(_ *BackfillWish, s *hub.EventSubscription) { s.Kind = hub.SinkPull }, "INVALID input.eventSubscriptionId"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := BackfillWish{Pace: hub.ReplayPace{RatePerSecond: 1}}
			sub := hub.EventSubscription{
				ID: hub.SubscriptionID{ID: hub.ID{1}}, Tenant: "acme", Enabled: true, VerificationState: hub.VerificationActive, Kind: hub.SinkWebhook,
			}
			c.change(&w, &sub)
			j, mistakes := judgeBackfill(&w, &sub)
			if got := told(mistakes); got != c.want {
				t.Errorf("%s; %v", got, mistakes)
			}
			want := hub.BackfillRange{Subscription: sub.ID, FirstSeq: orZero(w.FirstSeq), LastSeq: orZero(w.LastSeq), ReceivedAfter: w.ReceivedAfter, ReceivedBefore: w.ReceivedBefore}
			if c.want == "" && (j.Range != want || j.Tenant != "acme" || j.Kind != hub.JobBackfill) {
				t.Errorf("%+v", j)
			}
		})
	}
	if _, mistakes := judgeBackfill(&BackfillWish{Pace: hub.ReplayPace{RatePerSecond: 1}}, nil); told(mistakes) != "NOT_FOUND input.eventSubscriptionId" {
		t.Errorf("%v", mistakes)
	}
}

func TestEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		from, until time.Time
		want        bool
	}{
		"open": {time.Time{}, time.Time{}, false}, "from": {noon, time.Time{}, false}, "until": {time.Time{}, noon, false},
		"one_moment": {noon, noon.Add(1), false}, "none": {noon, noon, true}, "turned_round": {noon.Add(1), noon, true},
	} {
		if got := empty(c.from, c.until); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
