package controlplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// DestinationInput is what a caller wants of a destination beside its URL;
// what is not given stays, or is the default of a new one.
type DestinationInput struct {
	RateLimit     Given[int32] // attempts per second; null for no limit
	MaxInFlight   Given[int32] // attempts; null for no limit
	FailurePolicy Given[hub.FailurePolicy]
	Credential    Given[NewCredential] // null for none
	Certificate   Given[NewCredential] // null for none
	// SigningSecret is the customer's own, whsec_…; of a new subscription only.
	SigningSecret *string
}

// NewCredential is a credential with its secret.
type NewCredential struct {
	hub.Credential
	Secret secret.Secret
}

// check tells every mistake in the input.
func (in *DestinationInput) check(kind hub.SinkKind, prefix string, now time.Time) (mistakes []UserError) {
	fault := func(field, format string, args ...any) {
		mistakes = append(mistakes, userError(Invalid, []string{"input", "destination", field}, format, args...))
	}
	if kind == hub.SinkPull {
		for field, given := range map[string]bool{
			"rateLimit": in.RateLimit.Value != nil, "maxInFlight": in.MaxInFlight.Value != nil, "failurePolicy": in.FailurePolicy.Value != nil,
			"credential": in.Credential.Value != nil, "clientCertificate": in.Certificate.Value != nil, "signingSecret": in.SigningSecret != nil,
		} {
			if given {
				fault(field, "nothing is sent to a PULL destination, so it has no %s", field)
			}
		}
		slices.SortFunc(mistakes, func(a, b UserError) int { return strings.Compare(a.Message, b.Message) })
		return mistakes
	}
	if v := in.RateLimit.Value; v != nil && (*v < 1 || *v > hub.MaxRateLimit) {
		fault("rateLimit", "a rate limit is 1 to %d attempts per second; null is no limit", hub.MaxRateLimit)
	}
	if v := in.MaxInFlight.Value; v != nil && (*v < 1 || *v > hub.MaxMaxInFlight) {
		fault("maxInFlight", "1 to %d attempts may be under way at a time; null is no limit", hub.MaxMaxInFlight)
	}
	if in.FailurePolicy.null() {
		fault("failurePolicy", "failurePolicy cannot be null; leave it out to keep what is there")
	} else if v := in.FailurePolicy.Value; v != nil {
		if err := checkFailurePolicy(*v); err != nil {
			fault("failurePolicy", "%s", err)
		}
	}
	if v := in.Credential.Value; v != nil {
		if err := checkAuthorization(v, prefix, now); err != nil {
			fault("credential", "%s", err)
		}
	}
	if v := in.Certificate.Value; v != nil {
		if err := secret.CheckCredential(v.Credential, v.Secret, now); err != nil {
			fault("clientCertificate", "%s", err)
		}
	}
	if in.SigningSecret != nil {
		if _, err := secret.ParseSigning(*in.SigningSecret); err != nil {
			fault("signingSecret", "%s", err)
		}
	}
	return mistakes
}

func checkFailurePolicy(p hub.FailurePolicy) error {
	if p.Kind == hub.FailureSpan {
		if p != (hub.FailurePolicy{Kind: hub.FailureSpan}) {
			return errors.New("a FAILURE_SPAN policy takes no thresholds")
		}
		return nil
	}
	return health.RateSettingsOf(p).Validate()
}

func checkAuthorization(c *NewCredential, prefix string, now time.Time) error {
	if err := secret.CheckCredential(c.Credential, c.Secret, now); err != nil {
		return err
	}
	if c.Kind != hub.CredentialHeader {
		return nil
	}
	for _, own := range []string{"Authorization", "Cookie"} {
		if strings.EqualFold(c.Name, own) {
			return nil // as a custom header it would be refused, because it is a secret
		}
	}
	_, err := wire.CustomHeaders(headerPrefix(prefix), []hub.Header{{Name: c.Name, Value: "x"}})
	return err
}

// Destinations gives the destinations that exist and that the actor sees.
func (s *Subscriptions) Destinations(ctx context.Context, a Actor, ids []hub.DestinationID) ([]hub.Destination, error) {
	list, err := s.DB.DestinationsByID(ctx, ids)
	return slices.DeleteFunc(list, func(d hub.Destination) bool { return !a.Sees(d.Tenant) }), err
}

// DestinationPage gives up to limit destinations behind the id before, the
// newest first. The filter's URL is as a person writes it.
func (s *Subscriptions) DestinationPage(ctx context.Context, a Actor, f db.DestinationFilter, before hub.ID, limit int) ([]hub.Destination, error) {
	var none bool
	if f.Tenant, none = a.narrow(f.Tenant); none {
		return nil, nil
	}
	if f.URL != "" {
		url, err := s.Addresses.CanonicalURL(f.URL)
		if err != nil {
			return nil, nil // no destination has a URL that is none
		}
		f.URL = url
	}
	return s.DB.DestinationPage(ctx, f, before, limit)
}

// EnableDestination lets a destination begin anew that FAILURE_RATE disabled or
// froze. An active one stays as it is, counters and all.
func (s *Subscriptions) EnableDestination(ctx context.Context, a Actor, id hub.DestinationID) (hub.Destination, []UserError, error) {
	seen, mistakes, err := s.findDestination(ctx, a, id)
	if err != nil || mistakes != nil {
		return seen, mistakes, err
	}
	now := s.now()
	object := GlobalID(DestinationIDs, id.ID)
	dest, err := s.DB.EnableDestination(ctx, db.EnableRequest{
		Tenant: seen.Tenant, Destination: id, Now: now, FeedID: hub.NewID(now, s.Random),
		Audit: func(was string) db.AuditEntry {
			return a.auditEntry(now, s.Random, seen.Tenant, auditEnableDestination, object, auditedHealth{was}, auditedHealth{string(health.Active)})
		},
	})
	return dest, nil, err
}

func (s *Subscriptions) findDestination(ctx context.Context, a Actor, id hub.DestinationID) (hub.Destination, []UserError, error) {
	list, err := s.Destinations(ctx, a, []hub.DestinationID{id})
	if err != nil {
		return hub.Destination{}, nil, err
	}
	if len(list) == 0 {
		return hub.Destination{}, []UserError{userError(NotFound, []string{"input", "id"}, "there is no such destination")}, nil
	}
	return list[0], nil, nil
}
