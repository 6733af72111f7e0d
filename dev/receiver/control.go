package receiver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

const welcomeText = `This is the webhook receiver of a Streaming Hub in development.

Post webhooks to any path. Signatures are checked with the secrets that it was
given, verification challenges are echoed, and everything is answered with 200
unless a script says otherwise.

  what came             curl http://%[1]s/requests
  of one path           curl 'http://%[1]s/requests?path=/hooks/all&limit=5'
  how many              curl http://%[1]s/counts
  forget it             curl -X DELETE http://%[1]s/requests
  fail twice, then 200  curl -X PUT http://%[1]s/script/hooks/all -d '{"answers":[{"status":500,"times":2},{"status":200}]}'
  answer slowly         curl -X PUT http://%[1]s/script/hooks/all -d '{"delayMs":3000}'
  as before             curl -X DELETE http://%[1]s/script/hooks/all
  one more secret       curl -X PUT http://%[1]s/secrets -d '{"path":"/hooks/all","secret":"whsec_..."}'
`

func (r *Receiver) welcome(w http.ResponseWriter, host string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, welcomeText, host)
}

func (r *Receiver) serveRequests(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodDelete:
		r.Clear()
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet:
		limit := 0
		if text := req.FormValue("limit"); text != "" {
			var err error
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
				refuse(w, http.StatusBadRequest, "limit must be a whole number from 1")
				return
			}
		}
		list, _ := r.log.last(req.FormValue("path"), limit)
		reply(w, list)
	default:
		refuse(w, http.StatusMethodNotAllowed, "GET shows the requests, DELETE forgets them")
	}
}

func (r *Receiver) serveCounts(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet {
		refuse(w, http.StatusMethodNotAllowed, "GET shows the counts")
		return
	}
	reply(w, r.Counts())
}

func (r *Receiver) serveSecrets(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPut && req.Method != http.MethodPost {
		refuse(w, http.StatusMethodNotAllowed, "PUT adds a secret")
		return
	}
	var in struct {
		Path   string `json:"path"`
		Secret string `json:"secret"`
	}
	if !decode(w, req, &in) {
		return
	}
	if err := r.AddSecret(in.Path, in.Secret); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // our own types always encode; a reader that left is its own affair
}

func refuse(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, sentence+"\n")
}
