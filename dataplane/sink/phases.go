package sink

import (
	"crypto/tls"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// peerFacts are what is known of the other end of a connection.
type peerFacts struct {
	remoteIP   string
	tlsVersion string // "TLS 1.3" or ""
}

// phases follows an attempt. Some of what it is told comes from net/http's
// hooks, which run on several goroutines.
type phases struct {
	now     func() time.Time
	started time.Time

	mu       sync.Mutex
	phase    hub.Phase
	dnsAt    time.Time
	dialAt   time.Time
	tlsAt    time.Time
	timings  hub.Timings
	peer     peerFacts
	sent     bool // the request's head has gone out
	answered bool // the first byte of an answer has come
}

// micros is the whole microseconds since t, at least 1, so that a phase that
// happened never looks like one that did not.
func (p *phases) micros(t time.Time) int32 {
	return int32(max(1, min(p.now().Sub(t).Microseconds(), 1<<31-1)))
}

func (p *phases) enter(phase hub.Phase) {
	p.mu.Lock()
	p.phase = phase
	p.mu.Unlock()
}

// reuse tells that the attempt goes over a connection made before.
func (p *phases) reuse(peer peerFacts) {
	p.mu.Lock()
	p.phase, p.peer = hub.PhaseRequest, peer
	p.mu.Unlock()
}

// connected ends the phases of a new connection and tells what they showed.
func (p *phases) connected() peerFacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = hub.PhaseRequest
	return p.peer
}

// wasSent reports whether the receiver may have seen the request.
func (p *phases) wasSent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// traceOfDial follows a look-up and the connection to what it found.
func (p *phases) traceOfDial() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) {
			p.mu.Lock()
			p.phase, p.dnsAt = hub.PhaseDNS, p.now()
			p.mu.Unlock()
		},
		DNSDone: func(info httptrace.DNSDoneInfo) {
			p.mu.Lock()
			if p.timings.DNS = p.micros(p.dnsAt); info.Err == nil {
				p.phase = hub.PhaseConnect
			}
			p.mu.Unlock()
		},
		// A name may have several addresses, of which the last one tried
		// counts; their time is one phase.
		ConnectStart: func(string, string) {
			p.mu.Lock()
			if p.phase = hub.PhaseConnect; p.dialAt.IsZero() {
				p.dialAt = p.now()
			}
			p.mu.Unlock()
		},
		ConnectDone: func(_, addr string, err error) {
			p.mu.Lock()
			if p.timings.Connect = p.micros(p.dialAt); err == nil {
				p.peer.remoteIP = hostOf(addr)
			}
			p.mu.Unlock()
		},
	}
}

func (p *phases) handshakeBegun() {
	p.mu.Lock()
	p.phase, p.tlsAt = hub.PhaseTLS, p.now()
	p.mu.Unlock()
}

func (p *phases) handshakeEnded(state tls.ConnectionState, err error) {
	p.mu.Lock()
	if p.timings.TLS = p.micros(p.tlsAt); err == nil {
		p.phase = hub.PhaseRequest
		p.peer.tlsVersion = tls.VersionName(state.Version)
	}
	p.mu.Unlock()
}

// headSent tells that the receiver may see the request from now on.
func (p *phases) headSent() {
	p.mu.Lock()
	p.sent = true
	p.mu.Unlock()
}

func (p *phases) requestSent() {
	p.mu.Lock()
	p.phase = hub.PhaseAnswer
	p.mu.Unlock()
}

// answerBegun tells of the answer's first byte.
func (p *phases) answerBegun() {
	p.mu.Lock()
	p.phase, p.answered, p.timings.FirstByte = hub.PhaseAnswer, true, p.micros(p.started)
	p.mu.Unlock()
}

// traceOfRequest follows a request that net/http sends.
func (p *phases) traceOfRequest() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders: p.headSent,
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				p.requestSent()
			}
		},
		GotFirstResponseByte: p.answerBegun,
	}
}

// record ends the attempt's clock.
func (p *phases) record(a *hub.Attempt) (phase hub.Phase, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timings.Total = p.micros(p.started)
	a.Timings = p.timings
	a.Answer.RemoteIP, a.Answer.TLSVersion = p.peer.remoteIP, p.peer.tlsVersion
	return p.phase, p.answered
}

// hostOf is the address without the port.
func hostOf(hostport string) string {
	a, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return ""
	}
	return a.Addr().String()
}
