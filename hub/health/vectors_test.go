package health_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub/health"
)

var start = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

func seconds(n int64) time.Time { return start.Add(time.Duration(n) * time.Second) }

// spanOutcome is [second, "fail" or "ok"] in the vectors.
type spanOutcome struct {
	second  int64
	outcome health.Outcome
}

func (o *spanOutcome) UnmarshalJSON(text []byte) error {
	var word string
	if err := json.Unmarshal(text, &[]any{&o.second, &word}); err != nil {
		return err
	}
	o.outcome = map[string]health.Outcome{"fail": health.Failed, "ok": health.Succeeded}[word]
	return nil
}

// rateOutcomes are counts in the vectors; failures come last in all of them.
type rateOutcomes struct {
	Fail, OK       int
	Order          string
	LastSuccessAge *int64 `json:"last_success_age_s"`
	CreatedAge     *int64 `json:"created_age_s"`
}

// rate plays the counts; everything happens at judged, but for the last
// success or the creation when the row gives its age.
func (o rateOutcomes) rate(judged time.Time) health.Rate {
	created, success := judged, judged
	if o.CreatedAge != nil {
		created = judged.Add(-time.Duration(*o.CreatedAge) * time.Second)
	}
	if o.LastSuccessAge != nil {
		success = judged.Add(-time.Duration(*o.LastSuccessAge) * time.Second)
		created = success
	}
	r := health.NewRate(created)
	for range o.OK {
		r = r.After(health.Succeeded, false, success, health.Workfront())
	}
	for range o.Fail {
		r = r.After(health.Failed, false, judged, health.Workfront())
	}
	return r
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/health.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Name, Policy string
			Outcomes     json.RawMessage
			JudgedAt     int64 `json:"judged_at_s"`
			Trips        bool
			State        health.RateState
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, row := range vectors.Rows {
		t.Run(row.Name, func(t *testing.T) {
			switch row.Policy {
			case "FAILURE_SPAN":
				var outcomes []spanOutcome
				if err := json.Unmarshal(row.Outcomes, &outcomes); err != nil {
					t.Fatal(err)
				}
				var sp health.Span
				for _, o := range outcomes {
					if o.outcome == health.Neutral {
						t.Fatalf("unknown outcome at second %d", o.second)
					}
					sp = sp.After(o.outcome, seconds(o.second))
				}
				if v := sp.Verdict(seconds(row.JudgedAt), health.DefaultSpan()); v.Trips != row.Trips {
					t.Errorf("Verdict = %+v, want trips %v", v, row.Trips)
				}
			case "FAILURE_RATE":
				var o rateOutcomes
				if err := json.Unmarshal(row.Outcomes, &o); err != nil {
					t.Fatal(err)
				}
				if o.Order != "" && o.Order != "ok_first" {
					t.Fatalf("unknown order %q", o.Order)
				}
				judged := seconds(1_000_000)
				r := o.rate(judged)
				if got := r.State(judged, health.Workfront()); got != row.State {
					t.Errorf("State = %s, want %s", got, row.State)
				}
				if kept := r.Judged; kept != row.State && (kept != "" || row.State != health.Active) {
					t.Errorf("After kept %q, want %s", kept, row.State)
				}
			default:
				t.Fatalf("unknown policy %q", row.Policy)
			}
		})
	}
	if len(vectors.Rows) < 17 {
		t.Fatalf("only %d rows", len(vectors.Rows))
	}
}
