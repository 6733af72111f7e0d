package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub/health"
)

type ended struct {
	outcome health.Outcome
	at      time.Time
}

// history draws outcomes in order, with where it is cut in two.
func history(t *rapid.T) (list []ended, cut int) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range rapid.IntRange(0, 15).Draw(t, "attempts") {
		at = at.Add(time.Duration(rapid.IntRange(1, 100_000).Draw(t, "seconds")) * time.Second)
		list = append(list, ended{rapid.SampledFrom([]health.Outcome{health.Neutral, health.Succeeded, health.Failed, health.Failed}).Draw(t, "outcome"), at})
	}
	return list, rapid.IntRange(0, len(list)).Draw(t, "cut")
}

func TestSpanDelta_is_the_same_as_one_after_the_other(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, _ := history(t)
		var one, base health.Span
		for _, e := range before {
			one = one.After(e.outcome, e.at)
		}
		base = one
		list, cut := history(t)
		shift := time.Duration(0)
		if len(before) > 0 {
			shift = before[len(before)-1].at.Sub(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		}
		var parts [2]health.SpanDelta
		for i, e := range list {
			at := e.at.Add(shift)
			one = one.After(e.outcome, at)
			half := 0
			if i >= cut {
				half = 1
			}
			parts[half] = parts[half].Add(e.outcome, at)
		}
		if diff := cmp.Diff(one, base.Apply(parts[0]).Apply(parts[1])); diff != "" {
			t.Fatalf("two sums (-one by one +sums):\n%s", diff)
		}
		if diff := cmp.Diff(one, base.Apply(parts[0].Then(parts[1]))); diff != "" {
			t.Fatalf("joined sum (-one by one +sum):\n%s", diff)
		}
	})
}

func TestRateDelta_is_the_same_as_one_after_the_other(t *testing.T) {
	s := health.Workfront()
	rapid.Check(t, func(t *rapid.T) {
		list, cut := history(t)
		created := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		one, two := health.NewRate(created), health.NewRate(created)
		var parts [2]health.RateDelta
		now := created
		for i, e := range list {
			one = one.After(e.outcome, false, e.at, s)
			half := 0
			if i >= cut {
				half = 1
			}
			parts[half] = parts[half].Add(e.outcome, e.at)
			now = e.at
		}
		if diff := cmp.Diff(one, two.Apply(parts[0], now, s).Apply(parts[1], now, s)); diff != "" {
			t.Fatalf("two sums (-one by one +sums):\n%s", diff)
		}
		if diff := cmp.Diff(one, two.Apply(parts[0].Then(parts[1]), now, s)); diff != "" {
			t.Fatalf("joined sum (-one by one +sum):\n%s", diff)
		}
	})
}
