package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"

	"github.com/streaming-hub/streaming-hub/hub"
)

// maxDetail bounds a failure's line for people, in bytes.
const maxDetail = 1 << 10

// streamError is net/http's error of one HTTP/2 stream, which errors.As fills
// in by the names of its fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("HTTP/2 stream error %#x", e.Code) }

// Codes of RFC 9113, section 7, with which a receiver ends a stream without
// saying that anything was wrong with it.
const (
	h2NoError     = 0x0
	h2Internal    = 0x2
	h2Refused     = 0x7
	h2Cancel      = 0x8
	h2CalmDown    = 0xb
	h2RequireHTTP = 0xd // HTTP_1_1_REQUIRED
)

// unsendableError is a fault of what the hub itself would send.
type unsendableError struct{ reason string }

func (e *unsendableError) Error() string { return e.reason }

// Classify says what kind of failure an error of the transport is, by its
// type, by the phase in which it came and by whether a byte of an answer had
// come, never by its text.
func Classify(err error, phase hub.Phase, answered bool) hub.Failure {
	f := hub.Failure{Phase: phase}
	var (
		blocked    *BlockedError
		unsendable *unsendableError
		dns        *net.DNSError
		op         *net.OpError
		stream     streamError
	)
	switch {
	case errors.As(err, &unsendable):
		f.Class, f.Phase = hub.ErrNoSecret, hub.PhasePrepare
	case errors.As(err, &blocked):
		f.Class, f.Phase = hub.ErrBlocked, hub.PhaseConnect
	case errors.Is(err, context.Canceled):
		f.Class = hub.ErrCancelled
	case isTimeout(err):
		f.Class = hub.ErrTimeout
	case errors.As(err, &dns):
		f.Class, f.Phase = hub.ErrDNS, hub.PhaseDNS
	case isTLS(err):
		f.Class, f.Phase = hub.ErrTLS, hub.PhaseTLS
	case errors.As(err, &op) && op.Op == "dial":
		f.Class, f.Phase = hub.ErrConnect, hub.PhaseConnect
	case isEnd(err):
		f.Class = hub.ErrReset
	case errors.As(err, &stream):
		f.Class = hub.ErrProtocol
		switch stream.Code {
		case h2NoError, h2Internal, h2Refused, h2Cancel, h2CalmDown, h2RequireHTTP:
			f.Class = hub.ErrReset
		}
	case phase == hub.PhaseTLS:
		f.Class = hub.ErrTLS
	case !answered && !isHTTP2Fault(err):
		// The connection ended before an answer began; net/http has errors of
		// its own for it, without a type.
		f.Class = hub.ErrReset
	default:
		f.Class = hub.ErrProtocol
	}
	f.Detail = hub.Storable(detail(err, f), maxDetail)
	return f
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

func isTLS(err error) bool {
	var (
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		op      *net.OpError
	)
	return errors.As(err, &cert) || errors.As(err, &record) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) ||
		// An alert; one about the client's certificate comes after the handshake.
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// isHTTP2Fault reports net/http's error of a whole HTTP/2 connection whose
// frames make no sense. It is an unexported number of 32 bits, as no other
// error of a round trip is.
func isHTTP2Fault(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.TypeOf(err).Kind() == reflect.Uint32 {
			return true
		}
	}
	return false
}

// StatusFailure is the failure of an answer outside 200–299.
func StatusFailure(status int32, location string) hub.Failure {
	f := hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: fmt.Sprintf("the receiver answered %d", status)}
	switch {
	case status == 101:
		f.Class = hub.ErrProtocol
		f.Detail += ", another protocol than the request's"
	case status < 200 || status > 599:
		f.Class = hub.ErrProtocol
		f.Detail += ", which is no status of HTTP"
	case status >= 300 && status < 400:
		f.Detail += "; redirects are never followed"
		if location != "" {
			f.Detail += fmt.Sprintf(" (Location: %s)", hub.Storable(location, 512))
		}
	}
	return f
}
