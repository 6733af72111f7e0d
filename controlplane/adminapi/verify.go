package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
)

// verifyTime bounds one request; a probe takes up to 30 s.
const verifyTime = 40 * time.Second

// Verify is the handler of POST /v1/subscriptions/{id}/verify.
type Verify struct {
	Subscriptions *controlplane.Subscriptions
	Tokens        *access.Tokens
	Log           *slog.Logger
}

// verified is the answer.
type verified struct {
	ID                string                `json:"id"`
	VerificationState hub.VerificationState `json:"verification_state"`
	VerificationError string                `json:"verification_error,omitempty"`
	Enabled           bool                  `json:"enabled"`
	DisabledBy        hub.DisabledBy        `json:"disabled_by,omitempty"`
	Probe             *probed               `json:"probe,omitempty"`
}

// probed is what the probe saw; times are in microseconds.
type probed struct {
	Status      int32          `json:"status,omitempty"`
	ErrorClass  hub.ErrorClass `json:"error_class,omitempty"`
	ErrorDetail string         `json:"error_detail,omitempty"`
	TotalMicros int32          `json:"total_us"`
}

// ServeHTTP verifies and answers with what came of it.
func (v Verify) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), verifyTime)
	defer cancel()
	begin(w)
	answer, f := v.answer(ctx, r)
	if f != nil {
		refuse(w, f)
		return
	}
	write(w, answer)
}

func (v Verify) answer(ctx context.Context, r *http.Request) (*verified, *fault) {
	actor, f := authenticate(ctx, v.Tokens, r, controlplane.VerifySubscription, v.away)
	if f != nil {
		return nil, f
	}
	text := r.PathValue("id")
	id, ok := controlplane.ParseGlobalID(controlplane.SubscriptionIDs, text)
	if !ok {
		id, _ = hub.ParseID(text) // what is no id finds nothing
	}
	done, mistakes, err := v.Subscriptions.Verify(actor.Within(ctx), actor, hub.SubscriptionID{ID: id})
	if err != nil {
		return nil, v.away("verify event subscriptions", err)
	}
	if len(mistakes) > 0 {
		return nil, faultOf(&mistakes[0])
	}
	s := &done.Subscription
	answer := &verified{
		ID: controlplane.GlobalID(controlplane.SubscriptionIDs, s.ID.ID), VerificationState: s.VerificationState,
		VerificationError: s.VerificationError, Enabled: s.Enabled, DisabledBy: s.DisabledBy,
	}
	if a := done.Probe; a != nil {
		answer.Probe = &probed{Status: a.Answer.Status, ErrorClass: a.Failure.Class, ErrorDetail: a.Failure.Detail, TotalMicros: a.Timings.Total}
	}
	return answer, nil
}

// faultOf is a user error as HTTP tells it.
func faultOf(e *controlplane.UserError) *fault {
	status := map[controlplane.UserErrorCode]int{
		controlplane.NotFound: http.StatusNotFound, controlplane.Conflict: http.StatusConflict, controlplane.Unavailable: http.StatusServiceUnavailable,
	}[e.Code]
	if status == 0 {
		status = http.StatusUnprocessableEntity
	}
	return &fault{status: status, Code: strings.ToLower(string(e.Code)), Message: e.Message}
}

func (v Verify) away(what string, err error) *fault {
	v.Log.Error("POST /v1/subscriptions/{id}/verify failed", "error", err)
	return &fault{status: http.StatusServiceUnavailable, Code: "unavailable", Message: "the hub cannot " + what + " at the moment"}
}
