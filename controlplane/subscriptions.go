package controlplane

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Subscriptions makes, shows, changes and verifies event subscriptions, and
// the destinations and secrets that belong to them.
type Subscriptions struct {
	DB        *db.DB
	Keys      *secret.Keyring // an empty ring makes no webhook destination
	Addresses address.Policy
	Prober    Prober
	// HeaderPrefix begins the hub's own headers, which custom ones may not
	// take, and TypePrefix the type of test events; "" for the defaults.
	HeaderPrefix string
	TypePrefix   string
	Now          func() time.Time
	Random       io.Reader // crypto/rand.Reader
}

// NewSubscription is what a caller asks for; every field is still unchecked.
type NewSubscription struct {
	Tenant        string // "" for the actor's own
	Name          string
	Description   string
	Origin        *string // nil for any
	EventTypes    []string
	SchemaMajor   *int32
	Kind          hub.SinkKind
	URL           string
	Destination   DestinationInput
	RetryPolicy   hub.RetryPolicy
	Timeout       time.Duration
	Headers       []hub.Header
	DisableOnGone bool
}

// Created is a new subscription. SigningSecret is the text form of its
// destination's secret when the hub has just made it, and is shown this once.
type Created struct {
	Subscription  hub.EventSubscription
	SigningSecret string
}

// Create makes a subscription, or tells all mistakes of the input at once.
// Every event stored after the return is matched by the new state.
func (s *Subscriptions) Create(ctx context.Context, a Actor, n NewSubscription) (Created, []UserError, error) {
	now := s.now()
	sub, url, mistakes := s.check(a, n, now)
	if n.Kind == hub.SinkWebhook && s.Keys.Empty() {
		mistakes = append(mistakes, noKey([]string{"input"}))
	}
	if len(mistakes) > 0 {
		return Created{}, mistakes, nil
	}
	sub.ID = hub.SubscriptionID{ID: hub.NewID(now, s.Random)}
	sub.CreatedAt, sub.UpdatedAt, sub.Version, sub.Enabled = now, now, 1, true
	fit := &fitting{hub: s, in: n.Destination, now: now, creating: true}
	dest, _, err := s.DB.CreateSubscription(ctx, db.NewSubscription{
		Subscription: sub,
		Destination: hub.Destination{
			ID: hub.DestinationID{ID: hub.NewID(now, s.Random)}, Tenant: sub.Tenant, Kind: n.Kind, URL: url, CreatedAt: now,
		},
		Fit:   fit.fit,
		Audit: s.auditCreated(a, now, url),
	})
	if mistakes, ok := asUserErrors(err); ok {
		return Created{}, mistakes, nil
	}
	if err != nil {
		return Created{}, nil, err
	}
	sub.Destination, sub.Kind = dest.ID, dest.Kind
	return Created{Subscription: sub, SigningSecret: fit.shown}, nil, nil
}

// now is the clock as Postgres keeps it.
func (s *Subscriptions) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

func noKey(path []string) UserError {
	return userError(Unavailable, path,
		"the hub has no key-encryption key, so it can keep no signing secret and deliver nothing; set STREAMING_HUB_KEK_KEYS")
}

// find gives a subscription that exists and that the actor sees.
func (s *Subscriptions) find(ctx context.Context, a Actor, id hub.SubscriptionID) (hub.EventSubscription, []UserError, error) {
	list, err := s.ByID(ctx, a, []hub.SubscriptionID{id})
	if err != nil {
		return hub.EventSubscription{}, nil, err
	}
	if len(list) == 0 {
		return hub.EventSubscription{}, []UserError{noSubscription()}, nil
	}
	return list[0], nil, nil
}

func noSubscription() UserError {
	return userError(NotFound, []string{"input", "id"}, "there is no such event subscription")
}

// change makes a change, and turns its refusals into user errors.
func (s *Subscriptions) change(ctx context.Context, c db.SubscriptionChange) (db.Subscribed, []UserError, error) {
	after, err := s.DB.ChangeSubscription(ctx, c)
	if mistakes, ok := asUserErrors(err); ok {
		return after, mistakes, nil
	}
	if errors.Is(err, db.ErrChanged) {
		return after, []UserError{userError(Conflict, []string{"input", "id"}, "the event subscription changed meanwhile; read it again")}, nil
	}
	return after, nil, err
}

// ByID gives the subscriptions that the actor sees, deleted ones too.
func (s *Subscriptions) ByID(ctx context.Context, a Actor, ids []hub.SubscriptionID) ([]hub.EventSubscription, error) {
	list, err := s.DB.SubscriptionsByID(ctx, ids)
	return slices.DeleteFunc(list, func(e hub.EventSubscription) bool { return !a.Sees(e.Tenant) }), err
}

// Page gives up to limit subscriptions behind the id before, the newest first.
func (s *Subscriptions) Page(ctx context.Context, a Actor, tenant hub.TenantID, before hub.ID, limit int) ([]hub.EventSubscription, error) {
	tenant, none := a.narrow(tenant)
	if none {
		return nil, nil
	}
	return s.DB.SubscriptionPage(ctx, tenant, before, limit)
}
