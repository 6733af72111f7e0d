package sink

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/idna"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
)

// forgery is one way to write a destination that leads inside, or nowhere.
type forgery struct {
	write string // the rule that refuses it when it is written, or "accepted"
	dial  string // what the dialer says to it: blocked, unknown (name) or nothing (to dial)
	raw   string
}

// writeRules are the words of testdata/ssrf.txt and what the rule says.
var writeRules = map[string]string{
	"name": "not a valid name", "number": "is a number", "address": "is an address that deliveries may not reach", "zone": "IPv6 zone",
	"brackets": "in brackets", "localhost": "this machine", "internal": "internal network", "credential": "user name or password",
	"fragment": "has a fragment", "text": "a space, a backslash or a control character", "unreadable": "cannot be read", "scheme": "scheme",
	"port": "port is not a number", "host": "has no host",
}

func forgeries(t *testing.T, port string) []forgery {
	text, err := os.ReadFile("testdata/ssrf.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []forgery
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		fields := strings.SplitN(line, "\t", 3)
		raw, err := strconv.Unquote(fields[2])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, forgery{write: fields[0], dial: fields[1], raw: strings.ReplaceAll(raw, "{port}", port)})
	}
	if len(list) < 400 {
		t.Fatalf("only %d forms", len(list))
	}
	return list
}

// records are what the names in the forgeries stand for: ip-127-0-0-1 and
// ip6-<32 digits> are an address each, all of the labels together one answer.
func records(list []forgery) map[string][]string {
	known := map[string][]string{
		"cname-to-localhost.test.": {"cname:localhost.", "127.0.0.1", "::1"},
		"cname-to-inside.test.":    {"cname:db.corp.", "10.0.0.5"},
	}
	for _, f := range list {
		host := dialled(f.raw)
		var addrs []string
		switch {
		case host == "localhost", strings.HasSuffix(host, ".localhost"):
			addrs = []string{"127.0.0.1", "::1"}
		case strings.HasSuffix(host, "internal"), strings.HasSuffix(host, "local"), strings.HasSuffix(host, "metadata"), host == "instance-data":
			addrs = []string{"169.254.169.254"}
		}
		if a, ok := inetAton(host); ok {
			addrs = []string{a.String()}
		}
		for label := range strings.SplitSeq(strings.TrimSuffix(host, ".test"), ".") {
			if v4, ok := strings.CutPrefix(label, "ip-"); ok {
				addrs = append(addrs, strings.ReplaceAll(v4, "-", "."))
			} else if v6, ok := strings.CutPrefix(label, "ip6-"); ok {
				var groups []string
				for i := 0; i < 32; i += 4 {
					groups = append(groups, v6[i:i+4])
				}
				addrs = append(addrs, strings.Join(groups, ":"))
			}
		}
		if addrs != nil {
			known[host+"."] = addrs
		}
	}
	return known
}

// inetAton reads an IPv4 address as C libraries do, and so some name servers'
// clients: one to four numbers, decimal, octal or hexadecimal, the last of which
// fills what is left.
func inetAton(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if err != nil || n >= 1<<bits {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

// dialled is the host that an HTTP client would dial for a URL, as net/http
// maps it: without any rule of ours. "" when there is none.
func dialled(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// verdict is the dialer's own, without the URL rules before it.
func verdict(t *testing.T, w *Webhook, raw string) string {
	u, err := url.Parse(raw)
	host := dialled(raw)
	if err != nil || host == "" {
		return "nothing"
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := w.guard.dial(t.Context(), "tcp", net.JoinHostPort(host, port))
	var blocked *BlockedError
	var unknown *net.DNSError
	switch {
	case err == nil:
		conn.Close()
		return "connected"
	case errors.As(err, &blocked):
		return "blocked"
	case errors.As(err, &unknown):
		return "unknown"
	default:
		return err.Error()
	}
}

// No way to write a destination leads to an address inside: not through the
// URL rules, not through the dialer without them, not by redirect, not by a
// proxy from the environment.
func TestForgedDestinations(t *testing.T) {
	birds := newCanaries(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:"+birds.port)
	}
	list := forgeries(t, birds.port)
	names := records(list)
	w := resolving(t, address.Policy{}, names)
	for _, f := range list {
		_, err := (address.Policy{}).CanonicalURL(f.raw)
		if (err == nil) != (f.write == "accepted") || err != nil && !strings.Contains(err.Error(), writeRules[f.write]) {
			t.Errorf("%q is to be %s when written; the rule says: %v", f.raw, f.write, err)
		}
		if got := verdict(t, w, f.raw); got != f.dial {
			t.Errorf("%q is to be %s for the dialer; it was %s", f.raw, f.dial, got)
		}
		a := attempt(t, w, jobTo(f.raw, 5*time.Second))
		if f.write != "accepted" || f.dial == "blocked" {
			wantFailure(t, a, hub.ErrBlocked, hub.PhaseConnect)
		} else {
			wantFailure(t, a, hub.ErrDNS, hub.PhaseDNS)
		}
		if a.Answer.RemoteIP != "" || a.Timings.Connect != 0 {
			t.Errorf("%q: the attempt tells of %q, timings %+v", f.raw, a.Answer.RemoteIP, a.Timings)
		}
		for _, addr := range names[dialled(f.raw)+"."] {
			if strings.Contains(a.Failure.Detail, addr) && f.write == "accepted" {
				t.Errorf("%q: the refusal %q tells where the name leads", f.raw, a.Failure.Detail)
			}
		}
	}
	if n := birds.total(); n != 0 {
		t.Errorf("%d connections were opened: %v", n, birds.accepted)
	}

	t.Run("by_redirect", func(t *testing.T) {
		var location string
		p := newPeer(t, func(c *caller) {
			for got := c.read(); got != nil; got = c.read() {
				c.say("HTTP/1.1 307 X\r\nContent-Length: 0\r\nLocation: " + strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(location) + "\r\n\r\n")
			}
		})
		w := resolving(t, development, names)
		for n, f := range list {
			location = f.raw
			wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), hub.ErrStatus, hub.PhaseAnswer)
			p.wantRequests(t, n+1)
		}
		if n := birds.total(); n != 0 {
			t.Errorf("%d connections were opened: %v", n, birds.accepted)
		}
	})

	t.Run("the_canaries_sing_when_allowed", func(t *testing.T) {
		w := resolving(t, birds.only(), names)
		sung := 0
		for _, f := range list {
			if verdict(t, w, f.raw) == "connected" {
				sung++
				<-birds.arrived
			}
		}
		if n := birds.total(); n != sung || sung < 40 {
			t.Errorf("%d dials, %d connections: the canaries prove nothing", sung, n)
		}
		for _, a := range birds.addrs {
			if verdict(t, w, fmt.Sprintf("https://%s/", net.JoinHostPort(a.String(), birds.port))) != "connected" {
				t.Errorf("the canary on %s cannot be reached", a)
			}
			if verdict(t, resolving(t, address.Policy{}, names), fmt.Sprintf("https://%s/", net.JoinHostPort(a.String(), birds.port))) != "blocked" {
				t.Errorf("this machine's address %s is not refused", a)
			}
		}
	})
}

// A name that changes its meaning is judged each time it is dialled, and what
// was judged is what is dialled.
func TestGuard_rebinding(t *testing.T) {
	birds := newCanaries(t)
	open, err := net.Listen("tcp", "127.0.0.77:"+birds.port) // stands for a public address
	if err != nil {
		t.Skip(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := open.Accept()
			if err != nil {
				return
			}
			c := callerOn(conn, &peer{})
			c.read()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
			conn.Close()
		}
	}()
	t.Cleanup(func() { open.Close(); <-served })

	policy := address.Policy{AllowHTTP: true, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.77/32")}}
	w := newSink(t, policy)
	questions := 0
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })
	var mu sync.Mutex
	w.guard.resolver = changingNameServer(func(_ string, about dnsmessage.Type) []string {
		mu.Lock()
		defer mu.Unlock()
		if about == dnsmessage.TypeA {
			questions++
		}
		if questions%2 == 1 {
			return []string{"127.0.0.77"}
		}
		return []string{"127.0.0.1"}
	}, quit)
	for n := range 10 {
		a := attempt(t, w, jobTo("http://rebind.test:"+birds.port+"/", 5*time.Second))
		if n%2 == 0 {
			wantFailure(t, a, "", "")
			if a.Answer.RemoteIP != "127.0.0.77" {
				t.Errorf("attempt went to %s", a.Answer.RemoteIP)
			}
		} else {
			wantFailure(t, a, hub.ErrBlocked, "")
		}
	}
	if questions != 10 {
		t.Errorf("%d look-ups for 10 attempts: what is checked may not be what is dialled", questions)
	}
	if n := birds.total(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
}
