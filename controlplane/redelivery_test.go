package controlplane

import (
	"errors"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestJudgeRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*db.RunState)
		begin  bool
		code   UserErrorCode
		says   string
	}{
		{"dead", func(*db.RunState) {}, true, "", ""},
		{"delivered", func(st *db.RunState) { st.Standing.State = hub.Delivered }, true, "", ""},
		{"discarded", func(st *db.RunState) { st.Standing.State = hub.Discarded }, true, "", ""},
		{"waiting", func(st *db.RunState) { st.Standing.State = hub.Waiting }, false, Conflict, "it is waiting already"},
		{"in_flight", func(st *db.RunState) { st.Standing.State = hub.InFlight }, false, Conflict, "is being made already"},
		{"held", func(st *db.RunState) { st.Standing.State, st.Subscription.Enabled = hub.Held, false }, false, Conflict, "is held and goes on by itself: its event subscription is disabled"},
		{"unfinished_outranks_all", func(st *db.RunState) { *st = db.RunState{Standing: hub.Standing{State: hub.Waiting}, JustBegun: true} }, false, Conflict, "it is waiting already"},
		{"begun_a_moment_ago", func(st *db.RunState) { st.JustBegun = true }, false, Conflict, "a moment ago"},
		{"subscription_gone", func(st *db.RunState) { st.Subscription = nil }, false, Invalid, "its event subscription is gone"},
		{"subscription_disabled", func(st *db.RunState) { st.Subscription.Enabled = false }, false, Invalid, "is disabled; enable it"},
		{"subscription_not_verified", func(st *db.RunState) { st.Subscription.VerificationState = hub.VerificationFailed }, false, Invalid, "is not verified (FAILED)"},
		{"test_event", func(st *db.RunState) { st.Event.Event.Seq = 0 }, false, Invalid, "it was a test event"},
		{"test_event_of_a_disabled_subscription", func(st *db.RunState) { st.Event.Event.Seq, st.Subscription.Enabled = 0, false }, false, Invalid, "it was a test event"},
		{"event_gone", func(st *db.RunState) { st.Event = nil }, false, Invalid, "past its retention"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &db.RunState{
				Standing:     hub.Standing{State: hub.Dead},
				Subscription: &hub.EventSubscription{Enabled: true, VerificationState: hub.VerificationActive},
				Event:        &db.EventHead{Event: hub.Event{Seq: 1}},
			}
			c.change(st)
			begin, err := judgeRun(st)
			var refused UserError
			if begin != c.begin || errors.As(err, &refused) != (c.code != "") || refused.Code != c.code || !strings.Contains(refused.Message, c.says) {
				t.Errorf("begin %t, %q %s", begin, refused.Code, refused.Message)
			}
		})
	}
}
