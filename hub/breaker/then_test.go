package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// A sum that was cut in two and put together again is the whole sum.
func TestDelta_Then_is_the_sum_of_all(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var whole breaker.Delta
		var parts [2]breaker.Delta
		cut := rapid.IntRange(0, 12).Draw(t, "cut")
		for i := range rapid.IntRange(0, 12).Draw(t, "outcomes") {
			o := breaker.Outcome{
				Kind:       rapid.SampledFrom([]breaker.Kind{breaker.Neutral, breaker.Succeeded, breaker.Failed}).Draw(t, "kind"),
				Generation: rapid.Int64Range(1, 3).Draw(t, "generation"),
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "seconds")) * time.Second)
			whole = whole.Add(o, now)
			half := 0
			if i >= cut {
				half = 1
			}
			parts[half] = parts[half].Add(o, now)
		}
		got := parts[0].Then(parts[1], now)
		at, wt := got.Window, whole.Window
		got.Window, whole.Window = breaker.Window{}, breaker.Window{}
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Fatalf("cut and joined (-whole +joined):\n%s", diff)
		}
		a, f := at.Totals(now)
		if wa, wf := wt.Totals(now); a != wa || f != wf {
			t.Fatalf("window %d of %d, want %d of %d", f, a, wf, wa)
		}
	})
}
