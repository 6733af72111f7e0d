package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// ErrChanged is returned when a row is no longer what the caller saw.
var ErrChanged = errors.New("it changed meanwhile")

// NewSubscription is an event subscription to store, with the destination to
// make when the tenant has none of this kind and URL yet.
type NewSubscription struct {
	Subscription hub.EventSubscription // Destination is filled in
	Destination  hub.Destination       // its ID is used only when it is new
	// Seal makes the signing secret of a new destination. It is called inside
	// the transaction; its error ends it and is returned as it is. Nil for a
	// destination that needs none.
	Seal func(secret.Binding) (secret.Sealed, error)
	// SecretID is the row of the new secret.
	SecretID hub.ID
	// Audit makes the audit log's entry for what was made; nil for a program
	// that acts for nobody, such as a test.
	Audit func(made *hub.EventSubscription) AuditEntry
}

// CreateSubscription stores a subscription and returns the destination that it
// got and whether that is new. The tenant's configuration version is bumped
// under the tenant's lock: every event stored after the return is matched by
// the new state.
func (d *DB) CreateSubscription(ctx context.Context, n NewSubscription) (dest hub.Destination, made bool, err error) {
	tenant := string(n.Subscription.Tenant)
	policy, err := json.Marshal(n.Subscription.RetryPolicy)
	if err != nil {
		return dest, false, fmt.Errorf("encode a retry policy: %w", err)
	}
	err = d.changeTenant(ctx, tenant, func(tx pgx.Tx) error {
		if dest, made, err = d.getOrMakeDestination(ctx, tx, &n); err != nil {
			return err
		}
		s := &n.Subscription
		s.Destination, s.Kind = dest.ID, dest.Kind
		if err := d.queries.InsertSubscription(ctx, tx, dbsqlc.InsertSubscriptionParams{
			ID: s.ID.ID, TenantID: tenant, Name: s.Name, Description: s.Description,
			Origin: textOrNull(s.Origin), EventTypes: s.EventTypes, SchemaMajor: s.SchemaMajor,
			DestinationID: dest.ID.ID, Kind: string(dest.Kind),
			VerificationState: string(s.VerificationState), RetryPolicy: policy,
			TimeoutMs: int32(s.Timeout / time.Millisecond), CreatedAt: s.CreatedAt,
		}); err != nil || n.Audit == nil {
			return err
		}
		return d.audit(ctx, tx, n.Audit(s))
	})
	if err != nil {
		return dest, false, fmt.Errorf("create event subscription of tenant %s: %w", tenant, err)
	}
	return dest, made, nil
}

// changeTenant runs a change of a tenant's configuration in one transaction,
// under the tenant's lock, and bumps its version.
func (d *DB) changeTenant(ctx context.Context, tenant string, change func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if err := d.queries.EnsureTenants(ctx, tx, []string{tenant}); err != nil {
			return err
		}
		if _, err := d.queries.LockTenants(ctx, tx, []string{tenant}); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		if err := d.queries.BumpConfigVersion(ctx, tx, tenant); err != nil {
			return err
		}
		return d.queries.NotifyConfig(ctx, tx, tenant)
	})
}

func (d *DB) getOrMakeDestination(ctx context.Context, tx pgx.Tx, n *NewSubscription) (hub.Destination, bool, error) {
	dest := n.Destination
	found, err := d.queries.DestinationByURL(ctx, tx, dbsqlc.DestinationByURLParams{
		TenantID: string(dest.Tenant), Kind: string(dest.Kind), Url: dest.URL,
	})
	if err != nil {
		return dest, false, err
	}
	if len(found) > 0 {
		return destinationOf(found[0]), false, nil
	}
	if err := d.queries.InsertDestination(ctx, tx, dbsqlc.InsertDestinationParams{
		ID: dest.ID.ID, TenantID: string(dest.Tenant), Kind: string(dest.Kind), Url: dest.URL, CreatedAt: dest.CreatedAt,
	}); err != nil {
		return dest, false, err
	}
	if n.Seal == nil {
		return dest, true, nil
	}
	sealed, err := n.Seal(secret.Binding{Tenant: dest.Tenant, Row: n.SecretID, Version: 1})
	if err != nil {
		return dest, false, err
	}
	return dest, true, d.queries.InsertSecret(ctx, tx, dbsqlc.InsertSecretParams{
		ID: n.SecretID, TenantID: string(dest.Tenant), DestinationID: dest.ID.ID, Version: 1,
		KeyID: sealed.KeyID, WrappedKey: sealed.WrappedKey, Ciphertext: sealed.Ciphertext, CreatedAt: dest.CreatedAt,
	})
}

// Verified is what a probe of a subscription found.
type Verified struct {
	Probed hub.EventSubscription // as it was when the probe was sent
	State  hub.VerificationState
	Error  string
	At     time.Time
	// Audit makes the audit log's entry for the change; nil for a program that
	// acts for nobody, such as a test.
	Audit func(before, after *hub.EventSubscription) AuditEntry
}

// RecordVerification stores the result of a probe and returns the subscription
// as it then stands. It is ErrChanged when somebody changed or deleted the
// subscription since the probe was sent. Success enables again what the hub
// had disabled itself.
func (d *DB) RecordVerification(ctx context.Context, v Verified) (hub.EventSubscription, error) {
	var after hub.EventSubscription
	err := d.changeTenant(ctx, string(v.Probed.Tenant), func(tx pgx.Tx) error {
		now, err := d.subscription(ctx, tx, v.Probed.ID)
		if err != nil {
			return err
		}
		n, err := d.queries.SetVerification(ctx, tx, dbsqlc.SetVerificationParams{
			ID: v.Probed.ID.ID, Version: v.Probed.Version, DestinationID: v.Probed.Destination.ID,
			State: string(v.State), Error: v.Error, Now: v.At,
			Revive: v.State == hub.VerificationActive && now.DisabledBy == hub.DisabledByAuto,
		})
		if err == nil && n == 0 {
			err = ErrChanged
		}
		if err != nil {
			return err
		}
		if after, err = d.subscription(ctx, tx, v.Probed.ID); err != nil || v.Audit == nil {
			return err
		}
		return d.audit(ctx, tx, v.Audit(&now, &after))
	})
	if err != nil {
		return after, fmt.Errorf("record the verification of %s: %w", v.Probed.ID, err)
	}
	return after, nil
}

func (d *DB) subscription(ctx context.Context, tx dbsqlc.DBTX, id hub.SubscriptionID) (hub.EventSubscription, error) {
	rows, err := d.queries.SubscriptionsByID(ctx, tx, []hub.ID{id.ID})
	if err != nil {
		return hub.EventSubscription{}, err
	}
	if len(rows) == 0 {
		return hub.EventSubscription{}, ErrChanged
	}
	return subscriptionOf(&rows[0]), nil
}

// SubscriptionsByID reads subscriptions; those that do not exist are missing.
func (d *DB) SubscriptionsByID(ctx context.Context, ids []hub.SubscriptionID) ([]hub.EventSubscription, error) {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	rows, err := d.queries.SubscriptionsByID(ctx, d.pool, keys)
	if err != nil {
		return nil, fmt.Errorf("read %d event subscriptions: %w", len(ids), err)
	}
	return subscriptionsOf(rows), nil
}

// SubscriptionPage reads up to limit subscriptions with smaller ids than
// before, the newest first; of all tenants when tenant is "".
func (d *DB) SubscriptionPage(ctx context.Context, tenant hub.TenantID, before hub.ID, limit int) ([]hub.EventSubscription, error) {
	var rows []dbsqlc.EventSubscription
	var err error
	if tenant == "" {
		rows, err = d.queries.SubscriptionPage(ctx, d.pool, dbsqlc.SubscriptionPageParams{Before: before, Page: int32(limit)})
	} else {
		rows, err = d.queries.SubscriptionPageOfTenant(ctx, d.pool, dbsqlc.SubscriptionPageOfTenantParams{
			TenantID: string(tenant), Before: before, Page: int32(limit),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list event subscriptions: %w", err)
	}
	return subscriptionsOf(rows), nil
}

func subscriptionsOf(rows []dbsqlc.EventSubscription) []hub.EventSubscription {
	list := make([]hub.EventSubscription, len(rows))
	for i := range rows {
		list[i] = subscriptionOf(&rows[i])
	}
	return list
}

func subscriptionOf(r *dbsqlc.EventSubscription) hub.EventSubscription {
	s := hub.EventSubscription{
		ID: hub.SubscriptionID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Name: r.Name, Description: r.Description,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Version: r.Version,
		EventTypes: r.EventTypes, SchemaMajor: r.SchemaMajor,
		Destination: hub.DestinationID{ID: r.DestinationID}, Kind: hub.SinkKind(r.Kind),
		Enabled: r.Enabled, DisabledReason: r.DisabledReason,
		VerificationState: hub.VerificationState(r.VerificationState), VerificationError: r.VerificationError,
		Timeout: time.Duration(r.TimeoutMs) * time.Millisecond,
	}
	if r.Origin != nil {
		s.Origin = *r.Origin
	}
	if r.DisabledBy != nil {
		s.DisabledBy = hub.DisabledBy(*r.DisabledBy)
	}
	if r.DisabledAt != nil {
		s.DisabledAt = *r.DisabledAt
	}
	if json.Unmarshal(r.RetryPolicy, &s.RetryPolicy) != nil {
		s.RetryPolicy = hub.RetryPolicy{} // as delivery takes it: the CURVE
	}
	if json.Unmarshal(r.Headers, &s.Headers) != nil {
		s.Headers = nil
	}
	s.DisableOnGone = r.DisableOnGone
	if r.DeletedAt != nil {
		s.DeletedAt = *r.DeletedAt
	}
	return s
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
