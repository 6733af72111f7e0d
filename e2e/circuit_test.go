package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

type circuit struct {
	Phase         string
	Cause         string
	OpenedAt      *time.Time
	NextProbeAt   *time.Time
	FailuresInRow int
	Explanation   string
}

// TestCircuit breaks a receiver and mends it: its circuit opens at the fifth
// failure and is shown and told, nothing is sent to it while it is open, and
// the probe that closes it lets everything that waits arrive, once. Nobody
// else notices.
func TestCircuit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	d := newDesk(t, startDev(ctx, t, stateDir(t), steadySteps).state)
	const broken, whole, waiting = "/hooks/broken", "/hooks/whole", 20
	s := d.subscribe(ctx, t, "broken", broken, nil)
	other := d.subscribe(ctx, t, "whole", whole, nil)
	told := d.follow(ctx, t, "circuitBreakerChanged", `, filter: {destinationId: "`+s.Destination.ID+`"}`,
		`... on CircuitBreakerChange { kind phase openedAt nextProbeAt reason destinationId }`)
	var change struct {
		Kind, Phase, Reason   string
		OpenedAt, NextProbeAt *time.Time
	}
	breaker := func() circuit {
		t.Helper()
		var page struct{ CircuitBreakers struct{ Nodes []circuit } }
		d.ask(ctx, t, `query($d: ID!) { circuitBreakers(filter: {destinationId: $d}) { nodes {
			phase cause openedAt nextProbeAt failuresInRow explanation } } }`, map[string]any{"d": s.Destination.ID}, &page)
		if len(page.CircuitBreakers.Nodes) != 1 {
			return circuit{}
		}
		return page.CircuitBreakers.Nodes[0]
	}

	script(ctx, t, d.st, broken, `{"answers":[{"status":500}]}`)
	d.publish(ctx, t, "broken", numbered("b", waiting)...)
	var open circuit
	eventually(ctx, t, func() bool { open = breaker(); return open.Phase == "OPEN" },
		func() string { return fmt.Sprintf("the circuit is %+v", open) })
	if open.OpenedAt == nil || open.NextProbeAt == nil || open.FailuresInRow < 5 || open.Cause != "FAILURES_IN_A_ROW" {
		t.Errorf("the open circuit is shown as %+v", open)
	} else if wait := open.NextProbeAt.Sub(*open.OpenedAt); wait != 30*time.Second {
		t.Errorf("the first probe comes %s after the opening, want 30 s", wait)
	}
	told.next(ctx, t, &change)
	if change.Kind != "CIRCUIT_OPENED" || change.Phase != "OPEN" || change.OpenedAt == nil || change.NextProbeAt == nil {
		t.Errorf("told of the opening was %+v", change)
	}
	d.all(ctx, t, s.ID, waiting, "waiting behind the circuit", func(one stands) bool {
		return one.State == "WAITING" && strings.Contains(one.Explanation, "circuit open since")
	})

	// Attempts that were under way at the opening are over by now. The receiver
	// is left alone, while the other tenant's deliveries go on.
	before := len(d.came(ctx, t, broken))
	if before < 5 || before >= 5+8 {
		t.Errorf("%d requests came before the circuit opened; 5 open it, with 8 workers", before)
	}
	// The last attempt of a delivery would run, but none has got that far.
	sent := 0
	quiet(ctx, t, 10*time.Second, func() bool {
		d.publish(ctx, t, "whole", fmt.Sprintf("w-%d", sent))
		sent++
		return len(d.came(ctx, t, broken)) == before
	}, func() string {
		return fmt.Sprintf("%d requests came while the circuit was open", len(d.came(ctx, t, broken))-before)
	})
	eventually(ctx, t, func() bool { return len(d.came(ctx, t, whole)) == sent }, func() string {
		return fmt.Sprintf("of %d events of the other tenant %d arrived", sent, len(d.came(ctx, t, whole)))
	})

	script(ctx, t, d.st, broken, `{"answers":[{"status":200}]}`)
	list := d.all(ctx, t, s.ID, waiting, "delivered after the circuit closed", in("DELIVERED"))
	d.numbersAreReal(ctx, t, broken, list)
	if c := breaker(); c.Phase != "CLOSED" && c.Phase != "" {
		t.Errorf("after the recovery the circuit is %+v", c)
	}
	for _, want := range []string{"CIRCUIT_HALF_OPEN", "CIRCUIT_CLOSED"} {
		if told.next(ctx, t, &change); change.Kind != want {
			t.Errorf("told was %+v, want %s", change, want)
		}
	}
	first := d.came(ctx, t, broken)[before]
	if at := first.ReceivedAt; open.NextProbeAt != nil && at.Before(*open.NextProbeAt) {
		t.Errorf("the probe came at %s, not before %s was said", at, open.NextProbeAt)
	}
	for _, one := range d.deliveries(ctx, t, other.ID) {
		if one.State != "DELIVERED" || one.AttemptCount != 1 {
			t.Errorf("the other tenant's %s is %s after %d attempts", one.Event.CeID, one.State, one.AttemptCount)
		}
	}
}
