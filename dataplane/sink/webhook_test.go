package sink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestAttempt_request(t *testing.T) {
	p := answering(t, ok)
	w := newSink(t, development)
	job := jobTo(p.url(), 5*time.Second)
	newest, old := newKey(), newKey()
	job.Signer = signing.NewSigner([]secret.Secret{newest, old})
	job.Event.Subject, job.Event.DataSchema = `say "hi" 100%`, "https://example.com/s"
	job.Event.Extensions = []hub.Attribute{{Name: "partner", Value: "é"}}
	job.Event.TraceParent, job.Event.TraceState = "00-11111111111111111111111111111111-2222222222222222-01", "a=b"
	a := attempt(t, w, job)
	wantFailure(t, a, "", "")
	p.wantRequests(t, 1)
	got := p.requests[0]
	if got.Method != "POST" || got.Proto != "HTTP/1.1" || got.RequestURI != "/hook?a=b" || got.Host != p.addr ||
		string(got.body) != string(job.Event.Body) {
		t.Errorf("request = %s %s %s to %s with %q", got.Method, got.RequestURI, got.Proto, got.Host, got.body)
	}
	stamp := got.Header.Get("Webhook-Timestamp")
	if stamp != strconv.FormatInt(a.Started.Unix(), 10) {
		t.Errorf("timestamp %s, the attempt started at %d", stamp, a.Started.Unix())
	}
	mac := func(key secret.Secret, text string) []byte {
		h := hmac.New(sha256.New, key.Reveal())
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	var standard, lerian []string
	for _, key := range []secret.Secret{newest, old} {
		standard = append(standard, "v1,"+base64.StdEncoding.EncodeToString(mac(key, fmt.Sprintf("%s.%s.%s", job.Delivery.ID, stamp, got.body))))
		lerian = append(lerian, "v1,sha256="+hex.EncodeToString(mac(key, fmt.Sprintf("v1:%s.%s", stamp, got.body))))
	}
	want := http.Header{}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Content-Length": strconv.Itoa(len(got.body)), "User-Agent": "streaming-hub/1.2.3",
		"X-Lerian-Event-Id": "loan%201", "X-Lerian-Delivery-Id": job.AttemptID.String(), "X-Lerian-Event-Type": "loan.approved",
		"X-Lerian-Event-Source": "lender", "X-Lerian-Schema-Version": "1.0.0", "X-Lerian-Tenant-Id": "acme", "X-Lerian-Seq": "42",
		"X-Lerian-Attempt": "3", "X-Lerian-Timestamp": stamp, "X-Lerian-Signature": strings.Join(lerian, " "),
		"Webhook-Id": job.Delivery.ID.String(), "Webhook-Timestamp": stamp, "Webhook-Signature": strings.Join(standard, " "),
		"Ce-Specversion": "1.0", "Ce-Id": "loan%201", "Ce-Source": "lender", "Ce-Type": "studio.lerian.lender.loan.approved",
		"Ce-Time": "2026-01-02T03:04:05Z", "Ce-Subject": "say%20%22hi%22%20100%25", "Ce-Dataschema": "https://example.com/s",
		"Ce-Schemaversion": "1.0.0", "Ce-Resourcetype": "loan", "Ce-Eventtype": "approved", "Ce-Tenantid": "acme",
		"Ce-Partner": "%C3%A9", "Traceparent": job.Event.TraceParent, "Tracestate": "a=b",
	} {
		want.Set(name, value)
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	for _, key := range []secret.Secret{newest, old} {
		verifier, err := standardwebhooks.NewWebhookRaw(key.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(got.body, got.Header); err != nil {
			t.Errorf("the Standard Webhooks library refuses the request: %v", err)
		}
	}
	if a.Answer.Status != 200 || a.Answer.Snippet != "ok" || a.Answer.Truncated || a.Answer.RemoteIP != "127.0.0.1" || a.Answer.TLSVersion != "" ||
		a.Timings.Connect == 0 || a.Timings.TLS != 0 || a.Timings.DNS != 0 || a.Timings.FirstByte == 0 {
		t.Errorf("answer = %+v, timings %+v", a.Answer, a.Timings)
	}
	if again := attempt(t, w, job); again.Failure.Failed() || again.Timings.Connect != 0 {
		t.Errorf("second attempt: %+v, %+v, want it on the connection of the first", again.Failure, again.Timings)
	}
	if conns, _ := p.counts(); conns != 1 {
		t.Errorf("%d connections, want 1", conns)
	}
}

func TestAttempt_empty_body_has_length_zero(t *testing.T) {
	p := answering(t, ok)
	for _, body := range [][]byte{nil, {}} {
		job := jobTo(p.url(), 5*time.Second)
		key := newKey()
		job.Signer, job.Event.Body = signing.NewSigner([]secret.Secret{key}), body
		wantFailure(t, attempt(t, newSink(t, development), job), "", "")
		got := p.requests[len(p.requests)-1]
		if !strings.Contains(got.raw, "\r\nContent-Length: 0\r\n") || strings.Contains(got.raw, "Transfer-Encoding") {
			t.Errorf("request head:\n%s", got.raw)
		}
		verifier, _ := standardwebhooks.NewWebhookRaw(key.Reveal())
		if err := verifier.Verify(nil, got.Header); err != nil {
			t.Error(err)
		}
	}
}

func TestAttempt_status(t *testing.T) {
	success := []int{200, 201, 202, 203, 204, 205, 206, 226, 250, 299}
	failure := []int{300, 304, 400, 401, 403, 404, 408, 409, 410, 421, 422, 425, 429, 451, 500, 501, 503, 507, 599}
	w := newSink(t, development)
	for _, status := range append(success, failure...) {
		p := answering(t, fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n", status))
		a := attempt(t, w, jobTo(p.url(), 5*time.Second))
		if status < 300 {
			wantFailure(t, a, "", "")
		} else {
			wantFailure(t, a, hub.ErrStatus, hub.PhaseAnswer)
		}
		if a.Answer.Status != int32(status) || a.Answer.RetryAfter != "7" {
			t.Errorf("%d was taken for %+v", status, a.Answer)
		}
		p.wantRequests(t, 1)
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		p := newPeer(t, func(c *caller) {
			for got := c.read(); got != nil; got = c.read() {
				if got.URL.Path != "/hook" {
					t.Errorf("%d was followed to %s %s", status, got.Method, got.URL)
				}
				c.say(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: /login?x=1\r\nContent-Length: 0\r\n\r\n", status))
			}
		})
		a := attempt(t, w, jobTo(p.url(), 5*time.Second))
		wantFailure(t, a, hub.ErrStatus, hub.PhaseAnswer)
		if a.Answer.Status != int32(status) || !strings.Contains(a.Failure.Detail, "/login?x=1") {
			t.Errorf("%d: %+v %+v", status, a.Answer, a.Failure)
		}
		p.wantRequests(t, 1)
	}
}

func TestAttempt_is_never_a_success_by(t *testing.T) {
	for name, answer := range map[string]string{
		"two_digits":           "HTTP/1.1 99 x\r\n\r\n",
		"four_digits":          "HTTP/1.1 2000 x\r\n\r\n",
		"no_number":            "HTTP/1.1 OK\r\n\r\n",
		"zero":                 "HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n",
		"six_hundred":          "HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",
		"nine_nine_nine":       "HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",
		"another_protocol":     "220 mail.example.com ESMTP\r\n",
		"noise":                "\x00\xff\x00\xff\r\n\r\n",
		"broken_header":        "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
		"two_lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
		"switching_protocols":  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"too_many_hints":       strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000),
		"a_hint_and_the_end":   "HTTP/1.1 102 Processing\r\n\r\n",
		"header_flood":         "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 995)+"\r\n", 40) + "\r\n",
		"endless_header":       "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<20),
		"endless_status_line":  "HTTP/1.1 200 " + strings.Repeat("a", 1<<20),
		"half_a_header":        "HTTP/1.1 200 OK\r\nContent-Le",
		"nothing":              "",
		"unknown_transfer":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: cats\r\n\r\n",
		"nul_in_a_header_name": "HTTP/1.1 200 OK\r\nX\x00Y: 1\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, func(c *caller) {
				if c.read() != nil {
					c.say(answer)
				}
			})
			a := attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second))
			switch a.Failure.Class {
			case hub.ErrProtocol, hub.ErrReset:
			default:
				t.Errorf("failure = %+v", a.Failure)
			}
			if a.Answer.Status >= 200 {
				t.Errorf("status = %d", a.Answer.Status)
			}
			p.wantRequests(t, 1)
		})
	}
}

func TestAttempt_hints_before_the_answer(t *testing.T) {
	p := answering(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 3)+ok)
	a := attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second))
	wantFailure(t, a, "", "")
	if a.Answer.Status != 200 {
		t.Errorf("status = %d", a.Answer.Status)
	}
}

func TestAttempt_broken_connection(t *testing.T) {
	t.Run("reset_instead_of_an_answer", func(t *testing.T) {
		p := newPeer(t, func(c *caller) {
			c.read()
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
		})
		wantFailure(t, attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second)), hub.ErrReset, hub.PhaseAnswer)
		p.wantRequests(t, 1)
	})
	t.Run("closed_while_a_large_body_is_sent", func(t *testing.T) {
		p := newPeer(t, func(c *caller) { _, _ = c.Conn.Read(make([]byte, 1000)) })
		job := jobTo(p.url(), 5*time.Second)
		job.Event.Body = make([]byte, 8<<20)
		wantFailure(t, attempt(t, newSink(t, development), job), hub.ErrReset, "")
	})
	t.Run("refused", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		a := attempt(t, newSink(t, development), jobTo("http://"+listener.Addr().String(), 5*time.Second))
		wantFailure(t, a, hub.ErrConnect, hub.PhaseConnect)
	})
	t.Run("stopping_hub_is_our_fault", func(t *testing.T) {
		p := newPeer(t, func(c *caller) { c.read(); c.drain() })
		ctx, stop := contextEndingOn(t, p)
		a := newSink(t, development).Attempt(ctx, jobTo(p.url(), 30*time.Second))
		stop()
		wantFailure(t, a, hub.ErrCancelled, "")
		if !a.Failure.Class.OurFault() {
			t.Error("it counts against the receiver")
		}
	})
}
