package sink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
)

// nameServer resolves names to the addresses given, over one end of a pipe per
// question; a name without any is unknown, and "slow." gets no answer before
// quit.
func nameServer(records map[string][]string, quit <-chan struct{}) *net.Resolver {
	return changingNameServer(func(name string, _ dnsmessage.Type) []string { return records[name] }, quit)
}

// changingNameServer asks for the records at each question.
func changingNameServer(records func(name string, about dnsmessage.Type) []string, quit <-chan struct{}) *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe() // not a PacketConn: the resolver speaks DNS over TCP
		go func() {
			defer ours.Close()
			size := make([]byte, 2)
			if _, err := ours.Read(size); err != nil {
				return
			}
			question := make([]byte, int(size[0])<<8|int(size[1]))
			if _, err := ours.Read(question); err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(question) != nil {
				return
			}
			name := strings.ToLower(m.Questions[0].Name.String())
			if strings.HasPrefix(name, "slow.") {
				<-quit
				return
			}
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			found := records(name, m.Questions[0].Type)
			if len(found) == 0 {
				m.RCode = dnsmessage.RCodeNameError
			}
			head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 1}
			for _, text := range found {
				if alias, ok := strings.CutPrefix(text, "cname:"); ok {
					target := dnsmessage.MustNewName(alias)
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.CNAMEResource{CNAME: target}})
					head.Name = target
					continue
				}
				a := netip.MustParseAddr(text)
				switch {
				case a.Is4() && m.Questions[0].Type == dnsmessage.TypeA:
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
				case a.Is6() && m.Questions[0].Type == dnsmessage.TypeAAAA:
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
				}
			}
			answer, err := m.Pack()
			if err != nil {
				return
			}
			_, _ = ours.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...))
		}()
		return theirs, nil
	}}
}

// resolving is a sink with its own name server.
func resolving(t *testing.T, p address.Policy, records map[string][]string) *Webhook {
	w := newSink(t, p)
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })
	w.guard.resolver = nameServer(records, quit)
	return w
}

func TestGuard_refuses_without_a_connection(t *testing.T) {
	p := answering(t, ok)
	_, port, _ := net.SplitHostPort(p.addr)
	records := map[string][]string{
		"inside.test.": {"127.0.0.1"}, "mixed.test.": {"93.184.216.34", "127.0.0.1"}, "mapped.test.": {"::ffff:127.0.0.1"},
		"mixed6.test.": {"2606:4700::1111", "::1"}, "private.test.": {"10.0.0.1"},
	}
	w := resolving(t, address.Policy{AllowHTTP: true}, records)
	for _, host := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
		"[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "168.63.129.16", "255.255.255.255",
		"inside.test", "mixed.test", "mapped.test", "mixed6.test", "private.test",
	} {
		a := attempt(t, w, jobTo("http://"+host+":"+port+"/", 5*time.Second))
		wantFailure(t, a, hub.ErrBlocked, hub.PhaseConnect)
		if a.Answer.RemoteIP != "" {
			t.Errorf("%s: a refusal names the address %s", host, a.Answer.RemoteIP)
		}
		if name, isName := strings.CutSuffix(host, ".test"); isName {
			for _, r := range records[name+".test."] {
				if strings.Contains(a.Failure.Detail, r) {
					t.Errorf("%s: the refusal %q tells where the name leads", host, a.Failure.Detail)
				}
			}
		}
	}
	if conns, _ := p.counts(); conns != 0 {
		t.Errorf("%d connections were opened", conns)
	}
	// The system's own localhost, through the ordinary resolver.
	wantFailure(t, attempt(t, newSink(t, address.Policy{AllowHTTP: true}), jobTo("http://localhost:"+port+"/", 5*time.Second)), hub.ErrBlocked, "")
	if conns, _ := p.counts(); conns != 0 {
		t.Errorf("%d connections were opened", conns)
	}
}

func TestGuard_names(t *testing.T) {
	t.Run("one_refused_address_refuses_the_name_in_any_order", func(t *testing.T) {
		p := answering(t, ok)
		_, port, _ := net.SplitHostPort(p.addr)
		policy := address.Policy{AllowHTTP: true, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
		w := resolving(t, policy, map[string][]string{"first.test.": {"127.0.0.2", "127.0.0.1"}, "last.test.": {"127.0.0.1", "127.0.0.2"}})
		for _, name := range []string{"first.test", "last.test"} {
			wantFailure(t, attempt(t, w, jobTo("http://"+name+":"+port, 5*time.Second)), hub.ErrBlocked, "")
		}
		if conns, _ := p.counts(); conns != 0 {
			t.Errorf("%d connections were opened", conns)
		}
	})
	t.Run("admitted_name_is_reached", func(t *testing.T) {
		p := answering(t, ok)
		_, port, _ := net.SplitHostPort(p.addr)
		w := resolving(t, development, map[string][]string{"hook.test.": {"127.0.0.1"}})
		a := attempt(t, w, jobTo("http://hook.test:"+port, 5*time.Second))
		wantFailure(t, a, "", "")
		if p.requests[0].Host != "hook.test:"+port || a.Timings.DNS == 0 {
			t.Errorf("host %s, timings %+v", p.requests[0].Host, a.Timings)
		}
	})
	t.Run("next_address_is_tried", func(t *testing.T) {
		p := answering(t, ok)
		_, port, _ := net.SplitHostPort(p.addr)
		w := resolving(t, development, map[string][]string{"two.test.": {"127.0.0.9", "127.0.0.1"}})
		wantFailure(t, attempt(t, w, jobTo("http://two.test:"+port, 5*time.Second)), "", "")
	})
	t.Run("unknown_name_is_a_failure_of_dns", func(t *testing.T) {
		a := attempt(t, resolving(t, development, nil), jobTo("http://nowhere.test/", 5*time.Second))
		wantFailure(t, a, hub.ErrDNS, hub.PhaseDNS)
	})
	t.Run("slow_name_server_is_a_timeout", func(t *testing.T) {
		a := attempt(t, resolving(t, development, nil), jobTo("http://slow.test/", short))
		wantFailure(t, a, hub.ErrTimeout, hub.PhaseDNS)
	})
}

// authority signs certificates for the TLS tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	ca := &authority{}
	leaf := ca.issue(t, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage = true, true, nil })
	ca.cert, ca.key = leaf.Leaf, leaf.PrivateKey.(*ecdsa.PrivateKey)
	return ca
}

// issue makes a certificate for localhost, changed as a test wants it; one of
// an authority without a certificate signs itself.
func (ca *authority) issue(t testing.TB, change func(c *x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(c)
	parent, signer := c, key
	if ca.cert != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// A peer that does not read cannot hold up the end of a TLS connection.
func TestGuard_farewell_is_brief(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	begun := time.Now()
	if err := (&briefFarewell{near}).SetWriteDeadline(begun.Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	if took := time.Since(begun); took > closeTimeout+time.Second {
		t.Errorf("the write waited for %s", took)
	}
}

func TestAttempt_TLS(t *testing.T) {
	ca := newAuthority(t)
	nothing := func(*x509.Certificate) {}
	sinkFor := func(t *testing.T) *Webhook {
		w := newSink(t, development)
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		w.pool.opener.tls.RootCAs = roots
		return w
	}
	to := func(p *peer) Job {
		return jobTo(strings.Replace("https://"+p.addr, "127.0.0.1", "localhost", 1), 5*time.Second)
	}

	t.Run("connection_of_a_handshake_that_fails_is_closed", func(t *testing.T) {
		p := newPeer(t, func(c *caller) { c.say("HTTP/1.1 400 Bad Request\r\n\r\n"); c.drain() })
		wantFailure(t, attempt(t, sinkFor(t), to(p)), hub.ErrTLS, hub.PhaseTLS)
		p.wantEnded(t)
	})
	t.Run("good_certificate_by_server_name", func(t *testing.T) {
		good := ca.issue(t, nothing)
		p := tlsPeer(t, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if h.ServerName != "localhost" {
				return nil, errors.New("no such name")
			}
			return &good, nil
		}})
		a := attempt(t, sinkFor(t), to(p))
		wantFailure(t, a, "", "")
		if a.Answer.TLSVersion != "TLS 1.3" || a.Timings.TLS == 0 {
			t.Errorf("answer %+v, timings %+v", a.Answer, a.Timings)
		}
		p.wantRequests(t, 1)
	})
	for name, config := range map[string]*tls.Config{
		"expired":        {Certificates: []tls.Certificate{ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}},
		"not_yet":        {Certificates: []tls.Certificate{ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })}},
		"wrong_host":     {Certificates: []tls.Certificate{ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} })}},
		"self_signed":    {Certificates: []tls.Certificate{(&authority{}).issue(t, nothing)}},
		"only_TLS_1.0":   {Certificates: []tls.Certificate{ca.issue(t, nothing)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
		"only_TLS_1.1":   {Certificates: []tls.Certificate{ca.issue(t, nothing)}, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11},
		"no_certificate": {GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }},
	} {
		t.Run(name, func(t *testing.T) {
			p := tlsPeer(t, config)
			wantFailure(t, attempt(t, sinkFor(t), to(p)), hub.ErrTLS, hub.PhaseTLS)
			p.wantRequests(t, 0)
		})
	}
	t.Run("certificate_for_an_address", func(t *testing.T) {
		named := ca.issue(t, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)} })
		p := tlsPeer(t, &tls.Config{Certificates: []tls.Certificate{named}, MaxVersion: tls.VersionTLS12})
		a := attempt(t, sinkFor(t), jobTo("https://"+p.addr, 5*time.Second))
		wantFailure(t, a, "", "")
		if a.Answer.TLSVersion != "TLS 1.2" {
			t.Errorf("answer %+v", a.Answer)
		}
	})
	t.Run("plain_http_behind_https", func(t *testing.T) {
		p := newPeer(t, func(c *caller) { c.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"); c.drain() })
		wantFailure(t, attempt(t, sinkFor(t), to(p)), hub.ErrTLS, hub.PhaseTLS)
	})
	t.Run("closed_in_the_handshake", func(t *testing.T) {
		p := newPeer(t, func(c *caller) { _, _ = c.Conn.Read(make([]byte, 1)) })
		a := attempt(t, sinkFor(t), to(p))
		if a.Failure.Class != hub.ErrReset && a.Failure.Class != hub.ErrTLS || a.Failure.Phase != hub.PhaseTLS {
			t.Errorf("failure = %+v", a.Failure)
		}
	})
}
