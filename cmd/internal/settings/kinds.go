package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// setting is one declaration: what `hub settings` says about it and how its
// value gets into the struct.
type setting struct {
	name    string // without the prefix
	kind    string
	allowed string // range with unit, or choices
	def     string
	help    string
	secret  bool
	parse   func(string) error
	// elsewhere is the value that a standard variable gives it, and which one;
	// it counts in place of the default.
	elsewhere func(standard) (value, name string)
}

// or is the setting, with a standard variable in place of its default.
func (d setting) or(elsewhere func(standard) (value, name string)) setting {
	d.elsewhere = elsewhere
	return d
}

// value is what counts for the setting, and where it comes from.
func (d setting) value(all map[string]given) (value, origin string, err error) {
	g, file := all[d.name], all[d.name+fileSuffix]
	if !d.secret || file.value == "" {
		if g.value == "" {
			return d.def, "default", nil
		}
		return g.value, g.origin, nil
	}
	if g.value != "" {
		return "", g.origin, fmt.Errorf("is given twice, also by %s%s%s", Prefix, d.name, fileSuffix)
	}
	text, err := os.ReadFile(file.value)
	if err != nil {
		return "", file.origin, fmt.Errorf("cannot be read: %w", err)
	}
	return strings.TrimSpace(string(text)), "file " + file.value, nil
}

// unknown says which given names no setting has, with the nearest one.
func unknown(rest map[string]given, table []setting) []string {
	var faults []string
	for name, g := range rest {
		fault := fmt.Sprintf("%s%s (from the %s) is no setting", Prefix, name, g.origin)
		plain := strings.TrimSuffix(name, fileSuffix)
		isPlain := func(d setting) bool { return d.name == plain }
		if i := slices.IndexFunc(table, isPlain); i >= 0 && plain != name {
			fault = fmt.Sprintf("%s%s (from the %s): only secrets are read from files, and %s%s is none", Prefix, name, g.origin, Prefix, plain)
		} else if near := nearest(name, table); near != "" {
			fault += fmt.Sprintf(", did you mean %s%s?", Prefix, near)
		}
		faults = append(faults, fault)
	}
	sort.Strings(faults)
	return faults
}

// nearest is the name that a typing error most likely meant, "" when none is
// closer than two letters or a third of its length.
func nearest(name string, table []setting) string {
	best, bestAt := "", max(2, len(name)/3)+1
	for _, d := range table {
		if at := levenshtein.ComputeDistance(name, d.name); at < bestAt {
			best, bestAt = d.name, at
		}
	}
	return best
}

func text(p *string, name, def, help string) setting {
	return setting{name: name, kind: "text", def: def, help: help, parse: func(v string) error {
		*p = v
		return nil
	}}
}

func hidden(p *secret.Secret, name, allowed, help string) setting {
	return setting{name: name, kind: "secret", allowed: allowed, help: help, secret: true, parse: func(v string) error {
		*p = secret.New([]byte(v))
		return nil
	}}
}

func choice[T ~string](p *T, name string, def T, choices []T, help string) setting {
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = string(c)
	}
	return setting{name: name, kind: "choice", allowed: strings.Join(words, " | "), def: string(def), help: help, parse: func(v string) error {
		if !slices.Contains(choices, T(v)) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		*p = T(v)
		return nil
	}}
}

func yesNo(p *bool, name string, def bool, help string) setting {
	return setting{name: name, kind: "bool", allowed: "true | false", def: strconv.FormatBool(def), help: help, parse: func(v string) (err error) {
		if *p, err = strconv.ParseBool(v); err != nil {
			return errors.New("must be true or false")
		}
		return nil
	}}
}

func number(p *int, name string, def, low, high int, unit, help string) setting {
	allowed := fmt.Sprintf("%d–%d %s", low, high, unit)
	return setting{name: name, kind: "number", allowed: allowed, def: strconv.Itoa(def), help: help, parse: func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("must be a whole number of %s from %d to %d", unit, low, high)
		}
		*p = n
		return nil
	}}
}

func share(p *float64, name, def, help string) setting {
	return setting{name: name, kind: "share", allowed: "0–1", def: def, help: help, parse: func(v string) error {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !(0 <= x && x <= 1) {
			return errors.New("must be a number from 0 to 1")
		}
		*p = x
		return nil
	}}
}

func duration(p *time.Duration, name string, def, low, high time.Duration, help string) setting {
	allowed := plain(low) + "–" + plain(high)
	return setting{name: name, kind: "duration", allowed: allowed, def: plain(def), help: help, parse: func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < low || d > high {
			return fmt.Errorf("must be a duration such as 90s or 12h, from %s to %s", plain(low), plain(high))
		}
		*p = d
		return nil
	}}
}

func list(p *[]string, name, def, allowed, help string) setting {
	return setting{name: name, kind: "list", allowed: allowed, def: def, help: help, parse: func(v string) error {
		*p = split(v)
		return nil
	}}
}

func durations(p *[]time.Duration, name string, most int, high time.Duration, help string) setting {
	allowed := fmt.Sprintf("at most %d, each 0s–%s", most, plain(high))
	return setting{name: name, kind: "list of durations", allowed: allowed, help: help, parse: func(v string) error {
		parts := split(v)
		if len(parts) > most {
			return fmt.Errorf("must have at most %d durations", most)
		}
		for _, part := range parts {
			d, err := time.ParseDuration(part)
			if err != nil || d < 0 || d > high {
				return fmt.Errorf("must be durations such as 0s,1s,5m, each at most %s", plain(high))
			}
			*p = append(*p, d)
		}
		return nil
	}}
}

// split cuts at commas and drops what is empty.
func split(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// plain is a duration without zero parts: 120h, not 120h0m0s.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
