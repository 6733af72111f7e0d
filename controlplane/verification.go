package controlplane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// Prober sends one request exactly as a delivery is sent.
type Prober interface {
	Probe(ctx context.Context, p Probe) hub.Attempt
}

// Probe is a request to send.
type Probe struct {
	Event     *hub.Event
	Delivery  *hub.Delivery
	AttemptID hub.AttemptID
	URL       string
	Signer    *signing.Signer
	Timeout   time.Duration
	Headers   []hub.Header // custom ones
	// CredentialHeader is the name of the header that holds the credential, ""
	// for none; Certificate is nil for none.
	CredentialHeader string
	Credential       secret.Secret
	Certificate      *ProbeCertificate
}

// ProbeCertificate is a client certificate: a chain and its private key in PEM.
type ProbeCertificate struct {
	Chain string
	Key   secret.Secret
}

// Verification is a subscription after a probe, and what the probe saw; nil of
// a PULL subscription, which needs none.
type Verification struct {
	Subscription hub.EventSubscription
	Probe        *hub.Attempt
}

// Verify asks a subscription's destination whether it wants events, and
// records the answer. Success enables what the hub itself had disabled, and
// never what a person did. Every event stored after the return is matched by
// the new state.
func (s *Subscriptions) Verify(ctx context.Context, a Actor, id hub.SubscriptionID) (Verification, []UserError, error) {
	seen, mistakes, err := s.find(ctx, a, id)
	if err != nil || mistakes != nil {
		return Verification{}, mistakes, err
	}
	if !seen.DeletedAt.IsZero() {
		return Verification{}, []UserError{noSubscription()}, nil
	}
	v := Verification{}
	var probed hub.Destination
	state, text := hub.VerificationActive, ""
	if seen.Kind == hub.SinkWebhook {
		var answer string
		if probed, v.Probe, answer, mistakes, err = s.probe(ctx, &seen); err != nil || mistakes != nil {
			return Verification{}, mistakes, err
		}
		if answer != "" {
			state, text = hub.VerificationFailed, answer
		}
	}
	now := s.now()
	after, err := s.DB.ChangeSubscription(ctx, db.SubscriptionChange{
		Tenant: seen.Tenant, ID: id, Now: now, FeedID: hub.NewID(now, s.Random),
		Decide: func(have db.Subscribed) (db.SubscriptionEdit, error) {
			stale := have.Subscription.Version != seen.Version || have.Subscription.Destination != seen.Destination ||
				seen.Kind == hub.SinkWebhook && have.Destination.Destination.Version != probed.Version
			if stale {
				return db.SubscriptionEdit{}, db.ErrChanged
			}
			return decideVerified(have.Subscription, state, text, now), nil
		},
		Audit: s.auditVerified(a, now),
	})
	if errors.Is(err, db.ErrChanged) {
		return Verification{}, []UserError{userError(Conflict, []string{"input", "id"}, "the event subscription changed while it was verified; verify it again")}, nil
	}
	v.Subscription = after.Subscription
	return v, nil, err
}

// decideVerified is what a probe makes of a subscription. The version stays: it
// counts people's changes.
func decideVerified(next hub.EventSubscription, state hub.VerificationState, text string, now time.Time) db.SubscriptionEdit {
	next.VerificationState, next.VerificationError, next.UpdatedAt = state, text, now
	revive := state == hub.VerificationActive && next.DisabledBy == hub.DisabledByAuto
	if revive {
		enable(&next)
	}
	return db.SubscriptionEdit{Subscription: &next, Restart: revive && next.Kind == hub.SinkWebhook}
}

// probe sends the challenge. answer is "" on success and otherwise what was
// seen, in one sentence.
func (s *Subscriptions) probe(ctx context.Context, sub *hub.EventSubscription) (dest hub.Destination, attempt *hub.Attempt, answer string, mistakes []UserError, err error) {
	d, err := s.DB.DestinationByID(ctx, sub.Destination)
	if err == nil && d == nil {
		err = fmt.Errorf("event subscription %s has no destination", sub.ID)
	}
	if err != nil {
		return dest, nil, "", nil, err
	}
	challenge, p := s.challenge(sub)
	p.URL, p.Timeout, p.Headers = d.Destination.URL, sub.Timeout, sub.Headers
	if !s.authorize(&p, d) {
		e := unopened()
		e.Path = []string{"input", "id"}
		return dest, nil, "", []UserError{e}, nil
	}
	made := s.Prober.Probe(ctx, p)
	if made.Failure.Class.OurFault() || ctx.Err() != nil {
		return dest, nil, "", nil, fmt.Errorf("probe of event subscription %s was not made: %s", sub.ID, made.Failure.Detail)
	}
	return d.Destination, &made, judgeProbe(challenge, &made), nil, nil
}

// authorize gives a probe what signs and authorizes it; false when a secret
// does not open. Nothing is sent without.
func (s *Subscriptions) authorize(p *Probe, d *db.DestinationState) bool {
	var keys []secret.Secret
	for _, one := range d.Keys {
		plain, err := s.Keys.Open(one.Sealed, one.Binding)
		if err != nil {
			return false
		}
		keys = append(keys, plain)
	}
	p.Signer = signing.NewSigner(keys)
	for _, one := range d.Credentials {
		plain, err := s.Keys.Open(one.Sealed, one.Binding)
		if err != nil {
			return false
		}
		if one.Credential.Kind.Slot() == hub.SlotCertificate {
			p.Certificate = &ProbeCertificate{Chain: one.Credential.Certificate, Key: plain}
			continue
		}
		p.CredentialHeader, p.Credential = secret.CredentialHeader(one.Credential, plain)
	}
	return p.Signer.Keys() > 0
}

// challenge is a synthetic event that carries 32 random bytes. It is stored
// nowhere and has no seq.
func (s *Subscriptions) challenge(sub *hub.EventSubscription) (text string, p Probe) {
	var random [32]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		panic("controlplane: no randomness for a challenge: " + err.Error())
	}
	text = base64.RawURLEncoding.EncodeToString(random[:])
	body, _ := json.Marshal(map[string]string{"challenge": text}) // a plain map always encodes
	now := s.Now().UTC()
	event := hub.Event{
		ID: hub.EventID{ID: hub.NewID(now, s.Random)}, Tenant: sub.Tenant, Source: ownSource, CEType: "hub.verification",
		ResourceType: "hub", EventType: "verification", SchemaVersion: "1.0.0", SchemaMajor: 1,
		Time: now.Format(time.RFC3339Nano), ContentType: "application/json", ReceivedAt: now, Body: body,
	}
	event.CEID = event.ID.String()
	return text, Probe{
		Event: &event,
		Delivery: &hub.Delivery{
			ID: hub.DeliveryID{ID: hub.NewID(now, s.Random)}, Event: event.ID, Tenant: sub.Tenant,
			Subscription: sub.ID, Destination: sub.Destination, Run: 1, ReceivedAt: now, BodyBytes: int32(len(body)),
		},
		AttemptID: hub.AttemptID{ID: hub.NewID(now, s.Random)},
	}
}

// judgeProbe is "" when the answer is 2xx and holds the challenge, and
// otherwise says in one sentence what was seen.
func judgeProbe(challenge string, a *hub.Attempt) string {
	took := (time.Duration(a.Timings.Total) * time.Microsecond).Round(time.Millisecond)
	switch {
	case a.Failure.Class == hub.ErrStatus:
		return fmt.Sprintf("the destination answered HTTP %d after %s%s", a.Answer.Status, took, quoted(a.Answer.Snippet))
	case a.Failure.Failed():
		return fmt.Sprintf("%s: %s (after %s)", a.Failure.Class, a.Failure.Detail, took)
	case !strings.Contains(a.Answer.Snippet, challenge):
		return fmt.Sprintf("the destination answered HTTP %d after %s, but its body does not hold the challenge%s", a.Answer.Status, took, quoted(a.Answer.Snippet))
	}
	return ""
}

// quoted shows the beginning of an answer's body.
func quoted(snippet string) string {
	if snippet == "" {
		return ""
	}
	return fmt.Sprintf(": %.200q", snippet)
}
