package db

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// DestinationState is a destination with everything that belongs to it.
type DestinationState struct {
	Destination hub.Destination
	// New says that there is no such destination yet.
	New bool
	// Subscriptions counts those that use it and exist still.
	Subscriptions int
	Keys          []SealedSecret     // that sign now, newest first
	Credentials   []SealedCredential // at most one for each slot
}

// DestinationEdit is what a destination is to become.
type DestinationEdit struct {
	// Destination has limits and failure policy; the rest stays.
	Destination hub.Destination
	// Keys are all that are to sign from now on. Those that were there keep
	// their secret and take the end given here; those left out are removed. Nil
	// changes none.
	Keys []SealedSecret
	// Credentials replace what is in their slots, and Drop empties slots.
	Credentials []SealedCredential
	Drop        []hub.CredentialSlot
}

// reauthorizes reports whether the destination is asked in another way from
// now on, so that it has to prove anew that it wants events.
func (e *DestinationEdit) reauthorizes() bool { return len(e.Credentials) > 0 || len(e.Drop) > 0 }

// DestinationChange is a change of one destination, decided under the
// tenant's lock.
type DestinationChange struct {
	Tenant hub.TenantID
	ID     hub.DestinationID
	Now    time.Time
	// Decide says what is to become of it; nil changes nothing. Its error ends
	// the change and is returned inside the result's error.
	Decide func(*DestinationState) (*DestinationEdit, error)
	Audit  func(before, after *DestinationState) AuditEntry
	// Notice tells of it in the live feed, in the row FeedID.
	Notice hub.Notice
	FeedID hub.ID
}

// ChangeDestination changes a destination and returns it as it then stands. It
// is ErrChanged when the tenant has no such destination.
func (d *DB) ChangeDestination(ctx context.Context, c DestinationChange) (after *DestinationState, err error) {
	err = d.changeTenant(ctx, string(c.Tenant), func(tx pgx.Tx) error {
		before, err := d.destinationState(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if before.Destination.Tenant != c.Tenant {
			return ErrChanged
		}
		after = before
		edit, err := c.Decide(before)
		if err != nil {
			return err
		}
		if edit == nil {
			return errUnchanged
		}
		fit := func(*DestinationState) (DestinationEdit, error) { return *edit, nil }
		_, told, err := d.fitDestination(ctx, tx, before, fit, hub.SubscriptionID{}, c.Now)
		if err != nil {
			return err
		}
		if after, err = d.destinationState(ctx, tx, c.ID); err != nil {
			return err
		}
		if err := d.queueNotices(ctx, tx, c.FeedID, append(told, c.Notice)); err != nil {
			return err
		}
		return d.audit(ctx, tx, c.Audit(before, after))
	})
	if err != nil {
		return after, fmt.Errorf("change destination %s: %w", c.ID, err)
	}
	return after, nil
}

// destinationByURL reads the destination of a kind and URL; without one, New
// is set and the destination is the one given.
func (d *DB) destinationByURL(ctx context.Context, tx pgx.Tx, want hub.Destination) (*DestinationState, error) {
	found, err := d.queries.DestinationByURL(ctx, tx, dbsqlc.DestinationByURLParams{
		TenantID: string(want.Tenant), Kind: string(want.Kind), Url: want.URL,
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return &DestinationState{Destination: want, New: true}, nil
	}
	return d.completed(ctx, tx, destinationOf(found[0]))
}

func (d *DB) destinationState(ctx context.Context, tx dbsqlc.DBTX, id hub.DestinationID) (*DestinationState, error) {
	found, err := d.queries.DestinationsByID(ctx, tx, []hub.ID{id.ID})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, ErrChanged
	}
	return d.completed(ctx, tx, destinationOf(found[0]))
}

func (d *DB) completed(ctx context.Context, tx dbsqlc.DBTX, dest hub.Destination) (*DestinationState, error) {
	s := &DestinationState{Destination: dest}
	keys, err := d.queries.SecretsOfDestination(ctx, tx, dest.ID.ID)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		s.Keys = append(s.Keys, sealedSecretOf(&keys[i]))
	}
	credentials, err := d.queries.CredentialsOfDestinations(ctx, tx, []hub.ID{dest.ID.ID})
	if err != nil {
		return nil, err
	}
	for i := range credentials {
		s.Credentials = append(s.Credentials, sealedCredentialOf(&credentials[i]))
	}
	n, err := d.queries.CountSubscriptions(ctx, tx, dest.ID.ID)
	s.Subscriptions = int(n)
	return s, err
}

// fitDestination makes or changes a destination as fit says. by is the
// subscription for which it happens: it decides about itself, every other one
// of the destination has to be verified again when the destination is asked in
// another way. told is what a change of the failure policy is to tell.
func (d *DB) fitDestination(ctx context.Context, tx pgx.Tx, have *DestinationState, fit func(*DestinationState) (DestinationEdit, error), by hub.SubscriptionID, now time.Time) (dest hub.Destination, told []hub.Notice, err error) {
	dest = have.Destination
	edit, err := fit(have)
	if err != nil {
		return dest, nil, err
	}
	dest.RateLimit, dest.MaxInFlight, dest.FailurePolicy = edit.Destination.RateLimit, edit.Destination.MaxInFlight, edit.Destination.FailurePolicy
	if err := d.writeDestination(ctx, tx, have, dest, edit.reauthorizes()); err != nil {
		return dest, nil, err
	}
	if !have.New {
		if told, err = d.repolice(ctx, tx, have.Destination, dest, now); err != nil {
			return dest, nil, err
		}
	}
	if edit.Keys != nil {
		if err := d.writeKeys(ctx, tx, &dest, have.Keys, edit.Keys); err != nil {
			return dest, nil, err
		}
	}
	if err := d.writeCredentials(ctx, tx, &dest, &edit); err != nil {
		return dest, nil, err
	}
	if have.New || !edit.reauthorizes() {
		return dest, told, nil
	}
	return dest, told, d.unverifyOthers(ctx, tx, &dest, by, now)
}

func (d *DB) unverifyOthers(ctx context.Context, tx pgx.Tx, dest *hub.Destination, by hub.SubscriptionID, now time.Time) error {
	rows, err := d.queries.UnverifyOthers(ctx, tx, dbsqlc.UnverifyOthersParams{DestinationID: dest.ID.ID, But: by.ID, Now: now})
	if err != nil {
		return err
	}
	var chores []chore
	for _, r := range rows {
		if r.Deliverable {
			chores = append(chores, chore{hub.SubscriptionID{ID: r.ID}, dest.ID})
		}
	}
	return d.addChores(ctx, tx, dest.Tenant, chores)
}

func (d *DB) writeDestination(ctx context.Context, tx pgx.Tx, have *DestinationState, dest hub.Destination, reauthorized bool) error {
	policy, err := json.Marshal(failurePolicyOf(dest.FailurePolicy))
	if err != nil {
		return fmt.Errorf("encode a failure policy: %w", err)
	}
	if have.New {
		return d.queries.InsertDestination(ctx, tx, dbsqlc.InsertDestinationParams{
			ID: dest.ID.ID, TenantID: string(dest.Tenant), Kind: string(dest.Kind), Url: dest.URL,
			RateLimit: numberOrNull(dest.RateLimit), MaxInFlight: numberOrNull(dest.MaxInFlight), FailurePolicy: policy, CreatedAt: dest.CreatedAt,
		})
	}
	if dest == have.Destination && !reauthorized {
		return nil
	}
	return d.queries.UpdateDestination(ctx, tx, dbsqlc.UpdateDestinationParams{
		ID: dest.ID.ID, RateLimit: numberOrNull(dest.RateLimit), MaxInFlight: numberOrNull(dest.MaxInFlight), FailurePolicy: policy,
	})
}

// failurePolicyOf names the kind of a policy that has none.
func failurePolicyOf(p hub.FailurePolicy) hub.FailurePolicy {
	if p.Kind == "" {
		p.Kind = hub.FailureSpan
	}
	return p
}

func (d *DB) writeKeys(ctx context.Context, tx pgx.Tx, dest *hub.Destination, have, keys []SealedSecret) error {
	kept := make([]int32, len(keys))
	for i := range keys {
		kept[i] = keys[i].Binding.Version
	}
	if err := d.queries.DropSecrets(ctx, tx, dbsqlc.DropSecretsParams{DestinationID: dest.ID.ID, Kept: kept}); err != nil {
		return err
	}
	for i := range keys {
		k := &keys[i]
		var err error
		known := slices.ContainsFunc(have, func(h SealedSecret) bool { return h.Binding.Version == k.Binding.Version })
		switch {
		case !known:
			err = d.queries.InsertSecret(ctx, tx, dbsqlc.InsertSecretParams{
				ID: k.Binding.Row, TenantID: string(dest.Tenant), DestinationID: dest.ID.ID, Version: k.Binding.Version,
				KeyID: k.Sealed.KeyID, WrappedKey: k.Sealed.WrappedKey, Ciphertext: k.Sealed.Ciphertext,
				CreatedAt: k.CreatedAt, NotAfter: timeOrNull(k.NotAfter),
			})
		case !k.NotAfter.IsZero():
			err = d.queries.EndSecret(ctx, tx, dbsqlc.EndSecretParams{DestinationID: dest.ID.ID, Version: k.Binding.Version, NotAfter: k.NotAfter})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) writeCredentials(ctx context.Context, tx pgx.Tx, dest *hub.Destination, edit *DestinationEdit) error {
	slots := slices.Clone(edit.Drop)
	for i := range edit.Credentials {
		slots = append(slots, edit.Credentials[i].Credential.Kind.Slot())
	}
	for _, slot := range slots {
		if err := d.queries.DropCredential(ctx, tx, dbsqlc.DropCredentialParams{DestinationID: dest.ID.ID, Slot: string(slot)}); err != nil {
			return err
		}
	}
	for i := range edit.Credentials {
		c := &edit.Credentials[i]
		if err := d.queries.InsertCredential(ctx, tx, dbsqlc.InsertCredentialParams{
			ID: c.Binding.Row, TenantID: string(dest.Tenant), DestinationID: dest.ID.ID,
			Slot: string(c.Credential.Kind.Slot()), Kind: string(c.Credential.Kind), Name: c.Credential.Name, Certificate: c.Credential.Certificate,
			Version: c.Credential.Version, KeyID: c.Sealed.KeyID, WrappedKey: c.Sealed.WrappedKey, Ciphertext: c.Sealed.Ciphertext,
			CreatedAt: c.Credential.CreatedAt,
		}); err != nil {
			return err
		}
	}
	return nil
}
