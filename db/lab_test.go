package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
)

// lab is a database of one test: the hub's connections, and a bare pool to
// look and to tamper with.
type lab struct {
	testing.TB
	dsn string
	db  *db.DB
	raw *pgxpool.Pool
}

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{TB: t, dsn: dbtest.New(t)}
	var err error
	if l.db, err = db.Open(t.Context(), db.Config{DSN: l.dsn, MaxConns: 12, Hot: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.db.Close)
	if l.raw, err = pgxpool.New(t.Context(), l.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.raw.Close)
	return l
}

func newID() hub.ID { return hubtest.NewID() }

func laneOf(tenant string) db.Lane {
	return db.Lane{Tenant: hub.TenantID(tenant), Destination: hub.DestinationID{ID: newID()}}
}

// born makes n deliveries of a lane, due at once and without a lease.
func born(lane db.Lane, n int) []db.NewDelivery {
	list := make([]db.NewDelivery, n)
	for i := range list {
		list[i].Delivery = hub.Delivery{
			ID: hub.DeliveryID{ID: newID()}, Event: hub.EventID{ID: newID()}, Tenant: lane.Tenant,
			Subscription: hub.SubscriptionID{ID: newID()}, Destination: lane.Destination, Run: 1, BodyBytes: 7,
		}
	}
	return list
}

// store ingests what a batch of the tenants writes.
func (l *lab) store(w db.IngestWrites, tenants ...hub.TenantID) {
	l.Helper()
	if w.ReceivedAt.IsZero() {
		w.ReceivedAt = time.Now()
	}
	err := l.db.Ingest(l.Context(), db.IngestBatch{Tenants: tenants}, func(context.Context, db.IngestState) (db.IngestWrites, error) {
		return w, nil
	})
	if err != nil {
		l.Fatal(err)
	}
}

// queue stores n due deliveries of a lane.
func (l *lab) queue(lane db.Lane, n int) []db.NewDelivery {
	l.Helper()
	list := born(lane, n)
	l.store(db.IngestWrites{Deliveries: list, Lease: time.Minute}, lane.Tenant)
	return list
}

func (l *lab) claim(lane db.Lane, quota int, lease time.Duration) []db.Claim {
	l.Helper()
	claims, err := l.db.ClaimLanes(l.Context(), []db.LaneQuota{{Lane: lane, Quota: quota}}, lease)
	if err != nil {
		l.Fatal(err)
	}
	return claims
}

// exec tampers with the tables.
func (l *lab) exec(sql string, args ...any) {
	l.Helper()
	if _, err := l.raw.Exec(l.Context(), sql, args...); err != nil {
		l.Fatal(err)
	}
}

// count runs a query with one number as its answer.
func (l *lab) count(sql string, args ...any) (n int) {
	l.Helper()
	if err := l.raw.QueryRow(l.Context(), sql, args...).Scan(&n); err != nil {
		l.Fatal(err)
	}
	return n
}

// wantCount says what is wrong with a number.
func (l *lab) wantCount(what string, want int, sql string, args ...any) {
	l.Helper()
	if got := l.count(sql, args...); got != want {
		l.Errorf("%s: %d, want %d", what, got, want)
	}
}

// failCommits makes every transaction that writes to a table fail at its
// commit: what is in the transaction is lost, whatever its place in it.
func (l *lab) failCommits(table string) {
	l.Helper()
	l.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no commit today'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON ` + table + ` DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION refuse()`)
}

// text is an id as the bare pool takes it.
func text(id fmt.Stringer) string { return id.String() }
