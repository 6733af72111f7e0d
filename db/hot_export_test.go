package db

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// HotSession lets the tests of plans connect as ingest and dispatch do.
var HotSession = hotSession

// ByIndex lets them explain what walks lanes.
const ByIndex = byIndex

// PlanAnew lets them explain what is planned at each execution.
const PlanAnew = planAnew

// PoolOf lets tests tamper with a database that only a DB is connected to.
func PoolOf(d *DB) *pgxpool.Pool { return d.pool.login }

// StatementsOf lets tests run any statement the way in which the methods of a
// DB run theirs.
func StatementsOf(d *DB) dbsqlc.DBTX { return d.pool }

// TenantPoolOf is the pool of a walled DB's calls for tenants.
func TenantPoolOf(d *DB) *pgxpool.Pool { return d.pool.tenants }
