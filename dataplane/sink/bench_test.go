package sink

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// BenchmarkAttempt is one attempt over a kept connection on loopback. The
// receiver's share is in it, on HTTP/2 that of net/http's server.
func BenchmarkAttempt(b *testing.B) {
	ca := newAuthority(b)
	pair := ca.issue(b, func(*x509.Certificate) {})
	for _, row := range []struct {
		name   string
		config *tls.Config
	}{
		{"http_1.1", nil},
		{"http_1.1_TLS", &tls.Config{Certificates: []tls.Certificate{pair}}},
		{"http_2_TLS", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}},
	} {
		b.Run(row.name, func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			scheme := "http"
			if row.config != nil {
				scheme = "https"
			}
			if row.config != nil && row.config.NextProtos != nil {
				server := &http.Server{TLSConfig: row.config, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(w, "ok")
				})}
				go func() { _ = server.ServeTLS(listener, "", "") }()
				defer server.Close()
			} else {
				defer listener.Close()
				go serveQuickly(listener, row.config)
			}
			w := NewWebhook(Config{Policy: development, UserAgent: UserAgent("1.2.3")})
			defer w.Close()
			roots := x509.NewCertPool()
			roots.AddCert(ca.cert)
			w.pool.opener.tls.RootCAs = roots
			job := jobTo(scheme+"://"+strings.Replace(listener.Addr().String(), "127.0.0.1", "localhost", 1)+"/hook", 5*time.Second)
			job.Event.Body = make([]byte, 1024)
			b.ReportAllocs()
			for b.Loop() {
				if a := w.Attempt(b.Context(), job); a.Failure.Failed() {
					b.Fatal(a.Failure)
				}
			}
		})
	}
}

func serveQuickly(listener net.Listener, config *tls.Config) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if config != nil {
			conn = tls.Server(conn, config)
		}
		go func() {
			defer conn.Close()
			c := callerOn(conn, &peer{})
			for {
				c.tap.Reset()
				req, err := http.ReadRequest(c.in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				c.say(ok)
			}
		}()
	}
}
