package health_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

func TestRateSettingsOf(t *testing.T) {
	all := hub.FailurePolicy{
		Kind: hub.FailureRate, Percent: 50, MinAttempts: 10, DisableRow: 20, FreezeRow: 30, FreezeAgeMillis: 3_600_000, FreezeAnyRow: 40, TryEveryMillis: 60_000,
	}
	if got, want := health.RateSettingsOf(all), (health.RateSettings{
		Percent: 50, MinAttempts: 10, DisableRow: 20, FreezeRow: 30, FreezeAge: time.Hour, FreezeAnyRow: 40, TryEvery: time.Minute,
	}); got != want {
		t.Errorf("every_threshold_is_taken: %+v", got)
	}
	if got := health.RateSettingsOf(hub.FailurePolicy{Kind: hub.FailureRate}); got != health.Workfront() {
		t.Errorf("absent_thresholds_are_those_of_workfront: %+v", got)
	}
	one := health.Workfront()
	one.Percent = 90
	if got := health.RateSettingsOf(hub.FailurePolicy{Percent: 90}); got != one {
		t.Errorf("the_others_stay: %+v", got)
	}
	if err := health.RateSettingsOf(hub.FailurePolicy{Percent: -1}).Validate(); err == nil {
		t.Error("a_malformed_one_is_left_for_Validate: it was replaced")
	}
}
