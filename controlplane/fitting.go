package controlplane

import (
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// fitting decides what becomes of a destination when a subscription is made or
// updated. The input has been checked.
//
// A new destination gets a signing secret. One that takes the place of another,
// because a subscription's URL was changed, takes over limits, policy and
// signing secrets, so that the receiver goes on verifying; credentials go along
// only to the same scheme, host and port, since they would be shown to whoever
// answers there. A destination that other subscriptions use is not changed
// behind their back by a new subscription: what is given has to agree with it.
type fitting struct {
	hub      *Subscriptions
	in       DestinationInput
	now      time.Time
	creating bool
	// from is the destination that a subscription leaves; nil for none.
	from *db.DestinationState
	// shown is the text of a signing secret that the hub has just made.
	shown string
}

func (f *fitting) fit(have *db.DestinationState) (db.DestinationEdit, error) {
	edit := db.DestinationEdit{Destination: have.Destination}
	if have.New && f.from != nil {
		was := &f.from.Destination
		edit.Destination.RateLimit, edit.Destination.MaxInFlight, edit.Destination.FailurePolicy = was.RateLimit, was.MaxInFlight, was.FailurePolicy
	}
	if f.in.RateLimit.Set {
		edit.Destination.RateLimit = orZero(f.in.RateLimit.Value)
	}
	if f.in.MaxInFlight.Set {
		edit.Destination.MaxInFlight = orZero(f.in.MaxInFlight.Value)
	}
	if v := f.in.FailurePolicy.Value; v != nil {
		edit.Destination.FailurePolicy = *v
	}
	if have.Destination.Kind == hub.SinkPull {
		return edit, nil
	}
	if err := f.fitCredentials(have, &edit); err != nil {
		return edit, err
	}
	if err := f.fitKeys(have, &edit); err != nil {
		return edit, err
	}
	if f.creating && have.Subscriptions > 0 {
		return edit, f.agree(have, &edit)
	}
	return edit, nil
}

// agree refuses what would change a destination that others use.
func (f *fitting) agree(have *db.DestinationState, edit *db.DestinationEdit) error {
	var mistakes userErrorList
	for _, one := range []struct {
		field   string
		changes bool
	}{
		{"rateLimit", edit.Destination.RateLimit != have.Destination.RateLimit},
		{"maxInFlight", edit.Destination.MaxInFlight != have.Destination.MaxInFlight},
		{"failurePolicy", edit.Destination.FailurePolicy != have.Destination.FailurePolicy},
		{"credential", changesSlot(edit, hub.SlotAuthorization)},
		{"clientCertificate", changesSlot(edit, hub.SlotCertificate)},
		{"signingSecret", edit.Keys != nil},
	} {
		if one.changes {
			mistakes = append(mistakes, userError(Conflict, []string{"input", "destination", one.field},
				"other event subscriptions use this destination already, with another %s; leave it out, or change the destination first", one.field))
		}
	}
	if len(mistakes) > 0 {
		return mistakes
	}
	return nil
}

func changesSlot(edit *db.DestinationEdit, slot hub.CredentialSlot) bool {
	return slices.Contains(edit.Drop, slot) ||
		slices.ContainsFunc(edit.Credentials, func(c db.SealedCredential) bool { return c.Credential.Kind.Slot() == slot })
}

// fitKeys gives a destination its signing secret.
func (f *fitting) fitKeys(have *db.DestinationState, edit *db.DestinationEdit) (err error) {
	s := f.hub
	switch {
	case f.in.SigningSecret != nil:
		own, err := secret.ParseSigning(*f.in.SigningSecret)
		if err != nil {
			return err
		}
		version := int32(1)
		if len(have.Keys) > 0 {
			version = have.Keys[0].Binding.Version + 1
			if now, err := s.Keys.Open(have.Keys[0].Sealed, have.Keys[0].Binding); err == nil && now.Equal(own) {
				return nil
			}
		}
		edit.Keys, err = s.sealKeys(edit.Keys, have.Destination.Tenant, version, f.now, own)
		return err
	case !have.New:
		return nil
	case f.from != nil && len(f.from.Keys) > 0:
		edit.Keys, err = s.movedKeys(f.from.Keys)
		return err
	}
	text, made := secret.NewSigning(s.Random)
	if edit.Keys, err = s.sealKeys(nil, have.Destination.Tenant, 1, f.now, made); err == nil {
		f.shown = text
	}
	return err
}

// sealKeys adds a signing secret, sealed, before the others.
func (s *Subscriptions) sealKeys(others []db.SealedSecret, tenant hub.TenantID, version int32, now time.Time, plain secret.Secret) ([]db.SealedSecret, error) {
	binding := secret.Binding{Tenant: tenant, Row: hub.NewID(now, s.Random), Version: version}
	sealed, err := s.Keys.Seal(s.Random, plain, binding)
	if errors.Is(err, secret.ErrNoKey) {
		return nil, noKey([]string{"input"})
	}
	return append([]db.SealedSecret{{Sealed: sealed, Binding: binding, CreatedAt: now}}, others...), err
}

// movedKeys seals the secrets of another destination anew: what is sealed for
// one row does not open in another.
func (s *Subscriptions) movedKeys(keys []db.SealedSecret) ([]db.SealedSecret, error) {
	moved := make([]db.SealedSecret, len(keys))
	for i, k := range keys {
		plain, err := s.Keys.Open(k.Sealed, k.Binding)
		if err != nil {
			return nil, unopened()
		}
		k.Binding.Row = hub.NewID(s.now(), s.Random)
		if k.Sealed, err = s.Keys.Seal(s.Random, plain, k.Binding); err != nil {
			return nil, err
		}
		moved[i] = k
	}
	return moved, nil
}

func unopened() UserError {
	return userError(Unavailable, []string{"input"},
		"the hub cannot open the secrets of the destination; its operator has to set STREAMING_HUB_KEK_KEYS")
}

// fitCredentials gives a destination the credentials that are asked for. Giving
// the one that is there already changes nothing.
func (f *fitting) fitCredentials(have *db.DestinationState, edit *db.DestinationEdit) error {
	for _, one := range []struct {
		slot  hub.CredentialSlot
		given Given[NewCredential]
	}{
		{hub.SlotAuthorization, f.in.Credential}, {hub.SlotCertificate, f.in.Certificate},
	} {
		present := inSlot(have, one.slot)
		switch {
		case one.given.null() && present != nil:
			edit.Drop = append(edit.Drop, one.slot)
		case one.given.Value != nil && !f.hub.same(present, one.given.Value):
			c := one.given.Value.Credential
			c.Version, c.CreatedAt = 1, f.now
			if present != nil {
				c.Version = present.Credential.Version + 1
			}
			if err := f.hub.sealCredential(edit, have.Destination.Tenant, c, one.given.Value.Secret); err != nil {
				return err
			}
		case !one.given.Set && have.New && f.from != nil && sameOrigin(f.from.Destination.URL, have.Destination.URL):
			old := inSlot(f.from, one.slot)
			if old == nil {
				continue
			}
			plain, err := f.hub.Keys.Open(old.Sealed, old.Binding)
			if err != nil {
				return unopened()
			}
			if err := f.hub.sealCredential(edit, have.Destination.Tenant, old.Credential, plain); err != nil {
				return err
			}
		}
	}
	return nil
}

func inSlot(d *db.DestinationState, slot hub.CredentialSlot) *db.SealedCredential {
	i := slices.IndexFunc(d.Credentials, func(c db.SealedCredential) bool { return c.Credential.Kind.Slot() == slot })
	if i < 0 {
		return nil
	}
	return &d.Credentials[i]
}

// same reports whether a credential is the one that is there.
func (s *Subscriptions) same(present *db.SealedCredential, given *NewCredential) bool {
	if present == nil || present.Credential.Kind != given.Kind || present.Credential.Name != given.Name || present.Credential.Certificate != given.Certificate {
		return false
	}
	plain, err := s.Keys.Open(present.Sealed, present.Binding)
	return err == nil && plain.Equal(given.Secret)
}

func (s *Subscriptions) sealCredential(edit *db.DestinationEdit, tenant hub.TenantID, c hub.Credential, plain secret.Secret) error {
	binding := secret.Binding{Tenant: tenant, Row: hub.NewID(s.now(), s.Random), Version: c.Version}
	sealed, err := s.Keys.Seal(s.Random, plain, binding)
	if errors.Is(err, secret.ErrNoKey) {
		return noKey([]string{"input"})
	}
	edit.Credentials = append(edit.Credentials, db.SealedCredential{Credential: c, Sealed: sealed, Binding: binding})
	return err
}

// sameOrigin reports whether two canonical URLs lead to the same scheme, host
// and port.
func sameOrigin(a, b string) bool {
	one, err := url.Parse(a)
	other, err2 := url.Parse(b)
	return err == nil && err2 == nil && one.Scheme == other.Scheme && one.Host == other.Host
}
