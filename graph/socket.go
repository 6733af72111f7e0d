package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
)

// protocolName is the only WebSocket subprotocol that is spoken.
const protocolName = "graphql-transport-ws"

const (
	initTime   = 5 * time.Second
	socketPing = 15 * time.Second
)

// upgrade judges a WebSocket before it is one, and lets gqlgen serve it.
func (g *gate) upgrade(w http.ResponseWriter, r *http.Request) {
	if !g.origins.admits(r) {
		refuse(w, r, http.StatusForbidden, codeForbidden, "pages of this origin may not call the API")
		return
	}
	if !offers(r.Header.Values("Sec-WebSocket-Protocol"), protocolName) {
		refuse(w, r, http.StatusBadRequest, codeBadRequest, "the WebSocket has to offer the subprotocol "+protocolName)
		return
	}
	s := &socket{gate: g, authorization: r.Header.Get("Authorization"), operations: map[string]string{}, running: map[string]string{}}
	defer s.done()
	ctx := onLive(context.WithValue(r.Context(), socketKey{}, s))
	g.graphql.ServeHTTP(w, r.WithContext(ctx))
}

func offers(headers []string, protocol string) bool {
	for _, line := range headers {
		names := strings.Split(line, ",")
		if slices.ContainsFunc(names, func(n string) bool { return strings.TrimSpace(n) == protocol }) {
			return true
		}
	}
	return false
}

type socketKey struct{}

// socket is one WebSocket connection. It stands between gqlgen's transport and
// the network, and keeps the rules of the protocol that the transport leaves
// open; protocol.go has them.
type socket struct {
	gate          *gate
	authorization string // of the upgrade request, used when connection_init has none
	conn          *websocket.Conn

	mu         sync.Mutex
	begun      bool              // connection_init was seen
	operations map[string]string // numbers of the open ones by the client's id
	running    map[string]string // ids by number, until the transport has ended it; "" once the client has completed it
	counted    int               // operations so far
	timer      *time.Timer       // read deadline
	closed     bool
	leave      func()
	ctx        context.Context // with the actor, after init
}

// socketImplementation is gqlgen's way to the network.
type socketImplementation struct{}

var _ transport.WebsocketImplementation = socketImplementation{}

// Accept takes only our subprotocol; the origin was checked before.
func (socketImplementation) Accept(w http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	s, ok := r.Context().Value(socketKey{}).(*socket)
	if !ok {
		return nil, errors.New("a WebSocket came past the gate")
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocolName}, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	s.conn = conn
	conn.SetReadLimit(maxBody)
	return s, nil
}

// init lets the connection's token in. A bad one closes with 4403, which
// clients do not answer by connecting again.
func (g *gate) init(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	s := ctx.Value(socketKey{}).(*socket)
	authorization := payload.Authorization()
	if authorization == "" {
		authorization = s.authorization
	}
	text := access.Bearer(authorization)
	token, err := g.tokens.Authenticate(ctx, text)
	switch {
	case errors.Is(err, access.ErrBadToken):
		return transport.WithWebsocketCloseCode(ctx, closeForbidden), nil, errors.New("Forbidden")
	case err != nil:
		return transport.WithWebsocketCloseCode(ctx, closeTryLater), nil, errors.New("the hub cannot check tokens at the moment")
	}
	actor := controlplane.ActorOf(token)
	leave, ok := g.sockets.enterAs(actor)
	if !ok {
		return transport.WithWebsocketCloseCode(ctx, closeTooManyInits), nil, errors.New("too many live connections of this token")
	}
	ctx, cancel := g.sockets.guard(withActor(ctx, actor), text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.leave = ctx, func() { cancel(nil); leave() }
	return ctx, nil, nil
}

// NextReader gives the transport the next message that keeps the protocol.
func (s *socket) NextReader() (int, io.Reader, error) {
	for {
		kind, message, err := s.conn.Read(context.Background()) // ended by closing
		if err != nil {
			return 0, nil, transport.ErrWebsocketClosed
		}
		v := s.receive(kind, message)
		// The next message waits until the client has taken this answer: one
		// that sends and never reads holds up itself.
		if v.answer != nil && s.write(v.answer) != nil {
			return 0, nil, transport.ErrWebsocketClosed
		}
		switch v.code {
		case 0:
			if v.message != nil {
				message = v.message
			}
			return int(kind), bytes.NewReader(message), nil
		case skipMessage:
			continue
		}
		s.end(v.code, v.reason)
		return 0, nil, transport.ErrWebsocketClosed
	}
}

// WriteJSON has a deadline: a client that stops reading would otherwise hold
// the resolvers of all its operations for ever.
func (s *socket) WriteJSON(v any) error {
	message, err := json.Marshal(v)
	if err != nil {
		return err
	}
	message, wanted := s.send(message)
	if !wanted {
		return nil
	}
	return s.write(message)
}

func (s *socket) write(message []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, message) // closes when time is up
}

// WriteClose closes in the background, because the handshake can take 5 s.
func (s *socket) WriteClose(code int, reason string) error {
	code, reason = s.closeCode(code, reason)
	s.end(code, reason)
	return nil
}

func (s *socket) end(code int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	go func() { _ = s.conn.Close(websocket.StatusCode(code), reason) }()
}

// Close cuts the connection, unless a closing handshake is on its way, which
// ends it itself.
func (s *socket) Close() error {
	s.mu.Lock()
	closing := s.closed
	s.mu.Unlock()
	if closing {
		return nil
	}
	return s.conn.CloseNow()
}

func (s *socket) Subprotocol() string { return s.conn.Subprotocol() }

// SetReadDeadline lets the transport cut a connection that answers no ping.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if !t.IsZero() {
		s.timer = time.AfterFunc(time.Until(t), func() { _ = s.conn.CloseNow() })
	}
	return nil
}

// done gives back what the connection held, and ends it: the transport leaves
// one open whose first message it does not understand.
func (s *socket) done() {
	_ = s.SetReadDeadline(time.Time{})
	if s.conn != nil {
		_ = s.Close() // it may be closed
	}
	s.mu.Lock()
	leave := s.leave
	s.mu.Unlock()
	if leave != nil {
		leave()
	}
}
