package settings

import (
	"fmt"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Line is what `hub settings` says about one setting.
type Line struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Allowed string `json:"allowed,omitempty"`
	Default string `json:"default"`
	Value   string `json:"value"` // redacted when it is a secret
	Origin  string `json:"origin"`
	Help    string `json:"help"`
}

func (d setting) line(value, origin string) Line {
	if d.secret && value != "" {
		value = secret.New(nil).String()
	}
	return Line{Name: Prefix + d.name, Kind: d.kind, Allowed: d.allowed, Default: d.def, Value: value, Origin: origin, Help: d.help}
}

// List describes every setting with its value for this environment.
func List(p Program, environ []string) ([]Line, error) {
	_, lines, err := load(p, environ)
	return lines, err
}

// Markdown is the documentation's table of all settings.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| Setting | Kind | Allowed | Default | Meaning |\n| --- | --- | --- | --- | --- |\n")
	var s Settings
	for _, d := range s.table() {
		def := "(empty)"
		if d.def != "" {
			def = "`" + d.def + "`"
		}
		name := "`" + Prefix + d.name + "`"
		if d.secret {
			name += ", `" + Prefix + d.name + fileSuffix + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, d.kind, strings.ReplaceAll(d.allowed, "|", `\|`), def, d.help)
	}
	return b.String()
}
