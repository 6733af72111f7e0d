package address_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

func TestCanonicalURL(t *testing.T) {
	dev := address.Policy{AllowLoopback: true, AllowHTTP: true}
	for _, row := range []struct {
		rule, raw, want string
		policy          address.Policy
	}{
		{"host_in_lower_case_path_kept", "HTTPS://EXAMPLE.COM/Hook", "https://example.com/Hook", address.Policy{}},
		{"empty_path_is_root", "https://example.com", "https://example.com/", address.Policy{}},
		{"query_kept", "https://example.com?a=%20&b=é", "https://example.com/?a=%20&b=%C3%A9", address.Policy{}},
		{"empty_query_dropped", "https://example.com/h?", "https://example.com/h", address.Policy{}},
		{"path_is_escaped", "https://example.com/naïve/%2F", "https://example.com/na%C3%AFve/%2F", address.Policy{}},
		{"dots_in_the_path_kept", "https://example.com/a/../b", "https://example.com/a/../b", address.Policy{}},
		{"default_port_dropped", "https://example.com:443/", "https://example.com/", address.Policy{}},
		{"default_port_with_zeros", "https://example.com:0443/", "https://example.com/", address.Policy{}},
		{"empty_port_dropped", "https://example.com:/", "https://example.com/", address.Policy{}},
		{"other_port_kept", "https://example.com:8443/hook", "https://example.com:8443/hook", address.Policy{}},
		{"trailing_dot_dropped", "https://example.com.:443/hook", "https://example.com/hook", address.Policy{}},
		{"name_in_ascii", "https://bücher.example/hook", "https://xn--bcher-kva.example/hook", address.Policy{}},
		{"name_in_capitals", "https://BÜCHER.example/hook", "https://xn--bcher-kva.example/hook", address.Policy{}},
		{"name_escaped", "https://b%C3%BCcher.example/hook", "https://xn--bcher-kva.example/hook", address.Policy{}},
		{"name_in_punycode", "https://xn--bcher-kva.example/hook", "https://xn--bcher-kva.example/hook", address.Policy{}},
		{"hyphens_in_the_third_place", "https://r3---sn-abc.example/", "https://r3---sn-abc.example/", address.Policy{}},
		{"name_that_begins_with_digits", "https://1.2.3.4.example.com/", "https://1.2.3.4.example.com/", address.Policy{}},
		{"public_ipv4", "https://8.8.8.8/", "https://8.8.8.8/", address.Policy{}},
		{"public_ipv6_in_short", "https://[2606:4700:4700:0::1111]:443/", "https://[2606:4700:4700::1111]/", address.Policy{}},
		{"mapped_ipv6_is_ipv4", "https://[::ffff:8.8.8.8]/", "https://8.8.8.8/", address.Policy{}},
		{"internal_in_the_middle", "https://internal.example.com/", "https://internal.example.com/", address.Policy{}},
		{"suffix_is_a_label", "https://mylocalhost/", "https://mylocalhost/", address.Policy{}},
		{"loopback_in_development", "http://127.0.0.1:8080/hook", "http://127.0.0.1:8080/hook", dev},
		{"localhost_in_development", "http://localhost:8080/hook", "http://localhost:8080/hook", dev},
		{"loopback_v6_in_development", "http://[::1]:8080/", "http://[::1]:8080/", dev},
		{"http_default_port", "http://example.com:80/", "http://example.com/", dev},
		{"http_on_443", "http://example.com:443/", "http://example.com:443/", dev},
		{"private_on_the_allow_list", "https://10.1.2.3/", "https://10.1.2.3/", address.Policy{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}},
		{"port_on_the_list", "https://example.com:8443/", "https://example.com:8443/", address.Policy{AllowPorts: []uint16{8443}}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, err := row.policy.CanonicalURL(row.raw)
			if err != nil || got != row.want {
				t.Fatalf("CanonicalURL = %q, %v; want %q", got, err, row.want)
			}
			if again, err := row.policy.CanonicalURL(got); err != nil || again != got {
				t.Errorf("the canonical form is not its own: %q, %v", again, err)
			}
		})
	}
}

func TestCanonicalURL_refuses(t *testing.T) {
	dev := address.Policy{AllowLoopback: true, AllowHTTP: true}
	ports := address.Policy{AllowPorts: []uint16{443}}
	for _, row := range []struct {
		rule, raw, says string
		policy          address.Policy
	}{
		{"nothing", "", "empty", address.Policy{}},
		{"http", "http://example.com/", "https", address.Policy{}},
		{"no_scheme", "example.com/hook", "https", address.Policy{}},
		{"scheme_relative", "//example.com/hook", "https", address.Policy{}},
		{"opaque", "https:example.com", "host", address.Policy{}},
		{"three_slashes", "https:///path", "host", address.Policy{}},
		{"port_without_host", "https://:443/", "host", address.Policy{}},
		{"only_a_dot", "https://./", "host", address.Policy{}},
		{"user", "https://user@example.com/", "credential", address.Policy{}},
		{"user_before_a_loopback", "https://good.example@127.0.0.1/", "credential", address.Policy{}},
		{"password_escaped", "https://user:p%40ss@h/", "credential", address.Policy{}},
		{"empty_user", "https://@example.com/", "credential", address.Policy{}},
		{"fragment", "https://example.com/#a", "fragment", address.Policy{}},
		{"empty_fragment", "https://example.com/#", "fragment", address.Policy{}},
		{"backslash", `https://example.com\@evil.example/`, "backslash", address.Policy{}},
		{"line_end", "https://example.com/\r\nX: 1", "control", address.Policy{}},
		{"leading_space", " https://example.com/", "space", address.Policy{}},
		{"not_utf8", "https://example.com/\xff", "UTF-8", address.Policy{}},
		{"bad_escape", "https://example.com/%zz", "read", address.Policy{}},
		{"too_long", "https://example.com/" + strings.Repeat("x", address.MaxURLBytes), "bytes", address.Policy{}},
		{"too_long_when_escaped", "https://example.com/" + strings.Repeat("é", 900), "bytes", address.Policy{}},
		{"port_65536", "https://example.com:65536/", "port", address.Policy{}},
		{"port_not_on_the_list", "https://example.com:8443/", "port 8443", ports},
		{"full_width_digits", "https://１２７.0.0.1/", "name", address.Policy{}},
		{"ideographic_dots", "https://127。0。0。1/", "name", address.Policy{}},
		{"ideographic_dots_in_a_name", "https://example。com/", "name", address.Policy{}},
		{"circled_digits", "https://①②⑦.⓪.⓪.①/", "name", address.Policy{}},
		{"full_width_letter", "https://ｌocalhost/", "name", address.Policy{}},
		{"circled_letter", "https://ⓔxample.com/", "name", address.Policy{}},
		{"kelvin_sign", "https://\u212aube.example/", "name", address.Policy{}},
		{"soft_hyphen", "https://exam\u00adple.com/", "name", address.Policy{}},
		{"zero_width_joiner", "https://exam\u200dple.com/", "name", address.Policy{}},
		{"ligature", "https://ﬁle.example/", "name", address.Policy{}},
		{"punycode_of_a_full_width_name", "https://xn--1-fpc.example/", "name", address.Policy{}},
		{"punycode_of_nothing", "https://xn--.example/", "name", address.Policy{}},
		{"punycode_of_ascii", "https://xn--example-.com/", "name", address.Policy{}},
		{"underscore", "https://my_host.example/", "name", address.Policy{}},
		{"empty_label", "https://a..example/", "name", address.Policy{}},
		{"label_of_64", "https://" + strings.Repeat("a", 64) + ".example/", "name", address.Policy{}},
		{"name_of_254", "https://" + strings.Repeat("a.", 126) + "ab/", "name", address.Policy{}},
		{"leading_hyphen", "https://-a.example/", "name", address.Policy{}},
		{"star", "https://*.example/", "name", address.Policy{}},
		{"short_ipv4", "https://127.1/", "number", address.Policy{}},
		{"decimal_ipv4", "https://2130706433/", "number", address.Policy{}},
		{"hex_ipv4", "https://0x7f.0.0.1/", "number", address.Policy{}},
		{"hex_last", "https://127.0.0.0x1/", "number", address.Policy{}},
		{"octal_ipv4", "https://0177.0.0.01/", "number", address.Policy{}},
		{"five_numbers", "https://1.2.3.4.5/", "number", address.Policy{}},
		{"loopback", "https://127.0.0.1/", "address", address.Policy{}},
		{"loopback_with_a_dot", "https://127.0.0.1./", "address", address.Policy{}},
		{"nat64", "https://[64:ff9b::7f00:1]/", "address", address.Policy{}},
		{"zone", "https://[fe80::1%25eth0]/", "zone", address.Policy{}},
		{"name_in_brackets", "https://[example.com]/", "", address.Policy{}},
		{"ipv4_in_brackets", "https://[8.8.8.8]/", "", address.Policy{}},
		{"ipv6_without_brackets", "https://2606:4700::1/", "", address.Policy{}},
		{"localhost", "https://LocalHost./", "machine", address.Policy{}},
		{"under_localhost", "https://a.b.localhost/", "machine", address.Policy{}},
		{"local", "https://printer.local./", "internal", address.Policy{}},
		{"internal_alone", "https://internal/", "internal", address.Policy{}},
		{"metadata", "https://metadata.google.internal/", "internal", address.Policy{}},
		{"private_in_development", "http://10.0.0.1/", "address", dev},
		{"internal_in_development", "http://a.internal/", "internal", dev},
		{"loopback_needs_http_to_be_allowed", "http://127.0.0.1/", "https", address.Policy{AllowLoopback: true}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, err := row.policy.CanonicalURL(row.raw)
			if err == nil {
				t.Fatalf("accepted as %q", got)
			}
			if !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("says %q, which should name %q", err, row.says)
			}
		})
	}
}

// FuzzCanonicalURL: what is accepted is ASCII, its own canonical form, and
// read by net/url as what it was judged to be.
func FuzzCanonicalURL(f *testing.F) {
	for _, raw := range []string{"https://example.com/hook?a=b", "https://bücher.example.:443", "https://[2606:4700::1]:8443/", "https://8.8.8.8/é",
		"https://xn--bcher-kva.example/", "https://①②⑦.0.0.1/", "https://a%41b/", "HTTPS://EXAMPLE.COM"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		policy := address.Policy{}
		got, err := policy.CanonicalURL(raw)
		if err != nil {
			return
		}
		if again, err := policy.CanonicalURL(got); err != nil || again != got {
			t.Fatalf("%q became %q, that %q, %v", raw, got, again, err)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q became %q", raw, got)
		}
		u, err := url.Parse(got)
		if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
			t.Fatalf("%q became %q: %+v, %v", raw, got, u, err)
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && !address.Allowed(a) {
			t.Fatalf("%q became %q", raw, got)
		}
	})
}
