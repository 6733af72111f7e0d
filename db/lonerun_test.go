package db_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// leaseEnds makes all leases end without an outcome.
func (l *lab) leaseEnds() {
	l.Helper()
	l.exec("UPDATE delivery_queue SET leased_until = now() - interval '1 ms' WHERE lease_token IS NOT NULL")
}

// Only runs that began alone are counted, after the first lease that ended.
func TestReclaims(t *testing.T) {
	t.Parallel()
	// What becomes of a claim, and how many reclaims the next claim tells.
	const (
		lost     = "lost"          // its lease ends
		alone    = "alone, lost"   // and it had begun alone
		released = "released"      // given back
		begun    = "alone, given"  // given back after it had begun alone
		failed   = "failed"        // an outcome, and a further attempt
		retried  = "alone, failed" // the same of a lone run
	)
	for _, row := range []struct {
		rule  string
		steps []string
		want  []int16
	}{
		{"first_ended_lease_is_1_and_stays_1_while_none_runs_alone", []string{lost, lost, lost}, []int16{1, 1, 1}},
		{"each_lone_run_that_ends_so_is_1_more", []string{lost, alone, alone, alone}, []int16{1, 2, 3, 4}},
		{"lease_that_ended_before_the_lone_run_began_counts_nothing", []string{lost, alone, lost, alone}, []int16{1, 2, 2, 3}},
		{"outcome_makes_it_0", []string{lost, alone, failed, lost}, []int16{1, 2, 0, 1}},
		{"outcome_of_a_lone_run_makes_it_0", []string{lost, retried, lost, alone}, []int16{1, 0, 1, 2}},
		{"release_keeps_it", []string{lost, alone, released, alone}, []int16{1, 2, 2, 3}},
		{"release_of_a_lone_run_is_no_failure_of_it", []string{lost, begun, lost, begun}, []int16{1, 1, 1, 1}},
		{"never_lost_stays_0", []string{failed, released, failed}, []int16{0, 0, 0}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			lane := laneOf("acme")
			l.queue(lane, 1)
			c := l.claim(lane, 1, time.Minute)[0]
			for i, step := range row.steps {
				switch step {
				case alone, begun, retried:
					if ok, err := l.db.BeginAlone(t.Context(), c, time.Minute); err != nil || !ok {
						t.Fatalf("step %d: the lone run does not begin: %v", i, err)
					}
				}
				switch step {
				case lost, alone:
					l.leaseEnds()
				case released, begun:
					if err := l.db.ReleaseLeases(t.Context(), []db.Release{{Claim: c}}); err != nil {
						t.Fatal(err)
					}
				case failed, retried:
					o := outcome(c, hub.Waiting)
					o.Decision.NextAt = time.Now().Add(-time.Second)
					l.record(o)
				}
				claims := l.claim(lane, 1, time.Minute)
				if len(claims) != 1 || claims[0].Reclaims != row.want[i] {
					t.Fatalf("after step %d (%s): %+v, want %d reclaims", i, step, claims, row.want[i])
				}
				c = claims[0]
			}
		})
	}
}

func TestBeginAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane := laneOf("acme")
	l.queue(lane, 1)
	c := l.claim(lane, 1, time.Minute)[0]
	stale := c
	stale.LeaseToken++
	if ok, err := l.db.BeginAlone(t.Context(), stale, time.Hour); err != nil || ok {
		t.Errorf("a claim that was lost begins: %v, %v", ok, err)
	}
	l.wantCount("rows as they were", 1, "SELECT count(*) FROM delivery_queue WHERE NOT alone AND leased_until < now() + interval '61 s'")
	if ok, err := l.db.BeginAlone(t.Context(), c, time.Hour); err != nil || !ok {
		t.Errorf("the claim does not begin: %v, %v", ok, err)
	}
	l.wantCount("rows with a fresh lease", 1, `SELECT count(*) FROM delivery_queue
		WHERE alone AND lease_token = $1 AND leased_until > now() + interval '59 min'`, c.LeaseToken)
	l.record(outcome(c, hub.Delivered))
	if ok, err := l.db.BeginAlone(t.Context(), c, time.Hour); err != nil || ok {
		t.Errorf("a delivery that is settled begins: %v, %v", ok, err)
	}
}
