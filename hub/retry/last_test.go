package retry_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func TestLastFrom(t *testing.T) {
	received := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	skipped, due := received.Add(time.Minute), received.Add(time.Hour)
	curve := hub.RetryPolicy{Kind: hub.RetryCurve}
	long := hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{36_000_000, 36_000_000, 36_000_000}}
	for _, row := range []struct {
		name    string
		policy  hub.RetryPolicy
		attempt int32
		want    time.Time
	}{
		{"curve_by_age", curve, 7, received.Add(24 * time.Hour)},
		{"curve_by_number", curve, 8, due},
		{"past_the_number", curve, 9, due},
		{"schedule_of_30_h", long, 2, received.Add(30 * time.Hour)},
		{"schedule_of_one_step", hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}, 1, due},
		{"exponential_from_the_first_skip", retry.Workfront(false), 10, skipped.Add(48 * time.Hour)},
		{"exponential_by_number", retry.Workfront(false), 11, due},
		{"elapsed_has_one_more", retry.Workfront(true), 11, skipped.Add(48 * time.Hour)},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := retry.LastFrom(row.policy, row.attempt, due, received, skipped); !got.Equal(row.want) {
				t.Errorf("last from %v, want %v", got, row.want)
			}
		})
	}
}
