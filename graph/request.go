package graph

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
)

// gate is what a request has to pass before GraphQL sees it.
type gate struct {
	tokens  *access.Tokens
	origins origins
	cross   *http.CrossOriginProtection
	sockets *sockets
	graphql http.Handler
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Cache-Control", "no-store")
	r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
	if r.Header.Get("Upgrade") != "" {
		g.upgrade(w, r)
		return
	}
	g.post(w, r)
}

func (g *gate) post(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, r, http.StatusMethodNotAllowed, codeBadRequest, "send queries by POST")
		return
	}
	if err := g.cross.Check(r); err != nil {
		refuse(w, r, http.StatusForbidden, codeForbidden, "pages of this origin may not call the API")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, r, http.StatusUnsupportedMediaType, codeBadRequest, "send queries as application/json")
		return
	}
	token, err := g.tokens.Authenticate(r.Context(), access.Bearer(r.Header.Get("Authorization")))
	if err != nil {
		refuseToken(w, r, err)
		return
	}
	body, status, message := readBody(w, r)
	if message != "" {
		refuse(w, r, status, codeOfStatus(status), message)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r = r.WithContext(withActor(r.Context(), controlplane.ActorOf(token)))
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		g.stream(w, r)
		return
	}
	g.graphql.ServeHTTP(w, r)
}

// readBody reads a single GraphQL request. Batches are refused: one request
// is what the limits count.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, status int, fault string) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTime)) // best effort, see streamWriter
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, "the request is larger than 256 KiB"
	case err != nil:
		return nil, http.StatusBadRequest, "the request could not be read to its end"
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return nil, http.StatusBadRequest, "the request is a list; batches are not taken, send one object"
	}
	if fault := requestFault(body); fault != "" {
		return nil, http.StatusBadRequest, fault
	}
	return body, http.StatusOK, ""
}

// requestFault says what keeps a text from being a GraphQL request, and nothing
// of what it holds; "" when nothing does.
func requestFault(text []byte) string {
	var shape struct {
		Query         *string                    `json:"query"`
		OperationName *string                    `json:"operationName"`
		Variables     map[string]json.RawMessage `json:"variables"`
		Extensions    map[string]json.RawMessage `json:"extensions"`
	}
	err := json.Unmarshal(text, &shape)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && (kind.Field == "query" || kind.Field == "operationName"):
		return kind.Field + " is no string"
	case errors.As(err, &kind) && (kind.Field == "variables" || kind.Field == "extensions"):
		return kind.Field + " is no object"
	case err != nil || shape.Query == nil:
		return "the request is no JSON object with a query"
	}
	return ""
}

func codeOfStatus(status int) string {
	if status == http.StatusRequestEntityTooLarge {
		return codeLimit
	}
	return codeBadRequest
}

// refuse answers in the form of a GraphQL error.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	answer := map[string]any{"errors": []any{map[string]any{
		"message":    message,
		"extensions": map[string]any{"code": code, "requestId": requestID(r.Context())},
	}}}
	_ = json.NewEncoder(w).Encode(answer) // a caller that has left needs no answer
}

func refuseToken(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, access.ErrBadToken) {
		w.Header().Set("Retry-After", "1")
		refuse(w, r, http.StatusServiceUnavailable, codeUnavailable, "the hub cannot check tokens at the moment")
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="streaming-hub"`)
	refuse(w, r, http.StatusUnauthorized, codeUnauthenticated, "a valid API token is needed: Authorization: Bearer shub_…")
}

type requestIDKey struct{}

// requestID names the request in answers and in the log.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
