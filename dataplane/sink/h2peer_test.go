package sink

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// h2caller is one HTTP/2 connection of a peer, frame by frame.
type h2caller struct {
	*http2.Framer
	conn *tls.Conn
	peer *peer
	// window is how much of a body the hub lets come unread, in bytes.
	window uint32
}

// h2request is a request as its frames told it.
type h2request struct {
	stream uint32
	header http.Header
	body   []byte
}

// newH2Peer speaks HTTP/2 over TLS. A request counts as seen when its headers
// have come, whether it is read on or not.
func newH2Peer(t *testing.T, ca *authority, serve func(c *h2caller)) *peer {
	config := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, func(*x509.Certificate) {})}, NextProtos: []string{"h2"}}
	return newH2PeerWith(t, config, func(c *h2caller) {
		_ = c.WriteSettings()
		serve(c)
	})
}

func newH2PeerWith(t *testing.T, config *tls.Config, serve func(c *h2caller)) *peer {
	return newPeer(t, func(c *caller) {
		conn := tls.Server(c.Conn, config)
		if conn.Handshake() != nil || conn.ConnectionState().NegotiatedProtocol != "h2" {
			return
		}
		preface := make([]byte, len(http2.ClientPreface))
		for n := 0; n < len(preface); {
			k, err := conn.Read(preface[n:])
			if err != nil {
				return
			}
			n += k
		}
		framer := http2.NewFramer(conn, conn)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		serve(&h2caller{Framer: framer, conn: conn, peer: c.peer})
	})
}

// head takes the headers of the next request; nil when there is none. Frames
// about the connection are answered as they should be.
func (c *h2caller) head() *h2request {
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return nil
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			r := &h2request{stream: f.StreamID, header: http.Header{}}
			for _, field := range f.Fields {
				r.header.Add(field.Name, field.Value)
			}
			c.peer.mu.Lock()
			c.peer.requests = append(c.peer.requests, seen{Request: &http.Request{Header: r.header, Proto: "HTTP/2.0"}})
			c.peer.mu.Unlock()
			if f.StreamEnded() {
				r.body = []byte{}
			}
			return r
		default:
			c.heed(frame)
		}
	}
}

// read takes the next request in whole.
func (c *h2caller) read() *h2request {
	r := c.head()
	if r == nil || r.body != nil {
		return r
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return nil
		}
		data, ok := frame.(*http2.DataFrame)
		if !ok {
			c.heed(frame)
			continue
		}
		r.body = append(r.body, data.Data()...)
		if n := uint32(len(data.Data())); n > 0 {
			_ = c.WriteWindowUpdate(0, n)
			_ = c.WriteWindowUpdate(r.stream, n)
		}
		if data.StreamEnded() {
			c.peer.mu.Lock()
			c.peer.requests[len(c.peer.requests)-1].body = r.body
			c.peer.mu.Unlock()
			return r
		}
	}
}

func (c *h2caller) heed(frame http2.Frame) {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.window, _ = f.Value(http2.SettingInitialWindowSize)
			_ = c.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.WritePing(true, f.Data)
		}
	}
}

// drain reads until the hub closes.
func (c *h2caller) drain() {
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return
		}
		c.heed(frame)
	}
}

// headers writes an answer's headers.
func (c *h2caller) headers(stream uint32, end bool, fields ...string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		colon := strings.IndexByte(f[1:], ':') + 1 // a pseudo header begins with one
		_ = encoder.WriteField(hpack.HeaderField{Name: f[:colon], Value: strings.TrimPrefix(f[colon+1:], " ")})
	}
	const most = 16 << 10
	first := true
	for rest := block.Bytes(); first || len(rest) > 0; first = false {
		part := rest[:min(len(rest), most)]
		rest = rest[len(part):]
		var err error
		if first {
			err = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: part, EndStream: end, EndHeaders: len(rest) == 0})
		} else {
			err = c.WriteContinuation(stream, len(rest) == 0, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer writes a whole answer; it reports whether the hub still listens.
func (c *h2caller) answer(stream uint32, status, body string) bool {
	return c.headers(stream, body == "", ":status:"+status) == nil && (body == "" || c.WriteData(stream, true, []byte(body)) == nil)
}

// trusting is a sink that accepts an authority's certificates.
func trusting(t *testing.T, p address.Policy, ca *authority) *Webhook {
	w := newSink(t, p)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	w.pool.opener.tls.RootCAs = roots
	return w
}

// secure is the peer's URL with a name that its certificate holds.
func (p *peer) secure() string {
	return strings.Replace("https://"+p.addr, "127.0.0.1", "localhost", 1) + "/hook?a=b"
}
