package controlplane

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/match"
	"github.com/streaming-hub/streaming-hub/hub/retry"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// Bounds of a subscription's texts and patterns.
const (
	maxName        = 200  // characters
	maxDescription = 2000 // characters
	maxEventTypes  = 100
	maxOrigin      = 223 // bytes, as of an event's source
)

// Subscriptions makes, shows and verifies event subscriptions.
type Subscriptions struct {
	DB        *db.DB
	Keys      *secret.Keyring // an empty ring makes no webhook destination
	Addresses address.Policy
	Prober    Prober
	Now       func() time.Time
	Random    io.Reader // crypto/rand.Reader
}

// NewSubscription is what a caller asks for; every field is still unchecked.
type NewSubscription struct {
	Tenant      string // "" for the actor's own
	Name        string
	Description string
	Origin      string // "" for any
	EventTypes  []string
	SchemaMajor *int32
	Kind        hub.SinkKind
	URL         string
	RetryPolicy hub.RetryPolicy
	Timeout     time.Duration
}

// Created is a new subscription. SigningSecret is the text form of its
// destination's secret when that is new, and is shown this once.
type Created struct {
	Subscription  hub.EventSubscription
	SigningSecret string
}

// Create makes a subscription, or tells all mistakes of the input at once.
// Every event stored after the return is matched by the new state.
func (s *Subscriptions) Create(ctx context.Context, a Actor, n NewSubscription) (Created, []UserError, error) {
	sub, url, mistakes := s.check(a, n)
	if n.Kind == hub.SinkWebhook && s.Keys.Empty() {
		mistakes = append(mistakes, userError(Unavailable, []string{"input"},
			"the hub has no key-encryption key, so it can keep no signing secret and deliver nothing; set STREAMING_HUB_KEK_KEYS"))
	}
	if len(mistakes) > 0 {
		return Created{}, mistakes, nil
	}
	now := s.Now().UTC().Truncate(time.Microsecond)
	sub.ID = hub.SubscriptionID{ID: hub.NewID(now, s.Random)}
	sub.CreatedAt, sub.UpdatedAt, sub.Version, sub.Enabled = now, now, 1, true
	made := db.NewSubscription{
		Subscription: sub,
		Destination: hub.Destination{
			ID: hub.DestinationID{ID: hub.NewID(now, s.Random)}, Tenant: sub.Tenant, Kind: n.Kind, URL: url, CreatedAt: now,
		},
		Audit: s.auditCreated(a, now, url),
	}
	var text string
	if n.Kind == hub.SinkWebhook {
		made.SecretID = hub.NewID(now, s.Random)
		made.Seal = func(b secret.Binding) (secret.Sealed, error) {
			var plain secret.Secret
			text, plain = secret.NewSigning(s.Random)
			return s.Keys.Seal(s.Random, plain, b)
		}
	}
	dest, fresh, err := s.DB.CreateSubscription(ctx, made)
	if err != nil {
		return Created{}, nil, err
	}
	sub.Destination, sub.Kind = dest.ID, dest.Kind
	if !fresh {
		text = ""
	}
	return Created{Subscription: sub, SigningSecret: text}, nil, nil
}

func (s *Subscriptions) check(a Actor, n NewSubscription) (sub hub.EventSubscription, url string, mistakes []UserError) {
	fault := func(err error, path ...string) {
		mistakes = append(mistakes, userError(Invalid, append([]string{"input"}, path...), "%s", err))
	}
	tenant, mismatch := a.tenantFor(n.Tenant, []string{"input", "tenantId"})
	if mismatch != nil {
		mistakes = append(mistakes, *mismatch)
	}
	sub = hub.EventSubscription{
		Tenant: tenant, Name: strings.TrimSpace(n.Name), Description: n.Description, Origin: n.Origin,
		EventTypes: n.EventTypes, SchemaMajor: n.SchemaMajor, Kind: n.Kind,
		VerificationState: hub.VerificationPending, RetryPolicy: n.RetryPolicy, Timeout: n.Timeout,
	}
	if sub.Name == "" {
		fault(errors.New("a subscription needs a name"), "name")
	} else if err := checkText("name", sub.Name, maxName); err != nil {
		fault(err, "name")
	}
	if err := checkText("description", sub.Description, maxDescription); err != nil {
		fault(err, "description")
	}
	if n.Origin != "" && (len(n.Origin) > maxOrigin || !wire.IsSource(n.Origin)) {
		fault(errors.New("an origin is the source of events: up to 223 lower-case letters, digits, dashes or underscores, first a letter or digit"), "origin")
	}
	if len(n.EventTypes) == 0 || len(n.EventTypes) > maxEventTypes {
		fault(errors.New("a subscription has 1 to 100 event types; * takes all"), "eventTypes")
	}
	for i, p := range n.EventTypes[:min(len(n.EventTypes), maxEventTypes)] {
		if err := match.CheckPattern(p); err != nil {
			fault(err, "eventTypes", strconv.Itoa(i))
		} else if slices.Contains(n.EventTypes[:i], p) {
			fault(errors.New("this event type is given twice"), "eventTypes", strconv.Itoa(i))
		}
	}
	if n.SchemaMajor != nil && *n.SchemaMajor < 0 {
		fault(errors.New("a schema major version is 0 or more"), "schemaMajor")
	}
	if err := retry.Validate(n.RetryPolicy); err != nil {
		fault(err, "retryPolicy")
	}
	if n.Timeout < hub.MinTimeout || n.Timeout > hub.MaxTimeout || n.Timeout%time.Millisecond != 0 {
		fault(errors.New("a timeout is 1 to 30 seconds in whole milliseconds"), "timeout")
	}
	switch {
	case n.Kind == hub.SinkPull && n.URL != "":
		fault(errors.New("a PULL destination has no URL"), "destination", "url")
	case n.Kind == hub.SinkPull:
		sub.VerificationState = hub.VerificationActive // nothing to probe
	case n.URL == "":
		mistakes = append(mistakes, userError(Required, []string{"input", "destination", "url"}, "a WEBHOOK destination needs a URL"))
	default:
		var err error
		if url, err = s.Addresses.CanonicalURL(n.URL); err != nil {
			fault(err, "destination", "url")
		}
	}
	return sub, url, mistakes
}

func checkText(what, s string, longest int) error {
	switch {
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return errors.New("the " + what + " is not plain text")
	case utf8.RuneCountInString(s) > longest:
		return errors.New("the " + what + " has more than " + strconv.Itoa(longest) + " characters")
	}
	return nil
}

// ByID gives the subscriptions that exist and that the actor sees.
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

// Destinations gives the destinations that exist and that the actor sees.
func (s *Subscriptions) Destinations(ctx context.Context, a Actor, ids []hub.DestinationID) ([]hub.Destination, error) {
	list, err := s.DB.DestinationsByID(ctx, ids)
	return slices.DeleteFunc(list, func(d hub.Destination) bool { return !a.Sees(d.Tenant) }), err
}
