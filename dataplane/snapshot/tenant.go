package snapshot

import (
	"errors"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
	"github.com/streaming-hub/streaming-hub/hub/retry"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// Tenant is one version of a tenant's configuration, ready to use.
type Tenant struct {
	ID      hub.TenantID
	Version int64
	Index   *match.Index

	routes       map[hub.SubscriptionID]*Route
	destinations map[hub.DestinationID]*Route // without a subscription
	// keysUntil is when the first old key leaves its overlap; zero if none.
	keysUntil time.Time
}

// Route leads from a subscription to its destination.
type Route struct {
	Subscription hub.EventSubscription
	Destination  hub.Destination
	// Policy is the one that holds: the stored one if it is well formed.
	Policy hub.RetryPolicy
	// Headers are the subscription's custom ones, Credential and Certificate
	// what the destination asks beside the signature; nil for none.
	Headers     []hub.Header
	Credential  *sink.Credential
	Certificate *sink.Certificate
	// Signer is nil when nothing can be signed or authorized; Unsigned says
	// why. Nothing is ever sent unsigned: the deliveries wait.
	Signer   *signing.Signer
	Unsigned error
}

// Route finds the way of a subscription's deliveries; nil when the
// subscription is gone.
func (t *Tenant) Route(id hub.SubscriptionID) *Route { return t.routes[id] }

// Destination finds a destination; nil when it is unknown.
func (t *Tenant) Destination(id hub.DestinationID) *hub.Destination {
	if r, ok := t.destinations[id]; ok {
		return &r.Destination
	}
	return nil
}

func (c *Cache) build(config *db.TenantConfig, now time.Time) *Tenant {
	t := &Tenant{
		ID: config.Tenant, Version: config.Version,
		Index:  match.NewIndex(config.Subscriptions),
		routes: make(map[hub.SubscriptionID]*Route, len(config.Subscriptions)),
	}
	t.destinations = make(map[hub.DestinationID]*Route, len(config.Destinations))
	for id, d := range config.Destinations {
		r := &Route{Destination: d.Destination}
		if r.Signer, r.Unsigned = c.signer(d, now, t); r.Unsigned == nil {
			if r.Unsigned = c.authorize(r, d.Credentials); r.Unsigned != nil {
				r.Signer = nil
			}
		}
		t.destinations[id] = r
	}
	for i := range config.Subscriptions {
		s := &config.Subscriptions[i]
		r := &Route{Subscription: *s, Policy: c.policy(s), Headers: s.Headers}
		if d, ok := t.destinations[s.Destination]; ok {
			r.Destination, r.Signer, r.Unsigned = d.Destination, d.Signer, d.Unsigned
			r.Credential, r.Certificate = d.Credential, d.Certificate
		} else {
			r.Unsigned = fmt.Errorf("destination %s is missing", s.Destination)
		}
		t.routes[s.ID] = r
	}
	return t
}

func (c *Cache) signer(d db.DestinationConfig, now time.Time, t *Tenant) (*signing.Signer, error) {
	var keys []secret.Secret
	for _, s := range d.Secrets {
		if !s.NotAfter.IsZero() {
			if !now.Before(s.NotAfter) {
				continue
			}
			if t.keysUntil.IsZero() || s.NotAfter.Before(t.keysUntil) {
				t.keysUntil = s.NotAfter
			}
		}
		key, err := c.deps.Keyring.Open(s.Sealed, s.Binding)
		if err != nil {
			return nil, fmt.Errorf("the signing secret of destination %s does not open: %w", d.Destination.ID, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the destination has no signing secret")
	}
	return signing.NewSigner(keys), nil
}

// authorize opens what a destination asks beside the signature.
func (c *Cache) authorize(r *Route, credentials []db.SealedCredential) error {
	for _, s := range credentials {
		plain, err := c.deps.Keyring.Open(s.Sealed, s.Binding)
		if err == nil && s.Credential.Kind.Slot() == hub.SlotCertificate {
			r.Certificate, err = sink.NewCertificate([]byte(s.Credential.Certificate), plain)
		} else if err == nil {
			name, value := secret.CredentialHeader(s.Credential, plain)
			r.Credential = &sink.Credential{Header: name, Value: value}
		}
		if err != nil {
			r.Credential, r.Certificate = nil, nil
			return fmt.Errorf("the %s credential of destination %s does not open: %w", s.Credential.Kind, r.Destination.ID, err)
		}
	}
	return nil
}

func (c *Cache) policy(s *hub.EventSubscription) hub.RetryPolicy {
	policy, sound := retry.InForce(s.RetryPolicy, c.deps.CurveSteps)
	if !sound {
		c.deps.Log.Warn("a stored retry policy is malformed; its subscription uses the curve", "subscription", s.ID.String())
	}
	return policy
}

// Subscriptions is how many subscriptions there are.
func (t *Tenant) Subscriptions() int { return len(t.routes) }

// RoutesTo are the routes of the subscriptions that lead to a destination, in
// no order.
func (t *Tenant) RoutesTo(id hub.DestinationID) (list []*Route) {
	for _, r := range t.routes {
		if r.Destination.ID == id {
			list = append(list, r)
		}
	}
	return list
}
