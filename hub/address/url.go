package address

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxURLBytes bounds a destination's URL, as given and in canonical form.
const MaxURLBytes = 2048

// CanonicalURL judges a destination's URL as a tenant writes it, before any
// name resolution, and gives its only stored form: scheme and host in lower
// case, the host in ASCII without a trailing dot, no default port, at least
// "/" as path, path and query as they were with what a URL may not hold as
// %XX. Two texts of one destination thus become equal. Errors are one
// sentence for the tenant's developer.
func (p Policy) CanonicalURL(raw string) (string, error) {
	if err := checkText(raw); err != nil {
		return "", err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("the URL cannot be read; write it as https://host/path")
	}
	if err := p.checkParts(u, raw); err != nil {
		return "", err
	}
	host, addr, err := p.canonicalHost(u)
	if err != nil {
		return "", err
	}
	port, err := p.canonicalPort(u)
	if err != nil {
		return "", err
	}
	if addr.IsValid() && !p.permitsAddr(addr) {
		return "", errors.New("the URL's host is an address that deliveries may not reach; use a public one")
	}
	var b strings.Builder
	b.WriteString(u.Scheme + "://" + host + port)
	escape(&b, pathOf(u))
	if u.RawQuery != "" {
		b.WriteByte('?')
		escape(&b, u.RawQuery)
	}
	if b.Len() > MaxURLBytes {
		return "", tooLong()
	}
	return b.String(), nil
}

func tooLong() error { return fmt.Errorf("the URL has more than %d bytes", MaxURLBytes) }

// checkText refuses what no part of a URL may hold.
func checkText(raw string) error {
	switch {
	case raw == "":
		return errors.New("the URL is empty")
	case len(raw) > MaxURLBytes:
		return tooLong()
	case !utf8.ValidString(raw):
		return errors.New("the URL is not UTF-8")
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return errors.New(`the URL holds a space, a backslash or a control character; write them as %20, %5C and so on`)
		}
	}
	return nil
}

// checkParts judges everything beside the host and the port.
func (p Policy) checkParts(u *url.URL, raw string) error {
	switch {
	case u.Scheme == "http" && !p.AllowHTTP:
		return errors.New("the URL's scheme is http; deliveries need https")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the URL's scheme is not https")
	case u.Opaque != "" || u.Host == "":
		return errors.New("the URL has no host; write it as https://host/path")
	case u.User != nil:
		return errors.New("the URL holds a user name or password; set a credential on the destination instead")
	case strings.Contains(raw, "#"):
		return errors.New("the URL has a fragment (#…), which no server would see; remove it")
	default:
		return nil
	}
}

// canonicalPort is ":port", or "" for the scheme's own.
func (p Policy) canonicalPort(u *url.URL) (string, error) {
	standard := uint64(443)
	if u.Scheme == "http" {
		standard = 80
	}
	port := standard
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return "", errors.New("the URL's port is not a number from 1 to 65535")
		}
		port = n
	}
	if !p.permitsPort(uint16(port)) {
		return "", fmt.Errorf("the URL's port %d is not among the ports that deliveries may use", port)
	}
	if port == standard {
		return "", nil
	}
	return ":" + strconv.FormatUint(port, 10), nil
}

// canonicalHost is the host as it goes into the URL; addr is set when it is
// an address.
func (p Policy) canonicalHost(u *url.URL) (host string, addr netip.Addr, err error) {
	name := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		if strings.Contains(name, "%") {
			return "", netip.Addr{}, errors.New("the URL's host has an IPv6 zone, which means nothing elsewhere; remove it")
		}
		addr, err = netip.ParseAddr(name)
		if err != nil || !addr.Is6() {
			return "", netip.Addr{}, errors.New("the URL's host in brackets is not an IPv6 address")
		}
		if addr = addr.Unmap(); addr.Is4() {
			return addr.String(), addr, nil
		}
		return "[" + addr.String() + "]", addr, nil
	}
	if name, err = canonicalName(name); err != nil {
		return "", netip.Addr{}, err
	}
	if looksNumeric(name) {
		if addr, err = netip.ParseAddr(name); err != nil {
			return "", netip.Addr{}, errors.New("the URL's host is a number, but no IPv4 address in plain dotted form such as 192.0.2.1")
		}
		return addr.String(), addr, nil
	}
	if err := p.checkName(name); err != nil {
		return "", netip.Addr{}, err
	}
	return name, netip.Addr{}, nil
}

// pathOf is the path as written. EscapedPath alone would not do: it decodes and
// encodes a path that has both %2F and a character outside ASCII, and turns the
// first into a slash.
func pathOf(u *url.URL) string {
	switch {
	case u.RawPath != "":
		return u.RawPath
	case u.Path == "":
		return "/"
	default:
		return u.EscapedPath()
	}
}

// escape writes a part of a URL with the bytes that it may not hold as %XX.
func escape(b *strings.Builder, part string) {
	const upperHex = "0123456789ABCDEF"
	for i := range len(part) {
		if c := part[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' {
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
}
