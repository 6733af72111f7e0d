package db

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Away reports whether an error means that the database could not be reached or
// went away, and nothing about what was asked of it: a later try may work.
func Away(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said):
		// 08: connection exceptions; 57P01 to 57P03: it stops or starts;
		// 53300: no connection is left.
		return strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "57P0") || said.Code == "53300" || errors.As(err, &connect)
	case errors.As(err, &connect), errors.As(err, &network):
		return true
	}
	// SafeToRetry: nothing was sent, on a connection that was closed meanwhile.
	return pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
