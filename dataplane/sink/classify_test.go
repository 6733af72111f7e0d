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
	"strings"
	"syscall"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
)

// connectionFault is made like net/http's error of a whole HTTP/2 connection.
type connectionFault uint32

func (connectionFault) Error() string { return "connection error" }

func TestClassify(t *testing.T) {
	here := &net.TCPAddr{IP: net.IPv4(10, 0, 3, 7), Port: 43210}
	there := &net.TCPAddr{IP: net.IPv4(93, 184, 216, 34), Port: 443}
	op := func(name string, err error) error {
		return fmt.Errorf("wrapped: %w", &net.OpError{Op: name, Net: "tcp", Source: here, Addr: there, Err: err})
	}
	untyped := errors.New("i/o timeout: connection reset by peer: tls: no such host")
	for _, row := range []struct {
		rule     string
		err      error
		phase    hub.Phase
		answered bool
		class    hub.ErrorClass
		in       hub.Phase
	}{
		{"time_is_up", context.DeadlineExceeded, hub.PhaseAnswer, false, hub.ErrTimeout, hub.PhaseAnswer},
		{"socket_deadline", op("read", os.ErrDeadlineExceeded), hub.PhaseRequest, false, hub.ErrTimeout, hub.PhaseRequest},
		{"connect_timeout", op("dial", syscall.ETIMEDOUT), hub.PhaseConnect, false, hub.ErrTimeout, hub.PhaseConnect},
		{"slow_name_server", &net.DNSError{Name: "h", Server: "10.0.0.2:53", IsTimeout: true}, hub.PhaseDNS, false, hub.ErrTimeout, hub.PhaseDNS},
		{"stopping", context.Canceled, hub.PhaseAnswer, false, hub.ErrCancelled, hub.PhaseAnswer},
		{"blocked", &BlockedError{Host: "h", Reason: &address.Refusal{}}, hub.PhaseConnect, false, hub.ErrBlocked, hub.PhaseConnect},
		{"unsendable", &unsendableError{"no"}, hub.PhasePrepare, false, hub.ErrNoSecret, hub.PhasePrepare},
		{"unknown_name", op("dial", &net.DNSError{Name: "h", Server: "10.0.0.2:53", IsNotFound: true}), hub.PhaseDNS, false, hub.ErrDNS, hub.PhaseDNS},
		{"failing_name_server", &net.DNSError{Name: "h", Server: "10.0.0.2:53", IsTemporary: true}, hub.PhaseDNS, false, hub.ErrDNS, hub.PhaseDNS},
		{"refused", op("dial", syscall.ECONNREFUSED), hub.PhaseConnect, false, hub.ErrConnect, hub.PhaseConnect},
		{"unreachable", op("dial", syscall.EHOSTUNREACH), hub.PhaseConnect, false, hub.ErrConnect, hub.PhaseConnect},
		{"certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, hub.PhaseTLS, false, hub.ErrTLS, hub.PhaseTLS},
		{"alert_after_the_handshake", op("remote error", errors.New("tls: bad certificate")), hub.PhaseAnswer, false, hub.ErrTLS, hub.PhaseTLS},
		{"no_TLS_at_all", tls.RecordHeaderError{}, hub.PhaseTLS, false, hub.ErrTLS, hub.PhaseTLS},
		{"anything_in_the_handshake", untyped, hub.PhaseTLS, false, hub.ErrTLS, hub.PhaseTLS},
		{"reset", op("read", syscall.ECONNRESET), hub.PhaseAnswer, false, hub.ErrReset, hub.PhaseAnswer},
		{"reset_in_an_answer", op("read", syscall.ECONNRESET), hub.PhaseAnswer, true, hub.ErrReset, hub.PhaseAnswer},
		{"broken_pipe", op("write", syscall.EPIPE), hub.PhaseRequest, false, hub.ErrReset, hub.PhaseRequest},
		{"end", io.EOF, hub.PhaseAnswer, false, hub.ErrReset, hub.PhaseAnswer},
		{"end_in_an_answer", io.ErrUnexpectedEOF, hub.PhaseAnswer, true, hub.ErrReset, hub.PhaseAnswer},
		{"anything_before_an_answer", untyped, hub.PhaseAnswer, false, hub.ErrReset, hub.PhaseAnswer},
		{"anything_in_an_answer", untyped, hub.PhaseAnswer, true, hub.ErrProtocol, hub.PhaseAnswer},
		{"socket_error_in_an_answer", op("read", syscall.EHOSTUNREACH), hub.PhaseAnswer, true, hub.ErrProtocol, hub.PhaseAnswer},
		{"stream_refused", streamError{Code: h2Refused}, hub.PhaseAnswer, false, hub.ErrReset, hub.PhaseAnswer},
		{"stream_of_nonsense", streamError{Code: 1, Cause: io.ErrNoProgress}, hub.PhaseAnswer, false, hub.ErrProtocol, hub.PhaseAnswer},
		{"connection_of_nonsense", fmt.Errorf("wrapped: %w", connectionFault(1)), hub.PhaseAnswer, false, hub.ErrProtocol, hub.PhaseAnswer},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := Classify(row.err, row.phase, row.answered)
			if f.Class != row.class || f.Phase != row.in {
				t.Errorf("failure = %+v, want %s in %s", f, row.class, row.in)
			}
			if f.Detail == "" || strings.Contains(f.Detail, "10.0.") || strings.Contains(f.Detail, "93.184") || strings.Contains(f.Detail, "\n") {
				t.Errorf("detail %q", f.Detail)
			}
		})
	}
}

func TestStatusFailure(t *testing.T) {
	for _, row := range []struct {
		status   int32
		location string
		class    hub.ErrorClass
		says     string
	}{
		{101, "", hub.ErrProtocol, "101"}, {99, "", hub.ErrProtocol, "99"}, {0, "", hub.ErrProtocol, "0"}, {600, "", hub.ErrProtocol, "600"}, {999, "", hub.ErrProtocol, "no status"},
		{302, "https://10.0.0.1/x", hub.ErrStatus, "(Location: https://10.0.0.1/x)"}, {304, "", hub.ErrStatus, "never followed"},
		{302, strings.Repeat("é", 5000), hub.ErrStatus, "Location"},
		{404, "https://elsewhere/", hub.ErrStatus, "404"}, {410, "", hub.ErrStatus, "410"}, {599, "", hub.ErrStatus, "599"},
	} {
		f := StatusFailure(row.status, row.location)
		if f.Class != row.class || f.Phase != hub.PhaseAnswer || !strings.Contains(f.Detail, row.says) || len(f.Detail) > maxDetail {
			t.Errorf("%d: %+v", row.status, f)
		}
	}
}
