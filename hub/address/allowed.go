package address

import "net/netip"

// global6 is the only part of IPv6 that is given out for public use.
var global6 = netip.MustParsePrefix("2000::/3")

// closed are the parts of the public ranges where no delivery goes.
var closed = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("10.0.0.0/8"),       // private
	netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT; a cloud's metadata at 100.100.100.200
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback
	netip.MustParsePrefix("168.63.129.16/32"), // a cloud's host and metadata service
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local; metadata of most clouds
	netip.MustParsePrefix("172.16.0.0/12"),    // private
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; a cloud's metadata at 192.0.0.192
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.31.196.0/24"),  // AS112
	netip.MustParsePrefix("192.52.193.0/24"),  // multicast tunnelling
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),   // private
	netip.MustParsePrefix("192.175.48.0/24"),  // AS112
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarking
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, and broadcast

	netip.MustParsePrefix("2001::/23"),         // protocol assignments with Teredo, benchmarking, ORCHID
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

// Allowed reports whether a delivery may connect to an address when no
// allow-list speaks for it. An IPv4-mapped address is judged as the IPv4
// address that it stands for, and one of ISATAP by the IPv4 address in it too;
// NAT64 and other ways to write an IPv4 address in IPv6 lie outside 2000::/3 or
// are closed.
func Allowed(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is6() {
		if v4, ok := isatap(a); !global6.Contains(a) || ok && !Allowed(v4) {
			return false
		}
	}
	for _, p := range closed {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// isatap is the IPv4 address of a site's host within an IPv6 one (RFC 5214),
// which may stand under any public prefix.
func isatap(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	if b[8]&^2 != 0 || b[9] != 0 || b[10] != 0x5e || b[11] != 0xfe {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[12:])), true
}
