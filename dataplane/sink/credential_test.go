package sink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func sealed(text string) secret.Secret { return secret.New([]byte(text)) }

func TestAttempt_custom_headers(t *testing.T) {
	p := answering(t, ok)
	w := newSink(t, development)
	job := jobTo(p.url(), 5*time.Second)
	job.Headers = []hub.Header{
		{Name: "X-Team", Value: " blue \t"}, {Name: "SOAPAction", Value: "a b"}, {Name: "X-Empty", Value: ""},
		// None of these could have been stored through the API.
		{Name: "X-Lerian-Signature", Value: "forged"}, {Name: "Webhook-Id", Value: "forged"}, {Name: "CE-Id", Value: "forged"},
		{Name: "content-type", Value: "text/html"}, {Name: "Host", Value: "forged"}, {Name: "Connection", Value: "close"},
		{Name: "Transfer-Encoding", Value: "chunked"}, {Name: "Bad Name", Value: "x"}, {Name: "X-Split", Value: "a\r\nX-Evil: 1"},
		{Name: "", Value: "x"}, {Name: "X-Latin", Value: "\xe9"}, {Name: "User-Agent", Value: "forged"}, {Name: "Content-Length", Value: "3"},
	}
	wantFailure(t, attempt(t, w, job), "", "")
	got := p.requests[0]
	for name, want := range map[string]string{"X-Team": "blue", "Soapaction": "a b", "X-Empty": "", "Content-Type": "application/json", "User-Agent": "streaming-hub/1.2.3"} {
		if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if !strings.Contains(got.raw, "\r\nSOAPAction: ") {
		t.Error("the name went out in another case")
	}
	for _, word := range []string{"forged", "Evil", "X-Split", "X-Latin", "chunked", "Connection"} {
		if strings.Contains(got.raw, word) {
			t.Errorf("%s was sent:\n%s", word, got.raw)
		}
	}
	if string(got.body) != string(job.Event.Body) {
		t.Errorf("body %q", got.body)
	}
}

func TestAttempt_credential(t *testing.T) {
	p := answering(t, ok)
	w := newSink(t, development)
	for _, row := range []struct {
		name       string
		credential *Credential
		header     string
		want       string
	}{
		{"bearer", Bearer(sealed("t0ken")), "Authorization", "Bearer t0ken"},
		{"basic", Basic("Aladdin", sealed("open sesame")), "Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		{"api_key", &Credential{Header: "X-Api-Key", Value: sealed("k3y")}, "X-Api-Key", "k3y"},
		{"wins_over_a_custom_header", &Credential{Header: "x-team", Value: sealed("k3y")}, "X-Team", "k3y"},
	} {
		t.Run(row.name, func(t *testing.T) {
			job := jobTo(p.url(), 5*time.Second)
			job.Credential, job.Headers = row.credential, []hub.Header{{Name: "X-Team", Value: "blue"}}
			wantFailure(t, attempt(t, w, job), "", "")
			got := p.requests[len(p.requests)-1]
			if values := got.Header.Values(row.header); len(values) != 1 || values[0] != row.want {
				t.Errorf("%s: %q, want %q", row.header, values, row.want)
			}
		})
	}
	t.Run("that_cannot_be_sent_stops_the_attempt_as_our_fault", func(t *testing.T) {
		_, before := p.counts()
		for _, c := range []*Credential{
			{Header: "Authorization", Value: sealed("a\r\nX-Evil: s3cret")}, {Header: "webhook-signature", Value: sealed("s3cret")}, {Header: "Authorization"},
		} {
			job := jobTo(p.url(), 5*time.Second)
			job.Credential = c
			a := attempt(t, w, job)
			wantFailure(t, a, hub.ErrNoSecret, hub.PhasePrepare)
			if !a.Failure.Class.OurFault() || strings.Contains(a.Failure.Detail, "s3cret") {
				t.Errorf("failure = %+v", a.Failure)
			}
		}
		p.wantRequests(t, before)
	})
}

// Nothing that is recorded of an attempt holds the credential, in whatever
// notation a receiver sends it back.
func TestAttempt_hides_the_credential(t *testing.T) {
	const password = `pa/ss "w<o>rd&`
	for name, credential := range map[string]*Credential{
		"bearer":  Bearer(sealed("eyJ0/t0ken+=&<x>")),
		"basic":   Basic("user", sealed(password)),
		"api_key": {Header: "X-Api-Key", Value: sealed(`k3y/"quoted"`)},
	} {
		whole := string(credential.Value.Reveal())
		parts := []string{whole}
		if _, rest, isAuth := strings.Cut(whole, " "); isAuth {
			parts = append(parts, rest)
		}
		if name == "basic" {
			parts = append(parts, password, "user:"+password)
		}
		for _, part := range parts {
			inGo, _ := json.Marshal(part)
			escaped := strings.ReplaceAll(part, `"`, `\"`)
			for notation, text := range map[string]string{
				"plain": part, "json": `{"a":"` + escaped + `"}`, "json_of_go": string(inGo), "json_of_php": strings.ReplaceAll(escaped, "/", `\/`),
			} {
				t.Run(name+"/"+notation, func(t *testing.T) {
					for _, body := range []string{
						"before " + text + " after", strings.Repeat(text, 3), strings.Repeat("x", maxSnippet-len(text)/2) + text + "y",
						strings.Repeat("x", maxSnippet-1) + text, strings.Repeat(text, 2000), strings.Repeat("x", maxSnippet+2) + strings.Repeat(text, 20),
					} {
						inHeader := strings.NewReplacer("\r", "", "\n", "").Replace(text)
						p := answering(t, fmt.Sprintf("HTTP/1.1 302 Found\r\nLocation: /?%s\r\nX-Echo: a %s b\r\nRetry-After: %s\r\nContent-Length: %d\r\n\r\n%s",
							inHeader, inHeader, inHeader, len(body), body))
						job := jobTo(p.url(), 5*time.Second)
						job.Credential = credential
						a := attempt(t, newSink(t, development), job)
						wantFailure(t, a, hub.ErrStatus, "")
						recorded, err := json.Marshal(a)
						if err != nil {
							t.Fatal(err)
						}
						var back hub.Attempt
						if err := json.Unmarshal(recorded, &back); err != nil {
							t.Fatal(err)
						}
						all := fmt.Sprintf("%+v", back)
						for _, secretPart := range append(parts, text) {
							// The longest beginning that may stay is what any text could hold.
							if strings.Contains(all, secretPart) || len(secretPart) > 12 && strings.Contains(all, secretPart[:12]) {
								t.Fatalf("%q is in what was recorded: %.300s", secretPart, all)
							}
						}
						if !strings.Contains(back.Answer.Headers[1].Value, redacted) && !strings.Contains(fmt.Sprint(back.Answer.Headers), redacted) {
							t.Errorf("headers %v", back.Answer.Headers)
						}
						if len(a.Answer.Snippet) > maxSnippet {
							t.Errorf("snippet of %d bytes", len(a.Answer.Snippet))
						}
					}
				})
			}
		}
	}
	t.Run("in_base64_and_hex", func(t *testing.T) {
		const token = "eyJ0/t0ken+=&<x>?"
		for before := range 4 {
			for after := range 4 {
				text := strings.Repeat("~", before) + token + strings.Repeat("?", after)
				for notation, encode := range map[string]func([]byte) string{
					"base64": base64.StdEncoding.EncodeToString, "base64url": base64.RawURLEncoding.EncodeToString,
					"hex": hex.EncodeToString, "HEX": func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
				} {
					body := "you sent " + encode([]byte(text)) + " to us"
					p := answering(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
					job := jobTo(p.url(), 5*time.Second)
					job.Credential = Bearer(sealed(token))
					got := attempt(t, newSink(t, development), job).Answer.Snippet
					// At either end a letter may stay that holds bits of a neighbour too.
					if !strings.Contains(got, redacted) || len(got) > len("you sent ")+len(redacted)+len(" to us")+2*before+2*after+6 {
						t.Errorf("%s of %q: %q", notation, text, got)
					}
				}
			}
		}
	})
	t.Run("and_shows_the_rest", func(t *testing.T) {
		p := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nYou sent t0ken, sir.")
		job := jobTo(p.url(), 5*time.Second)
		job.Credential = Bearer(sealed("t0ken"))
		if a := attempt(t, newSink(t, development), job); a.Answer.Snippet != "You sent [REDACTED], sir." || a.Answer.Truncated {
			t.Errorf("answer = %+v", a.Answer)
		}
	})
	t.Run("in_every_formatter", func(t *testing.T) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, Job{Credential: Bearer(sealed("t0ken"))}.Credential); strings.Contains(text, "t0ken") {
				t.Errorf("%s shows %s", verb, text)
			}
		}
	})
}

// clientCertificate is one signed by ca, in PEM, and its key.
func clientCertificate(t *testing.T, ca *authority) (chain, key []byte) {
	pair := ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func newCertificate(t *testing.T, ca *authority) *Certificate {
	chain, key := clientCertificate(t, ca)
	c, err := NewCertificate(chain, secret.New(key))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewCertificate_needs_a_pair(t *testing.T) {
	ca := newAuthority(t)
	chain, key := clientCertificate(t, ca)
	_, other := clientCertificate(t, ca)
	if _, err := NewCertificate(chain, secret.New(other)); err == nil {
		t.Error("another certificate's key was accepted")
	}
	for _, garbage := range [][]byte{nil, []byte("x"), chain} {
		if _, err := NewCertificate(chain, secret.New(garbage)); err == nil {
			t.Errorf("%.20q was accepted as a key", garbage)
		}
	}
	first, _ := NewCertificate(chain, secret.New(key))
	again, _ := NewCertificate(chain, secret.New(key))
	if first.identity != again.identity || first.identity == identityOf(nil) {
		t.Error("one certificate read twice has two identities, or none")
	}
}

// A connection proves one client. No attempt of another client, or of none,
// goes over it, on either protocol.
func TestAttempt_client_certificate(t *testing.T) {
	ca := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(strings.ReplaceAll(protocol, "/", "_"), func(t *testing.T) {
			seenAs := make(chan string, 100)
			config := &tls.Config{
				Certificates: []tls.Certificate{ca.issue(t, func(*x509.Certificate) {})}, NextProtos: []string{protocol},
				ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots,
			}
			tell := func(conn *tls.Conn) {
				who := "nobody"
				if list := conn.ConnectionState().PeerCertificates; len(list) > 0 {
					who = list[0].SerialNumber.String()
				}
				seenAs <- who
			}
			var p *peer
			if protocol == "h2" {
				p = newH2PeerWith(t, config, func(c *h2caller) {
					_ = c.WriteSettings()
					for r := c.read(); r != nil; r = c.read() {
						tell(c.conn)
						c.answer(r.stream, "200", "ok")
					}
				})
			} else {
				p = newPeer(t, func(c *caller) {
					if c = c.secured(config); c != nil {
						for c.read() != nil {
							tell(c.Conn.(*tls.Conn))
							c.say(ok)
						}
					}
				})
			}
			w := trusting(t, development, ca)
			acme, bolt := newCertificate(t, ca), newCertificate(t, ca)
			who := func(c *Certificate) string {
				if c == nil {
					return "nobody"
				}
				return c.pair.Leaf.SerialNumber.String()
			}
			for n, c := range []*Certificate{nil, acme, nil, bolt, acme, bolt, nil, acme} {
				job := jobTo(p.secure(), 5*time.Second)
				job.Certificate = c
				wantFailure(t, attempt(t, w, job), "", "")
				select {
				case got := <-seenAs: // told before it was answered
					if got != who(c) {
						t.Errorf("request %d was seen as one of %s, want %s", n, got, who(c))
					}
				default:
					t.Fatalf("request %d was not seen", n)
				}
			}
			if conns, _ := p.counts(); conns != 3 {
				t.Errorf("%d connections, want one for each client and one for none", conns)
			}
		})
	}
	t.Run("refused_by_the_receiver_is_a_failure_of_TLS", func(t *testing.T) {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			p := tlsPeer(t, &tls.Config{
				Certificates: []tls.Certificate{ca.issue(t, func(*x509.Certificate) {})}, MaxVersion: version,
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
			})
			w := trusting(t, development, ca)
			for _, c := range []*Certificate{nil, newCertificate(t, newAuthority(t))} {
				job := jobTo(p.secure(), 5*time.Second)
				job.Certificate = c
				a := attempt(t, w, job)
				if a.Failure.Class != hub.ErrTLS && a.Failure.Class != hub.ErrReset {
					t.Errorf("failure = %+v", a.Failure)
				}
				p.wantRequests(t, 0)
			}
		}
	})
}

// A key that is not the certificate's own is no way into its connections.
func TestCertificate_identity_is_of_the_whole_chain(t *testing.T) {
	ca := newAuthority(t)
	chain, key := clientCertificate(t, ca)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(stranger)
	if _, err := NewCertificate(chain, secret.New(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))); err == nil {
		t.Error("a stranger's key was accepted")
	}
	longer := append(append([]byte{}, chain...), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})...)
	short, _ := NewCertificate(chain, secret.New(key))
	long, err := NewCertificate(longer, secret.New(key))
	if err != nil || short.identity == long.identity {
		t.Errorf("two chains have one identity; %v", err)
	}
}
