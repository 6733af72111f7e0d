package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
)

// opener opens connections with the hub's limits, in whichever version of HTTP
// the receiver chooses.
type opener struct {
	guard *guard
	tls   *tls.Config
	// transport makes an HTTP/2 connection of one that is open. It never dials
	// and never sends by itself.
	transport *http.Transport
}

func newOpener(g *guard) *opener {
	var only http.Protocols
	only.SetHTTP2(true)
	return &opener{
		guard: g,
		tls: &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"h2", "http/1.1"},
			// No session cache: a resumed session would carry the identity of
			// an earlier client certificate.
			GetClientCertificate: presentCertificate,
		},
		transport: &http.Transport{
			DialTLSContext: handOver,
			Protocols:      &only,
			HTTP2: &http.HTTP2Config{
				// What a receiver may send ahead of what is read.
				MaxReceiveBufferPerConnection: maxBodyRead,
				MaxReceiveBufferPerStream:     maxBodyRead,
			},
			DisableCompression:     true, // the body is recorded as it came
			MaxResponseHeaderBytes: maxResponseHeaderBytes,
			// No proxy from the environment: a request leaves only as configured.
			Proxy: nil,
		},
	}
}

// open connects to a place within ctx: when the attempt ends, nothing of it
// goes on.
func (o *opener) open(ctx context.Context, at place, cert *Certificate, clock *phases) (carrier, error) {
	socket, err := o.guard.dial(httptrace.WithClientTrace(ctx, clock.traceOfDial()), "tcp", at.address)
	if err != nil {
		return nil, err
	}
	if at.scheme != "https" {
		return newHTTP1(socket, socket.Conn), nil
	}
	secure, err := o.handshake(ctx, socket, at, cert, clock)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		return newHTTP1(secure, socket.Conn), nil
	}
	raw, err := o.transport.NewClientConn(context.WithValue(ctx, openedKey{}, secure), at.scheme, at.address)
	if err != nil {
		_ = secure.Close()
		return nil, err
	}
	return http2Conn{raw}, nil
}

func (o *opener) handshake(ctx context.Context, socket net.Conn, at place, cert *Certificate, clock *phases) (*tls.Conn, error) {
	host, _, err := net.SplitHostPort(at.address)
	if err != nil {
		return nil, &BlockedError{Host: at.address, Reason: err}
	}
	config := o.tls.Clone()
	config.ServerName = host
	if cert != nil {
		ctx = context.WithValue(ctx, certificateKey{}, cert)
	}
	secure := tls.Client(socket, config)
	clock.handshakeBegun()
	err = secure.HandshakeContext(ctx)
	clock.handshakeEnded(secure.ConnectionState(), err)
	return secure, err
}

// openedKey finds the connection that the transport is to take in its context.
type openedKey struct{}

func handOver(ctx context.Context, _, _ string) (net.Conn, error) {
	if c, ok := ctx.Value(openedKey{}).(*tls.Conn); ok {
		return c, nil
	}
	return nil, errors.New("the HTTP/2 transport asked for a connection of its own")
}
