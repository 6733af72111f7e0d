package settings

import (
	"net/netip"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// privateNetworks are what ALLOW_PRIVATE_SINKS opens besides loopback.
var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("fc00::/7"),
}

// Addresses is where deliveries may connect: the public internet by https, or
// with ALLOW_PRIVATE_SINKS also loopback and private networks, by http too.
func (s Settings) Addresses() address.Policy {
	if !s.AllowPrivateSinks {
		return address.Policy{}
	}
	return address.Policy{AllowLoopback: true, AllowHTTP: true, AllowPrefixes: privateNetworks}
}
