package pull

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// fault is an answer without a page: a status, a code for programs and a
// sentence for people.
type fault struct {
	status     int
	retryAfter time.Duration // 0 for no such header

	Code      string `json:"code"`
	Message   string `json:"message"`
	Parameter string `json:"parameter,omitempty"`
	// OldestSeq and ResumeAfterSeq belong to cursor_expired, NewestSeq to
	// cursor_ahead.
	OldestSeq      string `json:"oldest_seq,omitempty"`
	ResumeAfterSeq string `json:"resume_after_seq,omitempty"`
	NewestSeq      string `json:"newest_seq,omitempty"`
}

func (f *fault) Error() string { return f.Message }

func badRequest(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, Code: "bad_request", Message: fmt.Sprintf(format, args...)}
}

func badParameter(name, format string, args ...any) *fault {
	f := badRequest(format, args...)
	f.Code, f.Parameter = "bad_parameter", fmt.Sprintf("%.60s", name)
	return f
}

func unauthenticated() *fault {
	return &fault{status: http.StatusUnauthorized, Code: "unauthenticated", Message: "a valid API token is needed: Authorization: Bearer shub_…"}
}

func forbidden(message string) *fault {
	return &fault{status: http.StatusForbidden, Code: "forbidden", Message: message}
}

func tooMany(code string, after time.Duration, format string, args ...any) *fault {
	return &fault{status: http.StatusTooManyRequests, retryAfter: after, Code: code, Message: fmt.Sprintf(format, args...)}
}

func unavailable(what string) *fault {
	return &fault{status: http.StatusServiceUnavailable, retryAfter: time.Second, Code: "unavailable", Message: "the hub cannot " + what + " at the moment"}
}

// cursorExpired says that the event behind the cursor is not kept any more.
// oldest is the first one behind it that is, 0 when there is none; resume is
// the cursor to go on with.
func cursorExpired(after, oldest, resume int64) *fault {
	f := &fault{status: http.StatusGone, Code: "cursor_expired", ResumeAfterSeq: strconv.FormatInt(resume, 10)}
	if oldest > 0 {
		f.OldestSeq = strconv.FormatInt(oldest, 10)
	}
	f.Message = fmt.Sprintf("the events with seq %d to %d are not kept any more, their retention has ended; "+
		"read on with after_seq=%d, or begin with the oldest event that is kept by after_seq=earliest", after+1, resume, resume)
	return f
}

// cursorAhead says that no answer of the hub can have given the cursor. It
// happens when a database was set back: to wait there would mean to skip what
// gets these numbers anew.
func cursorAhead(tenant hub.TenantID, after, newest int64) *fault {
	return &fault{
		status: http.StatusConflict, Code: "cursor_ahead", NewestSeq: strconv.FormatInt(newest, 10),
		Message: fmt.Sprintf("after_seq=%d lies ahead of tenant %s, whose newest event has seq %d; "+
			"use the next_seq of an earlier answer, or after_seq=latest for what comes from now on", after, tenant, newest),
	}
}

// write answers with the fault.
func (f *fault) write(w http.ResponseWriter) {
	h := w.Header()
	h.Del("Content-Length")
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="streaming-hub"`)
	}
	if f.retryAfter > 0 {
		seconds := (f.retryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	w.WriteHeader(f.status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]*fault{"error": f}) // a caller that has left needs no answer
}
