package controlplane

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

func TestLiveFilter(t *testing.T) {
	sub, dest, event := hub.SubscriptionID{ID: hub.ID{1}}, hub.DestinationID{ID: hub.ID{2}}, hub.EventID{ID: hub.ID{3}}
	other := hub.ID{9}
	dead := db.FeedItem{
		Tenant: "acme", Subscription: sub, Destination: dest, Event: event, State: hub.Dead, DeadReason: hub.DeadExpired,
		EventType: "loan.approved", Fingerprint: []byte{7}, StartedMicros: noon.UnixMicro() + 999, TotalMicros: 1_000_000,
	}
	delivered := dead
	delivered.State = hub.Delivered
	notice := func(k hub.NoticeKind, phase breaker.Phase) db.FeedItem {
		n := &hub.Notice{Kind: k}
		if phase != "" {
			n.Breaker = &hub.BreakerNotice{Phase: string(phase)}
		}
		return db.FeedItem{Tenant: "acme", Subscription: sub, Destination: dest, Notice: n}
	}
	progress := db.FeedItem{Tenant: "acme", Notice: &hub.Notice{
		Kind: hub.NoticeReplayProgress, Replay: &hub.ReplayNotice{Job: hub.JobID{ID: hub.ID{5}}},
	}}
	for _, c := range []struct {
		name string
		f    LiveFilter
		i    db.FeedItem
		want bool
	}{
		{"everything", LiveFilter{}, notice(hub.NoticeSecretRotated, ""), true},
		{"another_tenant", LiveFilter{Tenant: "beta"}, dead, false},

		{"outcomes", LiveOutcomes(db.DeliveryFilter{Tenant: "acme", Subscription: sub, Destination: dest, Event: event, States: []hub.State{hub.Dead}}), dead, true},
		{"outcomes_are_no_notices", LiveOutcomes(db.DeliveryFilter{}), notice(hub.NoticeSpanOpened, ""), false},
		{"outcomes_by_tenant", LiveOutcomes(db.DeliveryFilter{Tenant: "beta"}), dead, false},
		{"outcomes_by_destination", LiveOutcomes(db.DeliveryFilter{Destination: hub.DestinationID{ID: other}}), dead, false},
		{"outcomes_by_subscription", LiveOutcomes(db.DeliveryFilter{Subscription: hub.SubscriptionID{ID: other}}), dead, false},
		{"outcomes_by_event", LiveOutcomes(db.DeliveryFilter{Event: hub.EventID{ID: other}}), dead, false},
		{"outcomes_by_state", LiveOutcomes(db.DeliveryFilter{States: []hub.State{hub.Waiting}}), dead, false},

		{"dead_letters", LiveDeadLetters(db.DeadLetterFilter{
			Tenant: "acme", Subscription: sub, Destination: dest, EventType: "loan.*", Reasons: []hub.DeadReason{hub.DeadExpired},
			Fingerprint: []byte{7}, EndedAfter: noon, EndedBefore: noon.Add(1),
		}), dead, true},
		{"dead_letters_are_dead", LiveDeadLetters(db.DeadLetterFilter{}), delivered, false},
		{"dead_letters_are_no_notices", LiveDeadLetters(db.DeadLetterFilter{}), notice(hub.NoticeAutoDisabled, ""), false},
		{"dead_letters_by_type", LiveDeadLetters(db.DeadLetterFilter{EventType: "loan.closed"}), dead, false},
		{"dead_letters_by_reason", LiveDeadLetters(db.DeadLetterFilter{Reasons: []hub.DeadReason{hub.DeadPoison}}), dead, false},
		{"dead_letters_by_fingerprint", LiveDeadLetters(db.DeadLetterFilter{Fingerprint: []byte{8}}), dead, false},
		{"dead_letters_by_destination", LiveDeadLetters(db.DeadLetterFilter{Destination: hub.DestinationID{ID: other}}), dead, false},
		{"dead_letters_from_later_on", LiveDeadLetters(db.DeadLetterFilter{EndedAfter: noon.Add(1)}), dead, false},
		{"dead_letters_until_earlier", LiveDeadLetters(db.DeadLetterFilter{EndedBefore: noon}), dead, false},

		{"opened", LiveBreakers(db.BreakerFilter{}), notice(hub.NoticeCircuitOpened, breaker.Open), true},
		{"half_open", LiveBreakers(db.BreakerFilter{Phases: []breaker.Phase{breaker.HalfOpen}}), notice(hub.NoticeCircuitHalfOpen, breaker.HalfOpen), true},
		{"closed", LiveBreakers(db.BreakerFilter{Phases: []breaker.Phase{breaker.Closed}}), notice(hub.NoticeCircuitClosed, ""), true},
		{"breakers_by_phase", LiveBreakers(db.BreakerFilter{Phases: []breaker.Phase{breaker.Closed}}), notice(hub.NoticeCircuitOpened, ""), false},
		{"probe_failed_is_open_again", LiveBreakers(db.BreakerFilter{Phases: []breaker.Phase{breaker.Open}}), notice(hub.NoticeCircuitHalfOpen, breaker.Open), true},
		{"breakers_by_destination", LiveBreakers(db.BreakerFilter{Destination: hub.DestinationID{ID: other}}), notice(hub.NoticeCircuitOpened, ""), false},
		{"breakers_are_no_spans", LiveBreakers(db.BreakerFilter{}), notice(hub.NoticeSpanOpened, ""), false},
		{"breakers_are_no_outcomes", LiveBreakers(db.BreakerFilter{}), dead, false},

		{"span_opened", LiveSpans(db.SpanFilter{Subscription: sub}), notice(hub.NoticeSpanOpened, ""), true},
		{"span_marked", LiveSpans(db.SpanFilter{}), notice(hub.NoticeSpanMarked, ""), true},
		{"span_cleared", LiveSpans(db.SpanFilter{}), notice(hub.NoticeSpanCleared, ""), true},
		{"auto_disabled", LiveSpans(db.SpanFilter{Destination: dest}), notice(hub.NoticeAutoDisabled, ""), true},
		{"would_disable", LiveSpans(db.SpanFilter{}), notice(hub.NoticeWouldDisable, ""), true},
		{"frozen", LiveSpans(db.SpanFilter{}), notice(hub.NoticeFrozen, ""), true},
		{"recovered", LiveSpans(db.SpanFilter{}), notice(hub.NoticeRecovered, ""), true},
		{"spans_by_subscription", LiveSpans(db.SpanFilter{Subscription: hub.SubscriptionID{ID: other}}), notice(hub.NoticeSpanOpened, ""), false},
		{"secrets_are_no_spans", LiveSpans(db.SpanFilter{}), notice(hub.NoticeSecretRotated, ""), false},
		{"replays", LiveReplays("acme", hub.JobID{}), progress, true},
		{"replays_by_job", LiveReplays("", hub.JobID{ID: hub.ID{5}}), progress, true},
		{"replays_by_another_job", LiveReplays("", hub.JobID{ID: other}), progress, false},
		{"replays_by_tenant", LiveReplays("beta", hub.JobID{}), progress, false},
		{"replays_are_no_spans", LiveReplays("", hub.JobID{}), notice(hub.NoticeSpanOpened, ""), false},
		{"replays_say_how_they_stand", LiveReplays("", hub.JobID{}), notice(hub.NoticeReplayProgress, ""), false},
		{"replays_are_no_outcomes", LiveReplays("", hub.JobID{}), dead, false},
		{"spans_are_no_replays", LiveSpans(db.SpanFilter{}), progress, false},
		{"spans_are_no_outcomes", LiveSpans(db.SpanFilter{}), dead, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.f.passes(&c.i); got != c.want {
				t.Errorf("passes = %v", got)
			}
		})
	}
}
