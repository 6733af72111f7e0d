package sink

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// connectTimeout bounds the connection to one address of a name; those behind
// it get their share of the attempt's time.
const connectTimeout = 10 * time.Second

// closeTimeout bounds the farewell of a TLS connection to a peer that does not
// read. The attempt waits for it.
const closeTimeout = 200 * time.Millisecond

// BlockedError says that the address policy forbids a destination. Its text
// names no address, so that a tenant cannot map the hub's network by it.
type BlockedError struct {
	Host   string // "" when the URL itself is refused
	Reason error
}

func (e *BlockedError) Error() string {
	if e.Host == "" {
		return e.Reason.Error()
	}
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

	mu     sync.Mutex
	own    []netip.Addr // configured ones and those of this machine's interfaces
	readAt time.Time
}

func newGuard(p address.Policy) *guard {
	return &guard{
		policy:   p,
		own:      p.Own,
		resolver: net.DefaultResolver,
		dialer:   net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second},
	}
}

func (g *guard) dial(ctx context.Context, network, hostport string) (*briefFarewell, error) {
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
	policy := g.policy
	policy.Own = g.ownAddresses()
	for _, a := range addrs {
		if err := policy.Permits(netip.AddrPortFrom(a, uint16(port))); err != nil {
			return nil, &BlockedError{Host: host, Reason: err}
		}
	}
	var last error
	for i, a := range addrs {
		conn, err := g.connect(ctx, network, netip.AddrPortFrom(a, uint16(port)), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// connect dials one address of those left, with its share of the time.
func (g *guard) connect(ctx context.Context, network string, to netip.AddrPort, left int) (*briefFarewell, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := time.Until(deadline) / time.Duration(left)
		shorter, cancel := context.WithTimeout(ctx, share)
		defer cancel()
		ctx = shorter
	}
	conn, err := g.dialer.DialContext(ctx, network, to.String())
	if err != nil {
		return nil, err
	}
	return &briefFarewell{conn}, nil
}

// briefFarewell is a connection that does not wait long to close.
type briefFarewell struct{ net.Conn }

// SetWriteDeadline is called by crypto/tls before its closing message only; it
// gives a peer five seconds to take it.
func (c *briefFarewell) SetWriteDeadline(t time.Time) error {
	if soon := time.Now().Add(closeTimeout); t.After(soon) {
		t = soon
	}
	return c.Conn.SetWriteDeadline(t)
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

// ownRefresh is how old the list of this machine's addresses may be.
const ownRefresh = time.Minute

// ownAddresses are the configured ones and those of this machine's interfaces.
func (g *guard) ownAddresses() []netip.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.readAt.IsZero() || now.Sub(g.readAt) > ownRefresh {
		g.readAt = now
		if list, err := net.InterfaceAddrs(); err == nil { // else the last list holds
			g.own = append([]netip.Addr(nil), g.policy.Own...)
			for _, a := range list {
				if ip, ok := a.(*net.IPNet); ok {
					if addr, ok := netip.AddrFromSlice(ip.IP); ok {
						g.own = append(g.own, addr.Unmap())
					}
				}
			}
		}
	}
	return g.own
}
