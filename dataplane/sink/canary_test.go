package sink

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// canaries listen on one port at addresses of this machine, and count.
type canaries struct {
	addrs []netip.Addr
	port  string

	mu       sync.Mutex
	accepted map[netip.Addr]int
	arrived  chan struct{}
}

func newCanaries(t *testing.T) *canaries {
	c := &canaries{accepted: make(map[netip.Addr]int), arrived: make(chan struct{}, 10_000)}
	wanted := []string{"127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "::1"}
	if list, err := net.InterfaceAddrs(); err == nil {
		for _, a := range list {
			if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
				wanted = append(wanted, ip.IP.String())
			}
		}
	}
	for _, host := range wanted {
		port := c.port
		if port == "" {
			port = "0"
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Logf("no canary on %s: %v", host, err)
			continue
		}
		at := listener.Addr().(*net.TCPAddr).AddrPort()
		addr := at.Addr().Unmap()
		c.addrs, c.port = append(c.addrs, addr), strconv.Itoa(int(at.Port()))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				c.mu.Lock()
				c.accepted[addr]++
				c.mu.Unlock()
				conn.Close()
				c.arrived <- struct{}{}
			}
		}()
		t.Cleanup(func() { listener.Close(); <-done })
	}
	return c
}

func (c *canaries) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.accepted {
		n += k
	}
	return n
}

// only is a policy under which the canaries may be reached, and nothing else
// that production may not.
func (c *canaries) only() address.Policy {
	p := address.Policy{AllowHTTP: true}
	for _, a := range c.addrs {
		p.AllowPrefixes = append(p.AllowPrefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return p
}
