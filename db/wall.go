package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/hub"
)

// pool is where the methods of DB run their statements. Unwalled, as the data
// plane opens it, it is the login user's plain pool. Walled, it looks at the
// context of each call:
//
//	for a tenant    a connection with role hub_tenant, on which row level
//	                security lets through what hub.tenant names. The name goes
//	                ahead of the statement in the same round trip and the same
//	                transaction, and ends with that.
//	for all         a connection with role hub_platform
//	for nobody      refused
//
// Connections keep their role from the first to the last moment: a connection
// that changed it would plan its statements anew each time.
type pool struct {
	login             *pgxpool.Pool // from whom nothing is hidden
	tenants, platform *pgxpool.Pool // nil when there is no wall
}

// errOwnersOnly is returned for work that a walled DB does not do.
var errOwnersOnly = errors.New("db: this is work of the data plane, which a walled DB does not do")

// openWall adds the pools of the two roles.
func (p *pool) openWall(ctx context.Context, c *pgxpool.Config) (err error) {
	for role, to := range map[string]**pgxpool.Pool{tenantRole: &p.tenants, platformRole: &p.platform} {
		of := c.Copy()
		of.ConnConfig.RuntimeParams["role"] = role
		if *to, err = pgxpool.NewWithConfig(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// Close waits for the connections that are in use and closes all.
func (p *pool) Close() {
	for _, one := range []*pgxpool.Pool{p.tenants, p.platform, p.login} {
		if one != nil {
			one.Close()
		}
	}
}

// of is the pool for a call, and its tenant if it is for one.
func (p *pool) of(ctx context.Context) (*pgxpool.Pool, hub.TenantID, error) {
	if p.tenants == nil {
		return p.login, "", nil
	}
	s, err := scopeOf(ctx)
	switch {
	case err != nil:
		return nil, "", err
	case s.platform:
		return p.platform, "", nil
	}
	return p.tenants, s.tenant, nil
}

// Acquire is for a whole connection, which no wall would stand around.
func (p *pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if p.tenants != nil {
		return nil, errOwnersOnly
	}
	return p.login.Acquire(ctx)
}

// BeginTx begins a transaction. The tenant travels with BEGIN; a valid tenant
// id has nothing that would need quoting.
func (p *pool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	on, tenant, err := p.of(ctx)
	if err != nil {
		return nil, err
	}
	if tenant != "" {
		o.BeginQuery = beginFor(o, tenant)
	}
	return on.BeginTx(ctx, o)
}

// Begin is BeginTx with the default options.
func (p *pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

func beginFor(o pgx.TxOptions, tenant hub.TenantID) string {
	sql := "begin"
	if o.IsoLevel != "" {
		sql += " isolation level " + string(o.IsoLevel)
	}
	if o.AccessMode != "" {
		sql += " " + string(o.AccessMode)
	}
	return sql + "; select set_config('hub.tenant', '" + string(tenant) + "', true)"
}

// Exec runs one statement.
func (p *pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	on, tenant, err := p.of(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	if tenant == "" {
		return on.Exec(ctx, sql, args...)
	}
	results := named(ctx, on, tenant, sql, args)
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query runs one statement that gives rows.
func (p *pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	on, tenant, err := p.of(ctx)
	if err != nil {
		return noRows{err: err}, err
	}
	if tenant == "" {
		return on.Query(ctx, sql, args...)
	}
	results := named(ctx, on, tenant, sql, args)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // the error of the statement says it all
		return noRows{err: err}, err
	}
	return &namedRows{Rows: rows, results: results}, nil
}

// QueryRow runs one statement that gives one row.
func (p *pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	on, tenant, err := p.of(ctx)
	switch {
	case err != nil:
		return noRows{err: err}
	case tenant == "":
		return on.QueryRow(ctx, sql, args...)
	}
	return namedRow{named(ctx, on, tenant, sql, args)}
}

// named sends a statement behind its tenant. Until the end of a batch both
// are one transaction.
func named(ctx context.Context, on *pgxpool.Pool, tenant hub.TenantID, sql string, args []any) pgx.BatchResults {
	var b pgx.Batch
	b.Queue("select set_config('hub.tenant', $1, true)", string(tenant))
	b.Queue(sql, args...)
	results := on.SendBatch(ctx, &b)
	// Its error, if any, comes again with the statement behind it.
	_, _ = results.Exec()
	return results
}

// namedRows gives its connection back when its rows come to their end.
type namedRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *namedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *namedRows) Close() {
	r.Rows.Close()
	if r.results != nil {
		r.err = r.results.Close()
		r.results = nil
	}
}

// Err is also what befell the transaction after the last row.
func (r *namedRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// namedRow is a single row that gives its connection back when it is read.
type namedRow struct{ results pgx.BatchResults }

func (r namedRow) Scan(to ...any) error {
	err := r.results.QueryRow().Scan(to...)
	if closed := r.results.Close(); err == nil {
		err = closed
	}
	return err
}

// noRows is the answer to a statement that was not sent or failed at once.
type noRows struct {
	pgx.Rows
	err error
}

func (r noRows) Close()            {}
func (r noRows) Err() error        { return r.err }
func (r noRows) Next() bool        { return false }
func (r noRows) Scan(...any) error { return r.err }
