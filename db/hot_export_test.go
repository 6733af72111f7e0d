package db

import "github.com/jackc/pgx/v5/pgxpool"

// HotSession lets the tests of plans connect as ingest and dispatch do.
var HotSession = hotSession

// PoolOf lets tests tamper with a database that only a DB is connected to.
func PoolOf(d *DB) *pgxpool.Pool { return d.pool }
