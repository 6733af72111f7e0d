// Package graphiql serves the GraphiQL page from files of our own: nothing is
// fetched from elsewhere. vendor.sh fetches what is in assets/.
package graphiql

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed page.html page.css page.js assets/*.gz
var files embed.FS

// policy lets the page run its own scripts only. GraphiQL's editor sets styles
// at run time, and its style sheet holds fonts and pictures as data.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at /graphiql and its files below /graphiql/.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /graphiql", func(w http.ResponseWriter, r *http.Request) { serve(w, r, "page.html") })
	mux.HandleFunc("GET /graphiql/{file}", func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.PathValue("file"))
		if _, err := fs.Stat(files, "assets/"+name+".gz"); err == nil {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Cache-Control", "public, max-age=3600")
			name = "assets/" + name + ".gz"
		}
		serve(w, r, name)
	})
	return mux
}

func serve(w http.ResponseWriter, r *http.Request, name string) {
	content, err := files.ReadFile(name)
	if err != nil {
		w.Header().Del("Content-Encoding")
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
	w.Header().Set("Content-Type", kinds[path.Ext(strings.TrimSuffix(name, ".gz"))]+"; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(content) // a browser that has left needs no answer
}
