package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pipeline lets sqlc's typed methods queue their statement into a batch
// instead of sending it: several statements then cost one round trip, and
// sqlc still checks their arguments. Exec queues; Query keeps the statement
// for the caller to queue with its own row reader.
type pipeline struct {
	batch *pgx.Batch
	sql   string
	args  []any
}

var errQueued = errors.New("db: the statement is queued, its rows come later")

func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

func (p *pipeline) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	p.sql, p.args = sql, args
	return nil, errQueued
}

// queue queues the statement that Query kept, with what reads its rows.
func (p *pipeline) queue(read func(pgx.Rows) error) {
	p.batch.Queue(p.sql, p.args...).Query(read)
}

func (p *pipeline) QueryRow(context.Context, string, ...any) pgx.Row {
	panic("db: a pipelined statement has no single row")
}
