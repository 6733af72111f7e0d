package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// FailurePolicies shows what the failure policies know of event subscriptions
// and destinations. The data plane keeps it and acts on it.
type FailurePolicies struct {
	DB *db.DB
	// Span has the gates by which the data plane judges.
	Span health.SpanSettings
	// KillSwitch says that verdicts are shown and not acted on.
	KillSwitch bool
	Now        func() time.Time
}

// Spans gives up to limit failure spans behind the event subscription before,
// the subscriptions made last first, and the snapshot of the page.
func (p *FailurePolicies) Spans(ctx context.Context, a Actor, f db.SpanFilter, before hub.ID, limit int) (page db.Page[db.FailureSpan], snapshot string, err error) {
	tenant, none := a.narrow(f.Tenant)
	if none {
		snapshot, err = p.DB.FeedSnapshot(ctx)
		return page, snapshot, err
	}
	f.Tenant = tenant
	return p.DB.SpanPage(ctx, f, before, limit)
}

// SpansOf gives the failure spans of event subscriptions, as far as the actor
// sees them; one that is missing has none.
func (p *FailurePolicies) SpansOf(ctx context.Context, a Actor, ids []hub.SubscriptionID) ([]db.FailureSpan, error) {
	list, err := p.DB.SpansOf(ctx, ids)
	return slices.DeleteFunc(list, func(s db.FailureSpan) bool { return !a.Sees(s.Tenant) }), err
}

// RatesOf gives the failure rates of destinations, as far as the actor sees
// them.
func (p *FailurePolicies) RatesOf(ctx context.Context, a Actor, ids []hub.DestinationID) ([]db.StoredRate, error) {
	list, err := p.DB.RatesOf(ctx, ids)
	return slices.DeleteFunc(list, func(r db.StoredRate) bool { return !a.Sees(r.Tenant) }), err
}

// Verdict judges a span now.
func (p *FailurePolicies) Verdict(s health.Span) health.Verdict { return s.Verdict(p.Now(), p.Span) }

// RateOf is the failure rate as it is shown: that of a destination which was
// not judged yet has counted nothing.
func RateOf(d *hub.Destination, known *db.StoredRate) health.Rate {
	r := health.NewRate(d.CreatedAt)
	if known != nil {
		r = known.Rate
	}
	if r.Judged == "" {
		r.Judged = health.Active
	}
	return r
}

// Shown is a failure rate with the verdict that the kill switch keeps from
// being acted on: what is stored then has the counts only.
func (p *FailurePolicies) Shown(d *hub.Destination, r health.Rate) health.Rate {
	if p.KillSwitch && d.FailurePolicy.Kind == hub.FailureRate {
		r.Judged = r.State(p.Now(), health.RateSettingsOf(d.FailurePolicy))
		r.JudgedAt, r.NextTryAt = time.Time{}, time.Time{}
	}
	return r
}

// ExplainSpan says in one sentence how a failure span stands and what comes
// next.
func (p *FailurePolicies) ExplainSpan(s *db.FailureSpan) string {
	now := p.Now()
	v := s.Span.Verdict(now, p.Span)
	text := fmt.Sprintf("failing since %s, %s, the last one at %s; ",
		clock(now, s.Span.FirstFailureAt), failures(s.Span.FailureCount), clock(now, s.Span.LastFailureAt))
	switch {
	case v.Trips && p.KillSwitch:
		return text + "it would be disabled, and the kill switch keeps it from that"
	case p.KillSwitch && !s.TrippedAt.IsZero():
		return text + "it would be disabled, because its receiver answered 410 Gone, and the kill switch keeps it from that"
	case v.Trips:
		return text + "that is enough to disable it"
	case v.Spread:
		return text + "it is disabled at " + clock(now, v.WouldTripAt) + " if nothing changes" + p.unlessKilled()
	}
	return text + fmt.Sprintf("nothing follows unless it fails again at %s or later",
		clock(now, s.Span.FirstFailureAt.Add(p.Span.Spread)))
}

func (p *FailurePolicies) unlessKilled() string {
	if p.KillSwitch {
		return " and the kill switch is released"
	}
	return ""
}

// ExplainRate says the same of a destination under FAILURE_RATE.
func (p *FailurePolicies) ExplainRate(d *hub.Destination, r health.Rate) string {
	now := p.Now()
	counts := fmt.Sprintf("%d of %s failed since it was last enabled, %s in a row", r.Failures, attempts(r.Attempts), failures(r.Row))
	if r.Row == 0 {
		counts = fmt.Sprintf("%d of %s failed since it was last enabled", r.Failures, attempts(r.Attempts))
	}
	if p.KillSwitch && (r.Judged == health.Disabled || r.Judged == health.Frozen) {
		return fmt.Sprintf("active: %s; it would be %s, and the kill switch keeps it from that", counts, strings.ToLower(string(r.Judged)))
	}
	switch r.Judged {
	case health.Frozen:
		return fmt.Sprintf("frozen since %s: %s; nothing is tried until somebody enables it", clock(now, r.JudgedAt), counts)
	case health.Disabled:
		text := fmt.Sprintf("disabled since %s: %s; ", clock(now, r.JudgedAt), counts)
		if due, _ := r.TryDue(now, health.RateSettingsOf(d.FailurePolicy)); due.After(now) {
			return text + "one delivery is tried at " + clock(now, due)
		}
		return text + "the next delivery that is due is tried"
	}
	return "active: " + counts
}
