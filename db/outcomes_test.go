package db_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// outcome is what a worker would record of a claim.
func outcome(c db.Claim, state hub.State) hub.Outcome {
	o := hub.Outcome{
		Delivery: c.Delivery, Token: c.LeaseToken, EventType: "loan.approved", Source: "lender",
		Attempt: hub.Attempt{
			ID: hub.AttemptID{ID: newID()}, Number: c.Delivery.Attempts + 1, Started: time.Now(),
			Answer: hub.Answer{Status: 200}, Timings: hub.Timings{Total: 1500},
		},
		Decision: hub.Decision{State: state, Counted: true, Reason: "because"},
	}
	if state != hub.Delivered {
		o.Attempt.Answer.Status = 500
		o.Attempt.Failure = hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: "the receiver answered 500"}
	}
	switch state {
	case hub.Waiting:
		o.Decision.NextAt = time.Now().Add(time.Hour)
	case hub.Dead:
		o.Decision.DeadReason = hub.DeadExhausted
	}
	return o
}

func (l *lab) record(outcomes ...hub.Outcome) map[hub.DeliveryID]bool {
	l.Helper()
	recorded, err := l.db.RecordOutcomes(l.Context(), newID(), outcomes)
	if err != nil {
		l.Fatal(err)
	}
	return recorded
}

// feed reads all items of the live feed.
func (l *lab) feed() (items []db.FeedItem) {
	l.Helper()
	rows, err := l.raw.Query(l.Context(), "SELECT items FROM outcome_feed ORDER BY xid, id")
	if err != nil {
		l.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var lines []byte
		if err := rows.Scan(&lines); err != nil {
			l.Fatal(err)
		}
		some, err := db.ParseFeedItems(lines)
		if err != nil {
			l.Fatal(err)
		}
		items = append(items, some...)
	}
	return items
}

func (l *lab) wantNothingWritten() {
	l.Helper()
	for _, table := range []string{"attempts", "delivery_results", "outcome_feed"} {
		l.wantCount("rows of "+table, 0, "SELECT count(*) FROM "+table)
	}
}

func TestRecordOutcomes(t *testing.T) {
	t.Parallel()
	// one is a lab with one claimed delivery.
	one := func(t *testing.T) (*lab, db.Claim) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		l.queue(lane, 1)
		return l, l.claim(lane, 1, time.Minute)[0]
	}
	for _, state := range []hub.State{hub.Delivered, hub.Waiting, hub.Dead} {
		t.Run("stale_token_writes_nothing/"+string(state), func(t *testing.T) {
			l, c := one(t)
			o := outcome(c, state)
			o.Token++
			if recorded := l.record(o); len(recorded) != 0 {
				t.Errorf("recorded = %v", recorded)
			}
			l.wantNothingWritten()
			l.wantCount("rows as they were", 1,
				"SELECT count(*) FROM delivery_queue WHERE lease_token = $1 AND attempts = 0 AND due_at <= now()", c.LeaseToken)
		})
	}
	t.Run("delivered_leaves_the_queue", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Delivered)
		if recorded := l.record(o); !recorded[c.Delivery.ID] {
			t.Error("it does not count as recorded")
		}
		l.wantCount("queue rows", 0, "SELECT count(*) FROM delivery_queue")
		l.wantCount("results of a success", 0, "SELECT count(*) FROM delivery_results")
		l.wantCount("attempts", 1, `SELECT count(*) FROM attempts WHERE id = $1 AND delivery_id = $2 AND tenant_id = 'acme'
			AND state = 'DELIVERED' AND status = 200 AND error_class = '' AND number = 1 AND run = 1 AND next_at IS NULL AND total_us = 1500`,
			text(o.Attempt.ID), text(c.Delivery.ID))
		if again := l.record(o); len(again) != 0 {
			t.Error("the same outcome was recorded twice")
		}
		l.wantCount("attempts after a second flush of the same", 1, "SELECT count(*) FROM attempts")
	})
	t.Run("waiting_moves_on_and_counts", func(t *testing.T) {
		l, c := one(t)
		l.exec("UPDATE delivery_queue SET reclaims = 3")
		o := outcome(c, hub.Waiting)
		l.record(o)
		l.wantCount("rows that wait", 1, `SELECT count(*) FROM delivery_queue WHERE attempts = 1 AND run_attempts = 1 AND reclaims = 0
			AND lease_token IS NULL AND leased_until IS NULL AND abs(extract(epoch FROM due_at - $1::timestamptz)) < 0.001
			AND abs(extract(epoch FROM first_failed_at - $2::timestamptz)) < 0.001`, o.Decision.NextAt, o.Attempt.Started)
		l.wantCount("attempts with their next", 1, "SELECT count(*) FROM attempts WHERE state = 'WAITING' AND next_at > now()")

		// The first failure stays the first.
		l.exec("UPDATE delivery_queue SET due_at = now(), first_failed_at = now() - interval '1 day'")
		c = l.claim(db.Lane{Tenant: "acme", Destination: c.Delivery.Destination}, 1, time.Minute)[0]
		l.record(outcome(c, hub.Waiting))
		l.wantCount("second failures", 1, `SELECT count(*) FROM delivery_queue WHERE attempts = 2 AND run_attempts = 2
			AND first_failed_at < now() - interval '23 h'`)
	})
	t.Run("uncounted_try_raises_the_number_only", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Waiting)
		o.Decision.Counted = false
		l.record(o)
		l.wantCount("rows", 1, "SELECT count(*) FROM delivery_queue WHERE attempts = 1 AND run_attempts = 0")
	})
	t.Run("dead_keeps_its_result", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Dead)
		l.record(o)
		l.wantCount("queue rows", 0, "SELECT count(*) FROM delivery_queue")
		l.wantCount("results", 1, `SELECT count(*) FROM delivery_results WHERE delivery_id = $1 AND run = 1 AND state = 'DEAD'
			AND dead_reason = 'EXHAUSTED' AND last_error = 'the receiver answered 500' AND tenant_id = 'acme'`, text(c.Delivery.ID))
		items := l.feed()
		if len(items) != 1 || items[0].State != hub.Dead || items[0].DeadReason != hub.DeadExhausted || items[0].ErrorClass != hub.ErrStatus {
			t.Errorf("feed = %+v", items)
		}
	})
	t.Run("fingerprint_of_the_dead_is_kept", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Dead)
		o.Decision.Fingerprint = []byte("0123456789abcdef")
		l.record(o)
		l.wantCount("results", 1, "SELECT count(*) FROM delivery_results WHERE fingerprint = '0123456789abcdef'")
		if items := l.feed(); len(items) != 1 || string(items[0].Fingerprint) != "0123456789abcdef" {
			t.Errorf("feed = %+v", items)
		}
	})
	t.Run("dead_without_a_cause_has_no_fingerprint", func(t *testing.T) {
		l, c := one(t)
		l.record(outcome(c, hub.Dead))
		l.wantCount("results", 1, "SELECT count(*) FROM delivery_results WHERE fingerprint IS NULL")
	})
	t.Run("waiting_keeps_from_when_on_it_is_the_last_and_forgets_that_it_ran_alone", func(t *testing.T) {
		l, c := one(t)
		if ok, err := l.db.BeginAlone(t.Context(), c, time.Minute); err != nil || !ok {
			t.Fatal(ok, err)
		}
		o := outcome(c, hub.Waiting)
		o.Decision.LastAt = o.Decision.NextAt.Add(time.Hour)
		l.record(o)
		l.wantCount("rows", 1, `SELECT count(*) FROM delivery_queue WHERE NOT alone
			AND abs(extract(epoch FROM last_at - $1::timestamptz)) < 0.001`, o.Decision.LastAt)
	})
	t.Run("end_without_an_attempt_has_a_result_and_a_feed_item_only", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		l.queue(lane, 2)
		l.exec("UPDATE delivery_queue SET attempts = 4, run = 2")
		claims := l.claim(lane, 2, time.Minute)
		o := outcome(claims[0], hub.Dead)
		o.Attempt = hub.Attempt{ID: o.Attempt.ID, Started: o.Attempt.Started, Failure: hub.Failure{Detail: "it crashed 5 workers"}}
		o.Decision.DeadReason, o.Decision.Counted = hub.DeadPoison, false
		if !l.record(o, outcome(claims[1], hub.Delivered))[o.Delivery.ID] {
			t.Error("it does not count as recorded")
		}
		l.wantCount("queue rows", 0, "SELECT count(*) FROM delivery_queue")
		l.wantCount("attempts, that of the other delivery", 1, "SELECT count(*) FROM attempts")
		l.wantCount("attempts of the one that ended", 0, "SELECT count(*) FROM attempts WHERE delivery_id = $1", text(o.Delivery.ID))
		l.wantCount("results", 1, `SELECT count(*) FROM delivery_results WHERE id = $1 AND delivery_id = $2 AND run = 2 AND state = 'DEAD'
			AND dead_reason = 'POISON' AND last_error = 'it crashed 5 workers'`, text(o.Attempt.ID), text(o.Delivery.ID))
		items := l.feed()
		if len(items) != 2 {
			t.Fatalf("feed = %+v", items)
		}
		if i := items[0]; i.Attempted() || i.Number != 4 || i.State != hub.Dead || i.DeadReason != hub.DeadPoison ||
			i.EventType != "loan.approved" || i.StartedMicros != o.Attempt.Started.UnixMicro() {
			t.Errorf("feed item = %+v", i)
		}
		if i := items[1]; !i.Attempted() || i.Number != 5 {
			t.Errorf("feed item of the attempt = %+v", i)
		}
	})
	t.Run("end_without_an_attempt_needs_the_lease_too", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Dead)
		o.Attempt.Number = 0
		o.Token++
		if recorded := l.record(o); len(recorded) != 0 {
			t.Errorf("recorded = %v", recorded)
		}
		l.wantNothingWritten()
	})
	t.Run("feed_holds_exactly_what_was_recorded", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		l.queue(lane, 4)
		claims := l.claim(lane, 4, time.Minute)
		states := []hub.State{hub.Delivered, hub.Waiting, hub.Dead, hub.Delivered}
		var flush []hub.Outcome
		for i, c := range claims {
			flush = append(flush, outcome(c, states[i]))
		}
		flush[3].Token++
		recorded := l.record(flush...)
		items := l.feed()
		if len(recorded) != 3 || len(items) != 3 {
			t.Fatalf("%d recorded, %d in the feed, want 3", len(recorded), len(items))
		}
		for i, item := range items {
			o := flush[i]
			if item.Delivery != o.Delivery.ID || item.Attempt != o.Attempt.ID || item.State != o.Decision.State || item.Tenant != "acme" ||
				item.EventType != "loan.approved" || item.Source != "lender" || item.Number != 1 || item.TotalMicros != 1500 ||
				item.StartedMicros != o.Attempt.Started.UnixMicro() || (item.NextMicros != 0) != (o.Decision.State == hub.Waiting) {
				t.Errorf("item %d = %+v", i, item)
			}
		}
		l.wantCount("feed rows of one flush", 1, "SELECT count(*) FROM outcome_feed")
	})
	// A worker that stood still and the one that took over may meet in one
	// flush of the same process.
	for _, staleFirst := range []bool{true, false} {
		for _, state := range []hub.State{hub.Delivered, hub.Waiting} {
			name := "two_tokens_of_one_delivery_in_one_flush/" + string(state)
			if staleFirst {
				name += "_stale_first"
			}
			t.Run(name, func(t *testing.T) {
				l, c := one(t)
				good, stale := outcome(c, state), outcome(c, hub.Waiting)
				stale.Token++
				flush := []hub.Outcome{good, stale}
				if staleFirst {
					flush = []hub.Outcome{stale, good}
				}
				l.record(flush...)
				l.wantCount("attempts", 1, "SELECT count(*) FROM attempts")
				l.wantCount("attempts under the token that holds", 1, "SELECT count(*) FROM attempts WHERE id = $1", text(good.Attempt.ID))
				if items := l.feed(); len(items) != 1 || items[0].Attempt != good.Attempt.ID {
					t.Errorf("feed = %+v, want the outcome under the token that holds", items)
				}
			})
		}
	}
	t.Run("hostile_texts_are_kept", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Dead)
		hostile := "'; DROP TABLE attempts; -- \" \\ \\u0000 $1 \x01\x1f\u2028 \uFFFD 😀"
		o.Attempt.Failure.Detail = hostile
		o.Attempt.Answer.Snippet = strings.Repeat("😀", 4096)
		o.Attempt.Answer.Headers = []hub.Header{{Name: "X-\uFFFD", Value: hostile}}
		o.EventType, o.Decision.Reason = hostile, hostile
		if !l.record(o)[c.Delivery.ID] {
			t.Fatal("not recorded")
		}
		var detail []byte
		var lastError string
		if err := l.raw.QueryRow(t.Context(), "SELECT a.detail, r.last_error FROM attempts a, delivery_results r").Scan(&detail, &lastError); err != nil {
			t.Fatal(err)
		}
		var got db.AttemptDetail
		if err := json.Unmarshal(detail, &got); err != nil {
			t.Fatal(err)
		}
		if got.Snippet != o.Attempt.Answer.Snippet || got.ResponseHeaders[0].Value != hostile || got.Reason != hostile ||
			got.FailureDetail != hostile || lastError != hostile || got.DeadReason != hub.DeadExhausted || !got.Counted {
			t.Errorf("detail = %+v, last error %q", got, lastError)
		}
		if items := l.feed(); items[0].EventType != hostile {
			t.Errorf("feed's event type = %q", items[0].EventType)
		}
	})
	t.Run("failed_flush_leaves_nothing", func(t *testing.T) {
		l, c := one(t)
		o := outcome(c, hub.Dead)
		o.Decision.State = "NO_SUCH_STATE"
		if _, err := l.db.RecordOutcomes(t.Context(), newID(), []hub.Outcome{o}); err == nil {
			t.Fatal("an unknown state was recorded")
		}
		l.wantNothingWritten()
		l.wantCount("queue rows under their lease", 1, "SELECT count(*) FROM delivery_queue WHERE lease_token = $1", c.LeaseToken)
	})
}
