package retry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestInForce(t *testing.T) {
	curve := hub.RetryPolicy{Kind: hub.RetryCurve}
	own := hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{7}}
	short := []time.Duration{0, 1500 * time.Millisecond}
	shortened := hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0, 1500}}
	for _, c := range []struct {
		name      string
		stored    hub.RetryPolicy
		steps     []time.Duration
		want      hub.RetryPolicy
		malformed bool
	}{
		{name: "curve_without_a_setting", stored: curve, want: curve},
		{name: "no_policy_is_the_curve", want: curve},
		{name: "setting_replaces_the_curve", stored: curve, steps: short, want: shortened},
		{name: "setting_replaces_it_where_nothing_is_stored", steps: short, want: shortened},
		{name: "setting_replaces_nothing_else", stored: own, steps: short, want: own},
		{name: "nor_the_exponential", stored: Workfront(true), steps: short, want: Workfront(true)},
		{name: "malformed_is_the_curve", stored: hub.RetryPolicy{Kind: "CUBIC"}, want: curve, malformed: true},
		{name: "malformed_follows_the_setting", stored: hub.RetryPolicy{Kind: "CUBIC"}, steps: short, want: shortened, malformed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, sound := InForce(c.stored, c.steps)
			if diff := cmp.Diff(c.want, got); diff != "" || sound == c.malformed {
				t.Errorf("sound %t\n%s", sound, diff)
			}
		})
	}
}
