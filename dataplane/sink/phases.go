package sink

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// phases follows an attempt through the transport's hooks, which run on
// several goroutines.
type phases struct {
	now     func() time.Time
	started time.Time

	mu       sync.Mutex
	phase    hub.Phase
	dnsAt    time.Time
	dialAt   time.Time
	tlsAt    time.Time
	timings  hub.Timings
	remoteIP string
}

func (p *phases) enter(phase hub.Phase) {
	p.mu.Lock()
	p.phase = phase
	p.mu.Unlock()
}

// micros is the whole microseconds since t, at least 1, so that a phase that
// happened never looks like one that did not.
func (p *phases) micros(t time.Time) int32 {
	return int32(max(1, min(p.now().Sub(t).Microseconds(), 1<<31-1)))
}

func (p *phases) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) {
			p.mu.Lock()
			p.phase, p.dnsAt = hub.PhaseDNS, p.now()
			p.mu.Unlock()
		},
		DNSDone: func(httptrace.DNSDoneInfo) {
			p.mu.Lock()
			p.phase, p.timings.DNS = hub.PhaseConnect, p.micros(p.dnsAt)
			p.mu.Unlock()
		},
		ConnectStart: func(string, string) {
			p.mu.Lock()
			p.phase, p.dialAt = hub.PhaseConnect, p.now()
			p.mu.Unlock()
		},
		ConnectDone: func(_, _ string, err error) {
			p.mu.Lock()
			p.timings.Connect = p.micros(p.dialAt)
			p.mu.Unlock()
		},
		TLSHandshakeStart: func() {
			p.mu.Lock()
			p.phase, p.tlsAt = hub.PhaseTLS, p.now()
			p.mu.Unlock()
		},
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			p.mu.Lock()
			if p.timings.TLS = p.micros(p.tlsAt); err == nil {
				p.phase = hub.PhaseRequest
			}
			p.mu.Unlock()
		},
		GotConn: func(info httptrace.GotConnInfo) {
			p.mu.Lock()
			p.phase, p.remoteIP = hub.PhaseRequest, hostOf(info.Conn.RemoteAddr())
			p.mu.Unlock()
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				p.enter(hub.PhaseAnswer)
			}
		},
		GotFirstResponseByte: func() {
			p.mu.Lock()
			p.phase, p.timings.FirstByte = hub.PhaseAnswer, p.micros(p.started)
			p.mu.Unlock()
		},
	}
}

func (p *phases) result() (hub.Timings, hub.Phase, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timings.Total = p.micros(p.started)
	return p.timings, p.phase, p.remoteIP
}

// hostOf is the address without the port.
func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.String()
}
