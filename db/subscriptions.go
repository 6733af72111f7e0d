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
	// Fit decides what becomes of the destination, the one that is there or a
	// new one. It is called inside the transaction; its error ends it and is
	// returned as it is. Nil for a destination that stays as it is, or is new
	// and as given, with the secret of Seal.
	Fit func(*DestinationState) (DestinationEdit, error)
	// Seal makes the signing secret of a new destination when there is no Fit,
	// and SecretID is its row; nil for a destination that needs none.
	Seal     func(secret.Binding) (secret.Sealed, error)
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
	err = d.changeTenant(ctx, tenant, func(tx pgx.Tx) error {
		fit := n.Fit
		if fit == nil {
			fit = n.asGiven
		}
		state, err := d.destinationByURL(ctx, tx, n.Destination)
		if err != nil {
			return err
		}
		made = state.New
		if dest, _, err = d.fitDestination(ctx, tx, state, fit, n.Subscription.ID, n.Subscription.CreatedAt); err != nil {
			return err
		}
		s := &n.Subscription
		s.Destination, s.Kind = dest.ID, dest.Kind
		p, err := updateOf(s)
		if err != nil {
			return err
		}
		if err := d.queries.InsertSubscription(ctx, tx, dbsqlc.InsertSubscriptionParams{
			ID: s.ID.ID, TenantID: tenant, Name: s.Name, Description: s.Description,
			Origin: p.Origin, EventTypes: s.EventTypes, SchemaMajor: s.SchemaMajor,
			DestinationID: dest.ID.ID, Kind: string(dest.Kind),
			VerificationState: string(s.VerificationState), RetryPolicy: p.RetryPolicy,
			TimeoutMs: p.TimeoutMs, Headers: p.Headers, DisableOnGone: s.DisableOnGone, CreatedAt: s.CreatedAt,
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

// asGiven is the Fit of a subscription that brings none.
func (n *NewSubscription) asGiven(have *DestinationState) (DestinationEdit, error) {
	edit := DestinationEdit{Destination: have.Destination}
	if !have.New || n.Seal == nil {
		return edit, nil
	}
	binding := secret.Binding{Tenant: have.Destination.Tenant, Row: n.SecretID, Version: 1}
	sealed, err := n.Seal(binding)
	edit.Keys = []SealedSecret{{Sealed: sealed, Binding: binding, CreatedAt: have.Destination.CreatedAt}}
	return edit, err
}

// errUnchanged ends a change that has nothing to do: nothing is stored and the
// version stays.
var errUnchanged = errors.New("nothing is to be changed")

// changeTenant runs a change of a tenant's configuration in one transaction,
// under the tenant's lock, and bumps its version.
func (d *DB) changeTenant(ctx context.Context, tenant string, change func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
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
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// SubscriptionsByID reads subscriptions, deleted ones too; those that never
// existed are missing.
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
// before, the newest first; of all tenants when tenant is "". Deleted ones are
// left out.
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
	if json.Unmarshal(r.Headers, &s.Headers) != nil || len(s.Headers) == 0 {
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
