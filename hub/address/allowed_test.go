package address_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

func TestAllowed_special_addresses(t *testing.T) {
	for _, text := range []string{
		"100.64.0.1", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::a00:1", "2002:7f00:1::", "2001::1", "2001:0:4136:e378::1",
		"198.18.0.1", "198.19.255.255", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "169.254.169.254", "100.100.100.200",
		"255.255.255.255", "224.0.0.1", "240.0.0.1", "::7f00:1", "::1", "0.1.2.3", "192.88.99.1", "100::1", "fe80::1", "fe80::1%eth0",
		"2606:4700:4700::1111%eth0", "::ffff:10.0.0.1", "::ffff:0:8.8.8.8", "4000::1",
		"2606:4700::5efe:7f00:1", "2606:4700::200:5efe:10.0.0.1", "2606:4700:0:1:0:5efe:a9fe:a9fe",
	} {
		if address.Allowed(netip.MustParseAddr(text)) {
			t.Errorf("%s is allowed", text)
		}
	}
	for _, text := range []string{"8.8.8.8", "1.1.1.1", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2001:200::1", "2001:db7:ffff::1", "168.63.129.15", "168.63.129.17",
		"2606:4700::5efe:808:808", "2606:4700::300:5efe:10.0.0.1", "2606:4700::5eff:10.0.0.1"} {
		if !address.Allowed(netip.MustParseAddr(text)) {
			t.Errorf("%s is refused", text)
		}
	}
	if address.Allowed(netip.Addr{}) {
		t.Error("no address is allowed")
	}
}

// Where an independent guard denies, we deny; we deny a little more. Both see
// the dialled form, that is an IPv4-mapped address as IPv4.
func TestAllowed_denies_what_an_independent_guard_denies(t *testing.T) {
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())
	compare := func(a netip.Addr) {
		a = a.Unmap()
		if guard.SafeAddr(a) != nil && address.Allowed(a) {
			t.Errorf("%s is allowed", a)
		}
	}
	edges := slices.Concat(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes, []netip.Prefix{ssrf.IPv6GlobalUnicast, ssrf.IPv6NAT64Prefix})
	for _, p := range edges {
		first := p.Masked().Addr()
		last := first.AsSlice()
		for bit := p.Bits(); bit < first.BitLen(); bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		for _, a := range []netip.Addr{first, first.Prev(), end, end.Next()} {
			if a.IsValid() {
				compare(a)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		compare(netip.AddrFrom16(b))
		compare(netip.AddrFrom4([4]byte(b[:4])))
		b[0] = 0x20 | b[0]&0x1f // within 2000::/3
		compare(netip.AddrFrom16(b))
	}
}

func TestPolicy_Permits(t *testing.T) {
	prefixes := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	own := []netip.Addr{netip.MustParseAddr("5.6.7.8"), netip.MustParseAddr("2a00:1450::5")}
	for _, row := range []struct {
		rule   string
		policy address.Policy
		addr   string
		want   bool
	}{
		{"public", address.Policy{}, "8.8.8.8:443", true},
		{"any_port", address.Policy{}, "8.8.8.8:8443", true},
		{"port_0", address.Policy{}, "8.8.8.8:0", false},
		{"private", address.Policy{}, "10.1.2.3:443", false},
		{"loopback", address.Policy{}, "127.0.0.1:443", false},
		{"loopback_in_development", address.Policy{AllowLoopback: true}, "127.0.0.1:8080", true},
		{"loopback_v6_in_development", address.Policy{AllowLoopback: true}, "[::1]:8080", true},
		{"mapped_loopback_in_development", address.Policy{AllowLoopback: true}, "[::ffff:127.0.0.1]:8080", true},
		{"development_opens_nothing_else", address.Policy{AllowLoopback: true}, "10.1.2.3:443", false},
		{"allow_list", address.Policy{AllowPrefixes: prefixes}, "10.1.2.3:443", true},
		{"allow_list_takes_mapped_forms", address.Policy{AllowPrefixes: prefixes}, "[::ffff:10.1.2.3]:443", true},
		{"allow_list_v6", address.Policy{AllowPrefixes: prefixes}, "[fd12::1]:443", true},
		{"beside_the_allow_list", address.Policy{AllowPrefixes: prefixes}, "10.2.0.1:443", false},
		{"allowed_port", address.Policy{AllowPorts: []uint16{443, 8443}}, "8.8.8.8:8443", true},
		{"other_port", address.Policy{AllowPorts: []uint16{443, 8443}}, "8.8.8.8:22", false},
		{"no_ports", address.Policy{AllowPorts: []uint16{}}, "8.8.8.8:443", false},
		{"own_address", address.Policy{Own: own}, "5.6.7.8:443", false},
		{"own_address_mapped", address.Policy{Own: own}, "[::ffff:5.6.7.8]:443", false},
		{"own_address_v6", address.Policy{Own: own}, "[2a00:1450::5]:443", false},
		{"own_address_on_the_allow_list", address.Policy{Own: own, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("5.6.7.8/32")}}, "5.6.7.8:443", true},
		{"zone", address.Policy{AllowLoopback: true}, "[::1%lo]:443", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			a := netip.MustParseAddrPort(row.addr)
			err := row.policy.Permits(a)
			if (err == nil) != row.want || address.IsRefusal(err) == row.want {
				t.Fatalf("Permits = %v", err)
			}
			if err != nil && strings.Contains(err.Error(), a.Addr().String()) {
				t.Errorf("the refusal names the address: %v", err)
			}
		})
	}
	if (address.Policy{}).Permits(netip.AddrPort{}) == nil {
		t.Error("no address is permitted")
	}
}
