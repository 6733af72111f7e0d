package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// Rotation asks for a new signing secret.
type Rotation struct {
	ID string // global, of a destination or of a subscription to it
	// Overlap is for how long the previous secret goes on signing beside the
	// new one: 0 to signing.MaxOverlap.
	Overlap time.Duration
	// Import is the customer's own secret, whsec_…; nil lets the hub make one.
	Import *string
}

// Resigned is a destination after a change of its signing secrets.
type Resigned struct {
	Destination hub.Destination
	// SigningSecret is the text of a new secret that the hub made; it is shown
	// this once.
	SigningSecret string
}

// RotateSecret gives a destination a new signing secret. Every delivery of the
// overlap carries both signatures, the newest first.
func (s *Subscriptions) RotateSecret(ctx context.Context, a Actor, r Rotation) (Resigned, []UserError, error) {
	if r.Overlap < 0 || r.Overlap > signing.MaxOverlap {
		return Resigned{}, []UserError{userError(Invalid, []string{"input", "overlap"}, "an overlap is 0 to 7 days")}, nil
	}
	var own secret.Secret
	if r.Import != nil {
		var err error
		if own, err = secret.ParseSigning(*r.Import); err != nil {
			return Resigned{}, []UserError{userError(Invalid, []string{"input", "signingSecret"}, "%s", err)}, nil
		}
	}
	return s.resign(ctx, a, r.ID, auditRotateSecret, own, func(keys []hub.SigningKey, now time.Time) ([]hub.SigningKey, error) {
		return signing.Rotate(keys, now, r.Overlap), nil
	})
}

// RevokeSecret ends a signing secret at once. The current one is followed by a
// new one.
func (s *Subscriptions) RevokeSecret(ctx context.Context, a Actor, id string, version int32) (Resigned, []UserError, error) {
	return s.resign(ctx, a, id, auditRevokeSecret, secret.Secret{}, func(keys []hub.SigningKey, now time.Time) ([]hub.SigningKey, error) {
		left, found := signing.Revoke(keys, version, now)
		if !found {
			return nil, userError(NotFound, []string{"input", "version"}, "the destination has no signing secret of version %d that is valid", version)
		}
		return left, nil
	})
}

// resign changes the signing secrets of a destination as decide says; a new one
// is own, or made by the hub when that holds none.
func (s *Subscriptions) resign(ctx context.Context, a Actor, id, action string, own secret.Secret, decide func([]hub.SigningKey, time.Time) ([]hub.SigningKey, error)) (Resigned, []UserError, error) {
	dest, mistakes, err := s.destinationOf(ctx, a, id)
	if err != nil || mistakes != nil {
		return Resigned{}, mistakes, err
	}
	if dest.Kind == hub.SinkPull {
		return Resigned{}, []UserError{userError(Invalid, []string{"input", "id"}, "nothing is sent to a PULL destination, so it has no signing secret")}, nil
	}
	now := s.now()
	var shown string
	why := "the signing secret was rotated"
	if action == auditRevokeSecret {
		why = "a signing secret was revoked"
	}
	after, err := s.DB.ChangeDestination(ctx, db.DestinationChange{
		Tenant: dest.Tenant, ID: dest.ID, Now: now, FeedID: hub.NewID(now, s.Random),
		Notice: hub.Notice{Kind: hub.NoticeSecretRotated, At: now, Tenant: dest.Tenant, Destination: dest.ID, Reason: why},
		Decide: func(have *db.DestinationState) (*db.DestinationEdit, error) {
			next, err := decide(keysOf(have), now)
			if err != nil {
				return nil, err
			}
			edit := &db.DestinationEdit{Destination: have.Destination}
			edit.Keys, shown, err = s.keysFor(have, next, own, now)
			return edit, err
		},
		Audit: func(before, after *db.DestinationState) db.AuditEntry {
			return a.auditEntry(now, s.Random, dest.Tenant, action, GlobalID(DestinationIDs, dest.ID.ID), auditedKeysOf(before), auditedKeysOf(after))
		},
	})
	if mistakes, ok := asUserErrors(err); ok {
		return Resigned{}, mistakes, nil
	}
	if errors.Is(err, db.ErrChanged) {
		return Resigned{}, []UserError{userError(Conflict, []string{"input", "id"}, "the destination changed meanwhile; read it again")}, nil
	}
	if err != nil {
		return Resigned{}, nil, err
	}
	return Resigned{Destination: after.Destination, SigningSecret: shown}, nil, nil
}

// keysFor finds the sealed secrets of keys, and makes the one that is new.
func (s *Subscriptions) keysFor(have *db.DestinationState, keys []hub.SigningKey, own secret.Secret, now time.Time) (list []db.SealedSecret, shown string, err error) {
	sealed := make(map[int32]db.SealedSecret, len(have.Keys))
	for _, k := range have.Keys {
		sealed[k.Binding.Version] = k
		if plain, err := s.Keys.Open(k.Sealed, k.Binding); err == nil && !own.IsZero() && plain.Equal(own) {
			return nil, "", userError(Invalid, []string{"input", "signingSecret"}, "this secret signs for the destination already, as version %d", k.Binding.Version)
		}
	}
	for _, k := range keys {
		if known, ok := sealed[k.Version]; ok {
			known.NotAfter = k.EndsAt
			list = append(list, known)
			continue
		}
		plain := own
		if plain.IsZero() {
			shown, plain = secret.NewSigning(s.Random)
		}
		made, err := s.sealKeys(nil, have.Destination.Tenant, k.Version, now, plain)
		if err != nil {
			return nil, "", err
		}
		list = append(list, made...)
	}
	return list, shown, nil
}

func keysOf(d *db.DestinationState) []hub.SigningKey {
	keys := make([]hub.SigningKey, len(d.Keys))
	for i := range d.Keys {
		keys[i] = d.Keys[i].Key()
	}
	return keys
}

// destinationOf finds the destination that a global id means: its own, or that
// of a subscription.
func (s *Subscriptions) destinationOf(ctx context.Context, a Actor, id string) (hub.Destination, []UserError, error) {
	if key, ok := ParseGlobalID(SubscriptionIDs, id); ok {
		// What is not found leads to the zero id, which nothing has.
		sub, _, err := s.find(ctx, a, hub.SubscriptionID{ID: key})
		if err != nil {
			return hub.Destination{}, nil, err
		}
		return s.findDestination(ctx, a, sub.Destination)
	}
	key, _ := ParseGlobalID(DestinationIDs, id) // what is no id finds nothing
	return s.findDestination(ctx, a, hub.DestinationID{ID: key})
}

// SigningKeys gives what may be told of the secrets that sign for each
// destination, newest first. The caller has seen that the actor sees them.
func (s *Subscriptions) SigningKeys(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID][]hub.SigningKey, error) {
	return s.DB.SigningKeys(ctx, ids)
}

// Credentials gives what may be told of the credentials of each destination.
// The caller has seen that the actor sees them.
func (s *Subscriptions) Credentials(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID][]hub.Credential, error) {
	return s.DB.Credentials(ctx, ids)
}
