package receiver

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Script says how a path answers: each answer in turn, the last one for ever.
// It holds for verification probes too; a 2xx answer without a body of its own
// echoes their challenge.
type Script struct {
	Answers []Answer `json:"answers"`
	// DelayMs, Body and Headers hold for answers that have none themselves.
	DelayMs int               `json:"delayMs"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

// Answer is one HTTP answer.
type Answer struct {
	Status  int               `json:"status"` // 0 means 200
	Times   int               `json:"times"`  // how often; 0 means once
	DelayMs int               `json:"delayMs"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

// maxDelay bounds a scripted delay: longer than any attempt of the hub.
const maxDelay = 5 * time.Minute

// scripts by path.
type scripts struct {
	paths copyOnWrite[*running]
}

// running is a script and how far it got.
type running struct {
	mu      sync.Mutex
	answers []Answer
	at      int
	used    int
}

// SetScript replaces the script of a path.
func (r *Receiver) SetScript(path string, s Script) error {
	if len(s.Answers) == 0 {
		s.Answers = []Answer{{}}
	}
	answers := make([]Answer, len(s.Answers))
	for i, a := range s.Answers {
		if a.Status == 0 {
			a.Status = http.StatusOK
		}
		if a.DelayMs == 0 {
			a.DelayMs = s.DelayMs
		}
		if a.Body == "" {
			a.Body = s.Body
		}
		headers := maps.Clone(s.Headers)
		if headers == nil {
			headers = map[string]string{}
		}
		maps.Copy(headers, a.Headers)
		a.Headers = headers
		if a.Status < 200 || a.Status > 999 {
			return fmt.Errorf("answer %d has status %d; it must be from 200 to 999", i+1, a.Status)
		}
		if d := time.Duration(a.DelayMs) * time.Millisecond; d < 0 || d > maxDelay {
			return fmt.Errorf("answer %d has a delay of %s; it must be from 0 to %s", i+1, d, maxDelay)
		}
		answers[i] = a
	}
	r.scripts.paths.update(func(m map[string]*running) { m[path] = &running{answers: answers} })
	return nil
}

// ClearScript lets a path answer by itself again.
func (r *Receiver) ClearScript(path string) {
	r.scripts.paths.update(func(m map[string]*running) { delete(m, path) })
}

// next is the script's answer to this request; ok is false without a script.
func (s *scripts) next(path string) (a Answer, ok bool) {
	script, ok := s.paths.get(path)
	if !ok {
		return Answer{}, false
	}
	script.mu.Lock()
	defer script.mu.Unlock()
	a = script.answers[script.at]
	script.used++
	if script.used >= max(1, a.Times) && script.at < len(script.answers)-1 {
		script.at, script.used = script.at+1, 0
	}
	return a, true
}

// send writes the answer after its delay, unless the sender gives up first.
func (a Answer) send(w http.ResponseWriter, req *http.Request) {
	if a.DelayMs > 0 {
		timer := time.NewTimer(time.Duration(a.DelayMs) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			return
		}
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // a sender that left is its own affair
}

func (r *Receiver) serveScript(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(req.URL.Path, "/script")
	switch req.Method {
	case http.MethodDelete:
		r.ClearScript(path)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut, http.MethodPost:
		var s Script
		if !decode(w, req, &s) {
			return
		}
		if err := r.SetScript(path, s); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "PUT sets a script, DELETE removes it")
	}
}

// decode reads a JSON body and refuses what it does not know.
func decode(w http.ResponseWriter, req *http.Request, into any) bool {
	d := json.NewDecoder(io.LimitReader(req.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "the JSON is not understood: "+err.Error())
		return false
	}
	return true
}
