package retry_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// policyOf reads a row's policy: a name, or the steps of a SCHEDULE in seconds.
func policyOf(t *testing.T, raw json.RawMessage) hub.RetryPolicy {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		switch name {
		case "CURVE":
			return hub.RetryPolicy{Kind: hub.RetryCurve}
		case "WORKFRONT":
			return retry.Workfront(false)
		case "WORKFRONT_ELAPSED":
			return retry.Workfront(true)
		}
	}
	var schedule struct {
		Seconds []int64 `json:"SCHEDULE_S"`
	}
	if err := json.Unmarshal(raw, &schedule); err != nil || schedule.Seconds == nil {
		t.Fatalf("policy %s is unknown: %v", raw, err)
	}
	p := hub.RetryPolicy{Kind: hub.RetrySchedule}
	for _, s := range schedule.Seconds {
		p.StepsMillis = append(p.StepsMillis, s*1000)
	}
	return p
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/retry.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Name          string
			Policy        json.RawMessage
			FailedAttempt int32 `json:"failed_attempt"`
			AgeMillis     int64 `json:"attempt_started_age_ms"`
			Jitter        float64
			WaitMillis    *int64 `json:"wait_ms"`
			Cumulative    *int64 `json:"cumulative_ms"`
			Dead          hub.DeadReason

			Retry             int32
			SinceFirstFailure int64 `json:"since_first_failure_ms"`

			Now        string
			Status     int32
			RetryAfter string `json:"retry_after"`
			LowerBound *int64 `json:"lower_bound_ms"`
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, row := range vectors.Rows {
		t.Run(row.Name, func(t *testing.T) {
			switch {
			case row.Status != 0:
				now, err := http.ParseTime(row.Now)
				if err != nil {
					t.Fatal(err)
				}
				got, ok := retry.RetryAfter(row.Status, row.RetryAfter, now)
				if ok != (row.LowerBound != nil) || ok && got.Milliseconds() != *row.LowerBound {
					t.Errorf("RetryAfter = %v, %v", got, ok)
				}
			case row.Retry != 0:
				steps := retry.Preview(policyOf(t, row.Policy))
				if got := steps[row.Retry].Earliest.Milliseconds(); got != row.SinceFirstFailure {
					t.Errorf("retry %d comes %d ms after the first failure, want %d", row.Retry, got, row.SinceFirstFailure)
				}
			default:
				age := time.Duration(row.AgeMillis) * time.Millisecond
				p := policyOf(t, row.Policy)
				// CURVE and SCHEDULE look at the first age, EXPONENTIAL at the second.
				f := retry.Failed{Attempt: row.FailedAttempt, StartedAge: age, Jitter: row.Jitter}
				if p.Kind == hub.RetryExponential {
					f.StartedAge, f.SinceFirstFailure = 0, age
				}
				got := retry.Next(p, f)
				if got.Dead != row.Dead || row.WaitMillis != nil && got.Wait != time.Duration(*row.WaitMillis)*time.Millisecond {
					t.Errorf("Next = %+v", got)
				}
				if row.Cumulative != nil {
					if at := retry.Preview(p)[row.FailedAttempt].Earliest.Milliseconds(); at != *row.Cumulative {
						t.Errorf("waits sum to %d ms, want %d", at, *row.Cumulative)
					}
				}
			}
		})
	}
	if len(vectors.Rows) < 50 {
		t.Fatalf("only %d rows", len(vectors.Rows))
	}
}
