package sink

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// connectTimeout bounds one TCP handshake; the attempt's own time is shorter
// or longer and bounds all of them together.
const connectTimeout = 10 * time.Second

// BlockedError says that the address policy forbids a destination.
type BlockedError struct {
	Host   string
	Reason error
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("the address of %s is not allowed: %v", e.Host, e.Reason)
}

func (e *BlockedError) Unwrap() error { return e.Reason }

// guard resolves a name once, checks every address that it has, and dials the
// checked addresses: a name cannot mean one thing to the check and another to
// the connection.
type guard struct {
	policy   address.Policy
	resolver *net.Resolver
	dialer   net.Dialer
}

func newGuard(p address.Policy) *guard {
	return &guard{
		policy:   p,
		resolver: net.DefaultResolver,
		dialer:   net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second},
	}
}

func (g *guard) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, &BlockedError{Host: hostport, Reason: err}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, &BlockedError{Host: hostport, Reason: err}
	}
	addrs, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if err := g.policy.Permits(netip.AddrPortFrom(a, uint16(port))); err != nil {
			return nil, &BlockedError{Host: host, Reason: err}
		}
	}
	var last error
	for _, a := range addrs {
		conn, err := g.dialer.DialContext(ctx, network, netip.AddrPortFrom(a, uint16(port)).String())
		if err == nil {
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}
