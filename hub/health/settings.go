package health

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// RateSettingsOf are the thresholds of a destination's FAILURE_RATE policy;
// each that is 0 is that of Workfront. What was stored is not judged here, see
// RateSettings.Validate.
func RateSettingsOf(p hub.FailurePolicy) RateSettings {
	s := Workfront()
	for _, one := range []struct {
		to    *int64
		given int64
	}{
		{&s.Percent, p.Percent}, {&s.MinAttempts, p.MinAttempts}, {&s.DisableRow, p.DisableRow},
		{&s.FreezeRow, p.FreezeRow}, {&s.FreezeAnyRow, p.FreezeAnyRow},
	} {
		if one.given != 0 {
			*one.to = one.given
		}
	}
	if p.FreezeAgeMillis != 0 {
		s.FreezeAge = time.Duration(p.FreezeAgeMillis) * time.Millisecond
	}
	if p.TryEveryMillis != 0 {
		s.TryEvery = time.Duration(p.TryEveryMillis) * time.Millisecond
	}
	return s
}
