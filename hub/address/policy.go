package address

import (
	"errors"
	"net/netip"
	"slices"
)

// Policy is a deployment's choice. The zero value is that of production:
// https only, public addresses only, any port.
type Policy struct {
	// AllowLoopback admits 127.0.0.0/8, ::1 and localhost names; for
	// development.
	AllowLoopback bool
	// AllowHTTP admits http URLs.
	AllowHTTP bool
	// AllowPrefixes admits addresses that Allowed refuses, and those of Own.
	AllowPrefixes []netip.Prefix
	// AllowPorts, when not nil, are the only ports; nil is any but 0.
	AllowPorts []uint16
	// Own are the hub's own addresses, which are refused like private ones
	// even when they are public.
	Own []netip.Addr
}

// Refusal is the error of Permits. Its text names no address, so that a tenant
// cannot map the hub's network by it; the address is there for the operator's
// log.
type Refusal struct {
	Address netip.AddrPort
	reason  string
}

func (r *Refusal) Error() string { return r.reason }

const (
	errPort    = "the destination's port is not allowed"
	errAddress = "the destination leads to an address that deliveries may not reach"
)

// Permits judges one address about to be dialled; nil when it may be. The
// error is a *Refusal.
func (p Policy) Permits(a netip.AddrPort) error {
	if !p.permitsPort(a.Port()) {
		return &Refusal{Address: a, reason: errPort}
	}
	if !p.permitsAddr(a.Addr()) {
		return &Refusal{Address: a, reason: errAddress}
	}
	return nil
}

func (p Policy) permitsPort(port uint16) bool {
	return port != 0 && (p.AllowPorts == nil || slices.Contains(p.AllowPorts, port))
}

func (p Policy) permitsAddr(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if p.AllowLoopback && a.IsLoopback() {
		return true
	}
	for _, prefix := range p.AllowPrefixes {
		if prefix.Contains(a) {
			return true
		}
	}
	for _, own := range p.Own {
		if own.Unmap().WithZone("") == a {
			return false
		}
	}
	return Allowed(a)
}

// IsRefusal reports whether an error is, or wraps, a refused address.
func IsRefusal(err error) bool {
	var r *Refusal
	return errors.As(err, &r)
}
