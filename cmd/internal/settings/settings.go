// Package settings reads what an operator can set. Every setting has one
// declaration, in table.go, and that table drives reading, checking, the list
// that `hub settings` prints and the documentation.
//
// A value comes from the environment (STREAMING_HUB_<NAME>), else from the
// file that STREAMING_HUB_CONFIG_FILE names, else it is the default. An empty
// value counts as absent. Secrets may also stand in a file of their own, named
// by STREAMING_HUB_<NAME>_FILE. A few settings have a standard variable, which
// counts in place of the default. A name with our prefix that no setting has is
// refused, since a misspelt setting that is silently ignored costs a night.
package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Prefix of the names in the environment and in the file.
const Prefix = "STREAMING_HUB_"

const (
	configFile = "CONFIG_FILE"
	fileSuffix = "_FILE"
	// testPrefix is left to test programs, which run beside a real
	// environment.
	testPrefix = "TEST_"
)

// Role says which part of its work a data plane process does.
type Role string

const (
	RoleAll      Role = "all"
	RoleIngest   Role = "ingest"
	RoleDelivery Role = "delivery"
)

// Settings are the values of one program; table.go says what each means.
type Settings struct {
	Role            Role
	HTTPListenAddr  string
	ShutdownTimeout time.Duration
	LogFormat       string
	LogLevel        string
	ProfilesEnabled bool

	PostgresDSN     secret.Secret
	KafkaBrokers    []string
	KafkaSCRAM      SCRAM
	KafkaTLSEnabled bool
	ConsumerGroup   string

	TopicPrefix        string
	TypePrefix         string
	HeaderPrefix       string
	MultiTenantEnabled bool
	TenantID           string
	MaxBodyBytes       int
	IngestBatch        int

	DispatchWorkers           int
	DispatchLease             time.Duration
	DispatchUnwrittenOutcomes int
	PoisonThreshold           int
	DefaultRetrySteps         []time.Duration
	AllowPrivateSinks         bool
	KEKKeys                   secret.Secret

	AutodisableEnabled       bool
	EventRetention           time.Duration
	AutodisableFailureWindow time.Duration
	AutodisableFailureSpread time.Duration

	PullRate       int
	PullBurst      int
	DLQRetention   time.Duration
	IdempotencyTTL time.Duration

	OIDC OIDC

	OTLP             OTLP
	TraceSampleRatio float64

	ControlPlaneURL string
	AllowedOrigins  []string
}

// SCRAM is how to log in to Kafka; without a username there is no login.
type SCRAM struct {
	Username  string
	Password  secret.Secret
	Mechanism string // SCRAM-SHA-256 or SCRAM-SHA-512
}

// OIDC is how people log in by an OpenID Connect issuer; without an issuer they
// cannot.
type OIDC struct {
	Issuer, Audience       string
	TenantClaim, RoleClaim string
	PlatformValue          string
}

// Program is what a program adds to the table.
type Program struct {
	// Defaults by setting name, without the prefix, in place of the table's.
	Defaults map[string]string
	// Required names settings that may not be empty.
	Required []string
}

// Load reads the settings of a program from environ (os.Environ form). The
// error names every fault at once.
func Load(p Program, environ []string) (Settings, error) {
	s, _, err := load(p, environ)
	return s, err
}

func load(p Program, environ []string) (Settings, []Line, error) {
	given, err := gather(environ)
	if err != nil {
		return Settings{}, nil, err
	}
	var (
		s      Settings
		lines  []Line
		faults []string
	)
	others := standardOf(environ)
	for _, d := range s.table() {
		if v, ok := p.Defaults[d.name]; ok {
			d.def = v
		}
		value, origin, err := d.value(given)
		if err == nil && origin == "default" && d.elsewhere != nil {
			if v, name := d.elsewhere(others); v != "" {
				value, origin = v, "environment ("+name+")"
			}
		}
		if err == nil && value != "" {
			err = d.parse(value)
		}
		if err != nil {
			if d.secret {
				faults = append(faults, fmt.Sprintf("%s%s (from the %s) %v", Prefix, d.name, origin, err))
			} else {
				faults = append(faults, fmt.Sprintf("%s%s=%q (from the %s) %v", Prefix, d.name, value, origin, err))
			}
		}
		lines = append(lines, d.line(value, origin))
		delete(given, d.name)
		if d.secret {
			delete(given, d.name+fileSuffix)
		}
	}
	for _, name := range p.Required {
		for _, l := range lines {
			if l.Name == Prefix+name && l.Value == "" {
				faults = append(faults, l.Name+" is needed and not set")
			}
		}
	}
	faults = append(faults, unknown(given, s.table())...)
	if len(faults) == 0 {
		faults = s.contradictions()
	}
	if len(faults) > 0 {
		return Settings{}, nil, errors.New(strings.Join(faults, "; "))
	}
	return s, lines, nil
}

// given is one value as the operator gave it.
type given struct {
	value  string
	origin string
}

// gather merges the environment over the file, by names without the prefix.
func gather(environ []string) (map[string]given, error) {
	env := map[string]given{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(name, Prefix)
		if ours && !strings.HasPrefix(name, testPrefix) {
			env[name] = given{value: value, origin: "environment"}
		}
	}
	path := env[configFile].value
	delete(env, configFile)
	if path == "" {
		return env, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the settings file: %w", err)
	}
	all, err := parseFile(path, string(text))
	if err != nil {
		return nil, err
	}
	for name, g := range env {
		if g.value == "" {
			if _, ok := all[name]; ok {
				continue
			}
		}
		all[name] = g
	}
	return all, nil
}

// parseFile reads lines of NAME=VALUE with the names of the environment.
// Blank lines and those that begin with # are skipped; a value may stand in
// matching quotes.
func parseFile(path, text string) (map[string]given, error) {
	out := map[string]given{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, ours := strings.CutPrefix(strings.TrimSpace(name), Prefix)
		if !ok || !ours || name == configFile {
			return nil, fmt.Errorf("%s line %d is not of the form %sNAME=VALUE", path, n, Prefix)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s line %d sets %s%s a second time", path, n, Prefix, name)
		}
		out[name] = given{value: unquote(strings.TrimSpace(value)), origin: "file " + path}
	}
	return out, nil
}

func unquote(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}
