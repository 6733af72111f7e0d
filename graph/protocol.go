package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/coder/websocket"
)

// maxOperations bounds the operations that one socket has open.
const maxOperations = 20

// skipMessage is the code of a message that was dealt with here.
const skipMessage = -1

// maxReason is the longest reason that a close frame holds, in bytes.
const maxReason = 123

// Close codes of graphql-transport-ws.
const (
	closeBadMessage   = 4400
	closeUnauthorized = 4401
	closeForbidden    = 4403
	closeInitTimeout  = 4408
	closeDuplicate    = 4409
	closeTooManyInits = 4429
	closeGoingAway    = 1001
	closeTryLater     = 1013
)

// verdict is what becomes of a client's message: code 0 passes it on, in the
// form of message if that is set, skipMessage leaves it out, anything else
// closes the connection with that code. answer, if any, goes back to the client.
type verdict struct {
	code    int
	reason  string
	message []byte
	answer  []byte
}

var invalidMessage = verdict{code: closeBadMessage, reason: "Invalid message"}

// receive keeps the rules for a client's message.
func (s *socket) receive(kind websocket.MessageType, message []byte) verdict {
	var m struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload"`
	}
	if kind != websocket.MessageText || json.Unmarshal(message, &m) != nil {
		return invalidMessage
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Type {
	case "connection_init":
		var payload map[string]json.RawMessage
		switch {
		case s.begun:
			return verdict{code: closeTooManyInits, reason: "Too many initialisation requests"}
		case m.Payload != nil && json.Unmarshal(m.Payload, &payload) != nil:
			return invalidMessage
		}
		s.begun = true
	case "subscribe":
		return s.subscribe(m.ID, m.Payload)
	case "complete":
		number, open := s.operations[m.ID]
		if !open {
			return verdict{code: skipMessage}
		}
		delete(s.operations, m.ID)
		s.running[number] = ""
		return verdict{message: numbered(m.Type, number, nil)}
	case "ping":
		if !s.begun { // the transport takes nothing else before connection_init
			return verdict{code: skipMessage, answer: []byte(`{"type":"pong"}`)}
		}
	case "pong":
		if !s.begun {
			return verdict{code: skipMessage}
		}
	default:
		return verdict{code: closeBadMessage, reason: "Invalid message type"}
	}
	return verdict{}
}

func (s *socket) subscribe(id string, payload []byte) verdict {
	if s.ctx == nil {
		return verdict{code: closeUnauthorized, reason: "Unauthorized"}
	}
	if id == "" || len(id) > 128 {
		return verdict{code: closeBadMessage, reason: "Invalid operation id"}
	}
	if fault := requestFault(payload); fault != "" {
		return verdict{code: closeBadMessage, reason: "Invalid message: " + fault}
	}
	if _, open := s.operations[id]; open {
		return verdict{code: closeDuplicate, reason: "Subscriber for " + id + " already exists"}
	}
	if len(s.running) >= maxOperations {
		return verdict{code: skipMessage, answer: s.refusal(id)}
	}
	s.counted++
	number := strconv.Itoa(s.counted)
	s.operations[id], s.running[number] = number, id
	return verdict{message: numbered("subscribe", number, payload)}
}

// numbered is a message to the transport, which knows each operation by a
// number of its own: a client may use an id again as soon as it has completed
// the operation, while the transport still ends that.
func numbered(kind, number string, payload json.RawMessage) []byte {
	message, _ := json.Marshal(struct { // the payload has been read before
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{kind, number, payload})
	return message
}

// refusal ends an operation beyond the limit without starting it.
func (s *socket) refusal(id string) []byte {
	message, _ := json.Marshal(map[string]any{"id": id, "type": "error", "payload": []any{map[string]any{
		"message":    "this connection has too many open operations",
		"extensions": map[string]any{"code": codeLimit, "requestId": requestID(s.ctx)},
	}}})
	return message
}

// ofOperation is the end of the transport's messages about an operation.
var ofOperation = regexp.MustCompile(`"id":"(\d+)","type":"(next|error|complete)"}$`)

// send keeps the books of the server's messages and gives each the client's id
// again; false leaves one out: the client wants no news of what it completed.
func (s *socket) send(message []byte) ([]byte, bool) {
	const longestEnd = 64 // bytes of what ofOperation matches
	tail := max(len(message)-longestEnd, 0)
	at := ofOperation.FindSubmatchIndex(message[tail:])
	if at == nil {
		return message, true
	}
	number, kind := string(message[tail+at[2]:tail+at[3]]), string(message[tail+at[4]:tail+at[5]])
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.running[number]
	if kind != "next" {
		delete(s.running, number)
		if id != "" {
			delete(s.operations, id)
		}
	}
	if id == "" {
		return nil, false
	}
	text, _ := json.Marshal(id) // a string always encodes
	return fmt.Appendf(message[:tail+at[0]:tail+at[0]], `"id":%s,"type":%q}`, text, kind), true
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
	switch code {
	case 1002:
		return closeBadMessage, "Invalid message"
	case closeForbidden:
		return code, "Forbidden"
	case closeTryLater:
		return code, "Try again later"
	case closeTooManyInits:
		return code, "Too many live connections"
	}
	return code, reason
}
