package db_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db"
)

func TestAway(t *testing.T) {
	said := func(code string) error { return fmt.Errorf("list events: %w", &pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":             {nil, false},
		"another_error":       {errors.New("boom"), false},
		"given_up":            {context.Canceled, false},
		"no_such_table":       {said("42P01"), false},
		"unique_violation":    {said("23505"), false},
		"statement_cancelled": {said("57014"), false},
		"shut_down":           {said("57P01"), true},
		"starting":            {said("57P03"), true},
		"connection_failure":  {said("08006"), true},
		"too_many_clients":    {said("53300"), true},
		"cut_off":             {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
	} {
		t.Run(name, func(t *testing.T) {
			if db.Away(c.err) != c.want {
				t.Errorf("%v is judged wrongly", c.err)
			}
		})
	}
	t.Run("nobody_listens", func(t *testing.T) {
		_, err := pgconn.Connect(t.Context(), "host=127.0.0.1 port=1 user=x dbname=x sslmode=disable")
		if !db.Away(err) {
			t.Errorf("%v is judged wrongly", err)
		}
	})
}
