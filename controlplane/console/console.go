// Package console is the start page: it takes an API token from the address,
// shows whom it lets in, and lists the newest deliveries as they happen. It
// uses the public GraphQL API and nothing else.
package console

import (
	"embed"
	"net/http"
)

//go:embed index.html console.css console.js favicon.svg
var files embed.FS

// policy lets the page use nothing but its own files and the API beside it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at / and its files beside it.
func Handler() http.Handler {
	mux := http.NewServeMux()
	for _, f := range []struct{ pattern, file, kind string }{
		{"GET /{$}", "index.html", "text/html"},
		{"GET /console.css", "console.css", "text/css"},
		{"GET /console.js", "console.js", "text/javascript"},
		{"GET /favicon.svg", "favicon.svg", "image/svg+xml"},
	} {
		mux.HandleFunc(f.pattern, func(w http.ResponseWriter, r *http.Request) {
			content, err := files.ReadFile(f.file)
			if err != nil {
				http.NotFound(w, r)
				return
			}
			h := w.Header()
			h.Set("Content-Type", f.kind+"; charset=utf-8")
			h.Set("Content-Security-Policy", policy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			_, _ = w.Write(content) // a browser that has left needs no answer
		})
	}
	return mux
}
