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
	"syscall"

	"github.com/streaming-hub/streaming-hub/hub"
)

// maxDetail bounds a failure's line for people, in bytes.
const maxDetail = 1 << 10

// Classify says what kind of failure an error of the transport is, by its
// type and by the phase in which it came, never by its text.
func Classify(err error, phase hub.Phase) hub.Failure {
	f := hub.Failure{Phase: phase, Detail: hub.Storable(err.Error(), maxDetail)}
	var (
		blocked *BlockedError
		dns     *net.DNSError
		op      *net.OpError
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &blocked):
		f.Class, f.Phase = hub.ErrBlocked, hub.PhaseConnect
	case errors.Is(err, context.Canceled):
		f.Class = hub.ErrCancelled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		f.Class = hub.ErrTimeout
		f.Detail = fmt.Sprintf("no answer within the attempt's time, during %s", phaseWords[phase])
	case errors.As(err, &dns):
		f.Class, f.Phase = hub.ErrDNS, hub.PhaseDNS
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		f.Class, f.Phase = hub.ErrTLS, hub.PhaseTLS
	case errors.As(err, &op) && op.Op == "dial":
		f.Class, f.Phase = hub.ErrConnect, hub.PhaseConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		f.Class = hub.ErrReset
	case phase == hub.PhaseTLS:
		f.Class = hub.ErrTLS
	case phase == hub.PhaseRequest:
		// The connection ended before an answer began; net/http has errors of
		// its own for it, without a type.
		f.Class = hub.ErrReset
	default:
		f.Class = hub.ErrProtocol
	}
	return f
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

var phaseWords = map[hub.Phase]string{
	hub.PhasePrepare: "preparation",
	hub.PhaseDNS:     "the look-up of the name",
	hub.PhaseConnect: "the connection",
	hub.PhaseTLS:     "the TLS handshake",
	hub.PhaseRequest: "the sending of the request",
	hub.PhaseAnswer:  "the wait for the answer",
}

// StatusFailure is the failure of an answer outside 200–299.
func StatusFailure(status int32, location string) hub.Failure {
	detail := fmt.Sprintf("the receiver answered %d", status)
	if status >= 300 && status < 400 {
		detail += "; redirects are never followed"
		if location != "" {
			detail += fmt.Sprintf(" (Location: %s)", hub.Storable(location, 512))
		}
	}
	return hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: detail}
}
