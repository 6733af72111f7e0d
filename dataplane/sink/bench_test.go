package sink

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// BenchmarkAttempt is one attempt over a kept connection on loopback, with a
// receiver that does next to nothing.
func BenchmarkAttempt(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(conn, ok)
				}
			}()
		}
	}()
	w := NewWebhook(Config{Policy: development, UserAgent: UserAgent("1.2.3")})
	defer w.Close()
	job := jobTo("http://"+listener.Addr().String()+"/hook", 5*time.Second)
	job.Event.Body = make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if a := w.Attempt(b.Context(), job); a.Failure.Failed() {
			b.Fatal(a.Failure)
		}
	}
}
