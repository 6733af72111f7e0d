package sink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/streaming-hub/streaming-hub/hub"
)

var phaseWords = map[hub.Phase]string{
	hub.PhasePrepare: "preparation",
	hub.PhaseDNS:     "the look-up of the name",
	hub.PhaseConnect: "the connection",
	hub.PhaseTLS:     "the TLS handshake",
	hub.PhaseRequest: "the sending of the request",
	hub.PhaseAnswer:  "the wait for the answer",
}

// detail is a failure's line for a tenant's developer. Errors of package net
// name addresses of this machine and of its name servers; nothing of those is
// in it.
func detail(err error, f hub.Failure) string {
	var (
		dns   *net.DNSError
		errno syscall.Errno
		cert  *tls.CertificateVerificationError
	)
	switch f.Class {
	case hub.ErrTimeout:
		return fmt.Sprintf("no answer within the attempt's time, during %s", phaseWords[f.Phase])
	case hub.ErrCancelled:
		return fmt.Sprintf("the hub stopped during %s", phaseWords[f.Phase])
	case hub.ErrDNS:
		if errors.As(err, &dns) && dns.IsNotFound {
			return fmt.Sprintf("the name %s does not resolve to an address", dns.Name)
		}
		return fmt.Sprintf("the look-up of the name %s failed", dns.Name)
	case hub.ErrConnect:
		if errors.As(err, &errno) {
			return fmt.Sprintf("no connection to the receiver: %s", errno.Error())
		}
		return "no connection to the receiver"
	case hub.ErrReset:
		if errors.As(err, &errno) {
			return fmt.Sprintf("the receiver ended the connection during %s: %s", phaseWords[f.Phase], errno.Error())
		}
		return fmt.Sprintf("the receiver ended the connection during %s", phaseWords[f.Phase])
	case hub.ErrTLS:
		if errors.As(err, &cert) {
			return fmt.Sprintf("the receiver's certificate is not accepted: %v", cert.Err)
		}
		return fmt.Sprintf("the TLS handshake failed: %v", bare(err))
	case hub.ErrProtocol:
		var stream streamError
		if errors.As(err, &stream) && stream.Cause != nil {
			return fmt.Sprintf("the answer is not HTTP: %v", stream.Cause)
		}
		return fmt.Sprintf("the answer is not HTTP: %v", bare(err))
	}
	return err.Error()
}

// bare is an error without the addresses that package net puts around it.
func bare(err error) error {
	var op *net.OpError
	for errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	return err
}
