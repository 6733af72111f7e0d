package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Breakers shows circuit breakers, and what else makes the deliveries of a
// destination wait.
type Breakers struct {
	DB *db.DB
	// Keys are those that signing secrets are opened with.
	Keys *secret.Keyring
}

// Page gives up to limit circuit breakers behind the destination before, the
// destinations made last first, and the snapshot of the page.
func (b *Breakers) Page(ctx context.Context, a Actor, f db.BreakerFilter, before hub.ID, limit int) (page db.Page[db.StoredBreaker], snapshot string, err error) {
	tenant, none := a.narrow(f.Tenant)
	if none {
		snapshot, err = b.DB.FeedSnapshot(ctx)
		return page, snapshot, err
	}
	f.Tenant = tenant
	return b.DB.BreakerPage(ctx, f, before, limit)
}

// Of gives the circuit breakers of destinations, as far as the actor sees them;
// one that is missing is closed.
func (b *Breakers) Of(ctx context.Context, a Actor, ids []hub.DestinationID) ([]db.StoredBreaker, error) {
	list, err := b.DB.BreakersOf(ctx, ids)
	return slices.DeleteFunc(list, func(s db.StoredBreaker) bool { return !a.Sees(s.Tenant) }), err
}

// Gate is what can make deliveries wait besides circuit breaker and health.
type Gate struct {
	FreeAt time.Time // from when on the rate limit lets one start; zero for now
	NoKey  bool      // nothing can be signed
}

// Gates gives the gates of destinations that the caller has already seen.
func (b *Breakers) Gates(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]Gate, error) {
	stored, err := b.DB.GatesOf(ctx, ids)
	known := b.Keys.KeyIDs()
	gates := make(map[hub.DestinationID]Gate, len(stored))
	for id, g := range stored {
		gates[id] = Gate{
			FreeAt: g.FreeAt,
			NoKey:  len(g.KeyIDs) == 0 || slices.ContainsFunc(g.KeyIDs, func(key string) bool { return !slices.Contains(known, key) }),
		}
	}
	return gates, err
}

// ExplainBreaker says in one sentence how a circuit stands and what comes next.
func ExplainBreaker(now time.Time, s breaker.State) string {
	switch {
	case isOpen(s):
		return "open since " + clock(now, s.OpenedAt) + whyOpen(s) + "; " + nextProbe(now, s) + ", and last attempts of deliveries run"
	case s.RampLimit > 0:
		return fmt.Sprintf("closed since %s; the backlog is let through slowly, %s at a time in each process, one more with each success",
			clock(now, s.ClosedAt), attempts(int64(s.RampLimit)))
	case s.Failures > 0:
		return fmt.Sprintf("closed; %s in a row, %d open it", failures(int64(s.Failures)), breaker.OpenRow)
	}
	return "closed; attempts run as they are due"
}

func isOpen(s breaker.State) bool { return s.Phase == breaker.Open || s.Phase == breaker.HalfOpen }

// whyOpen is the cause as part of a sentence.
func whyOpen(s breaker.State) string {
	switch s.Cause {
	case breaker.CauseRow:
		return fmt.Sprintf(", after %s in a row", failures(int64(max(s.Failures, breaker.OpenRow))))
	case breaker.CauseRatio:
		return ", because at least half of the attempts within two minutes had failed"
	case breaker.CauseEnabled:
		return ", when the destination was enabled again"
	}
	return ""
}

// nextProbe tells of the probe under way or of the next one.
func nextProbe(now time.Time, s breaker.State) string {
	switch {
	case breaker.Admit(s, now, false).Probe:
		return "the next delivery that is due is the probe"
	case s.Phase == breaker.HalfOpen:
		return "a probe is under way since " + clock(now, s.Probe.StartedAt)
	}
	return "next probe " + clock(now, s.NextProbeAt)
}

func attempts(n int64) string { return counted(n, "attempt") }
func failures(n int64) string { return counted(n, "failure") }

// counted is a number with its noun.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
