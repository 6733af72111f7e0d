package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/coder/websocket"
)

// maxOperations bounds the operations that one socket has open.
const maxOperations = 20

// skipMessage is the code of a message that was dealt with here.
const skipMessage = -1

// Close codes of graphql-transport-ws.
const (
	closeBadMessage   = 4400
	closeUnauthorized = 4401
	closeForbidden    = 4403
	closeInitTimeout  = 4408
	closeDuplicate    = 4409
	closeTooManyInits = 4429
	closeGoingAway    = 1001
)

// receive keeps the rules for a client's message: 0 passes it on, skipMessage
// leaves it out, anything else closes the connection with that code.
func (s *socket) receive(message []byte) (code int, reason string) {
	var m struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if json.Unmarshal(message, &m) != nil {
		return closeBadMessage, "Invalid message"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Type {
	case "connection_init":
		if s.begun {
			return closeTooManyInits, "Too many initialisation requests"
		}
		s.begun = true
	case "subscribe":
		return s.subscribe(m.ID)
	case "complete":
		if _, open := s.operations[m.ID]; !open {
			return skipMessage, ""
		}
		s.operations[m.ID] = false
	case "ping", "pong":
		if !s.begun {
			return skipMessage, ""
		}
	default:
		return closeBadMessage, "Invalid message type"
	}
	return 0, ""
}

func (s *socket) subscribe(id string) (code int, reason string) {
	if s.ctx == nil {
		return closeUnauthorized, "Unauthorized"
	}
	if id == "" || len(id) > 128 {
		return closeBadMessage, "Invalid operation id"
	}
	if _, open := s.operations[id]; open {
		return closeDuplicate, "Subscriber for " + id + " already exists"
	}
	if len(s.operations) >= maxOperations {
		go s.refuse(id)
		return skipMessage, ""
	}
	s.operations[id] = true
	return 0, ""
}

// refuse ends an operation beyond the limit without starting it.
func (s *socket) refuse(id string) {
	message, _ := json.Marshal(map[string]any{"id": id, "type": "error", "payload": []any{map[string]any{
		"message":    "this connection has too many open operations",
		"extensions": map[string]any{"code": codeLimit, "requestId": requestID(s.ctx)},
	}}})
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	_ = s.conn.Write(ctx, websocket.MessageText, message) // closes when time is up
}

// send keeps the books of the server's messages; false leaves one out. The end
// of an operation that the client itself completed is no news to it, and could
// be taken for the end of another with the same id.
func (s *socket) send(message []byte) bool {
	if bytes.HasSuffix(message, []byte(`"type":"next"}`)) {
		return true
	}
	var m struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if json.Unmarshal(message, &m) != nil || m.Type != "complete" && m.Type != "error" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, open := s.operations[m.ID]
	delete(s.operations, m.ID)
	return open && wanted
}

// closeCode translates the transport's close codes to those of the protocol.
func (s *socket) closeCode(code int, reason string) (int, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		switch cause := context.Cause(s.ctx); {
		case errors.Is(cause, errStopping):
			return closeGoingAway, "Going away"
		case errors.Is(cause, errTokenRevoked):
			return closeForbidden, "Forbidden"
		}
	}
	if code == 1002 && !s.begun {
		return closeInitTimeout, "Connection initialisation timeout"
	}
	if code == 1002 {
		return closeBadMessage, "Invalid message"
	}
	return code, reason
}
