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
}

// Verify asks a subscription's destination whether it wants events, and
// records the answer. found is false when the actor sees no such
// subscription. Every event stored after the return is matched by the new
// state.
func (s *Subscriptions) Verify(ctx context.Context, a Actor, id hub.SubscriptionID) (sub hub.EventSubscription, mistakes []UserError, err error) {
	path := []string{"input", "id"}
	list, err := s.ByID(ctx, a, []hub.SubscriptionID{id})
	if err != nil {
		return sub, nil, err
	}
	if len(list) == 0 {
		return sub, []UserError{userError(NotFound, path, "there is no such event subscription")}, nil
	}
	result := db.Verified{Probed: list[0], State: hub.VerificationActive}
	if list[0].Kind == hub.SinkWebhook {
		seen, mistake, err := s.probe(ctx, &list[0])
		if err != nil || mistake != nil {
			return sub, mistake, err
		}
		if seen != "" {
			result.State, result.Error = hub.VerificationFailed, seen
		}
	}
	result.At = s.Now().UTC().Truncate(time.Microsecond)
	result.Audit = s.auditVerified(a, result.At)
	sub, err = s.DB.RecordVerification(ctx, result)
	if errors.Is(err, db.ErrChanged) {
		return sub, []UserError{userError(Conflict, path, "the event subscription changed while it was verified; verify it again")}, nil
	}
	return sub, nil, err
}

// probe sends the challenge. seen is "" on success and otherwise what was
// seen, in one sentence.
func (s *Subscriptions) probe(ctx context.Context, sub *hub.EventSubscription) (seen string, mistakes []UserError, err error) {
	dests, err := s.DB.DestinationsByID(ctx, []hub.DestinationID{sub.Destination})
	if err != nil {
		return "", nil, err
	}
	if len(dests) == 0 {
		return "", nil, fmt.Errorf("event subscription %s has no destination", sub.ID)
	}
	signer, err := s.signer(ctx, sub.Destination)
	if err != nil {
		return "", nil, err
	}
	if signer.Keys() == 0 {
		return "", []UserError{userError(Unavailable, []string{"input", "id"},
			"the hub cannot open the destination's signing secret, and sends nothing unsigned; its operator has to set STREAMING_HUB_KEK_KEYS")}, nil
	}
	challenge, p := s.challenge(sub)
	p.URL, p.Signer, p.Timeout = dests[0].URL, signer, sub.Timeout
	attempt := s.Prober.Probe(ctx, p)
	if attempt.Failure.Class.OurFault() || ctx.Err() != nil {
		return "", nil, fmt.Errorf("probe of event subscription %s was not made: %s", sub.ID, attempt.Failure.Detail)
	}
	return judgeProbe(challenge, &attempt), nil, nil
}

// signer holds the destination's secrets that the keyring opens.
func (s *Subscriptions) signer(ctx context.Context, id hub.DestinationID) (*signing.Signer, error) {
	sealed, err := s.DB.SecretsOfDestination(ctx, id)
	if err != nil {
		return nil, err
	}
	var keys []secret.Secret
	for _, one := range sealed {
		if plain, err := s.Keys.Open(one.Sealed, one.Binding); err == nil {
			keys = append(keys, plain)
		}
	}
	return signing.NewSigner(keys), nil
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
		ID: hub.EventID{ID: hub.NewID(now, s.Random)}, Tenant: sub.Tenant, Source: "hub", CEType: "hub.verification",
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
