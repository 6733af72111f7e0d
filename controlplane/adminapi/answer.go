package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
)

// fault is an answer without a result: a code for programs and a sentence for
// people.
type fault struct {
	status    int
	Code      string `json:"code"`
	Message   string `json:"message"`
	Parameter string `json:"parameter,omitempty"`
}

// begin sets the headers of every answer.
func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
}

func refuse(w http.ResponseWriter, f *fault) {
	switch f.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="streaming-hub"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(f.status)
	write(w, map[string]*fault{"error": f})
}

func write(w http.ResponseWriter, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a caller that has left needs no answer
}

// authenticate finds out who asks, and whether they may. away tells of a
// database that does not answer.
func authenticate(ctx context.Context, tokens *access.Tokens, r *http.Request, action controlplane.Action, away func(what string, err error) *fault) (controlplane.Actor, *fault) {
	token, err := tokens.Authenticate(ctx, access.Bearer(r.Header.Get("Authorization")))
	switch {
	case errors.Is(err, access.ErrBadToken):
		return controlplane.Actor{}, &fault{status: http.StatusUnauthorized, Code: "unauthenticated", Message: "a valid API token is needed: Authorization: Bearer shub_…"}
	case err != nil:
		return controlplane.Actor{}, away("check tokens", err)
	}
	actor := controlplane.ActorOf(token)
	if !actor.Can(action) {
		return actor, &fault{status: http.StatusForbidden, Code: "forbidden", Message: actor.WhyNot(action)}
	}
	return actor, nil
}
