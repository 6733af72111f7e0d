package settings

import (
	"fmt"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// OTLP is where traces go; without an endpoint there are none.
type OTLP struct {
	Endpoint string
	Headers  secret.Secret
	// protocol is what the standard variables ask for, when the endpoint comes
	// from them.
	protocol string
}

// Check refuses an endpoint that is meant for gRPC: traces sent there would be
// lost.
func (o OTLP) Check() error {
	if o.protocol != "grpc" {
		return nil
	}
	return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL asks for grpc, and the hub speaks OTLP over HTTP only: "+
		"name such an endpoint in %sOTLP_ENDPOINT, or set OTEL_TRACES_EXPORTER=none", Prefix)
}

// standard are OpenTelemetry's own variables, which count where ours is absent:
// many platforms set them for all programs.
type standard map[string]string

func standardOf(environ []string) standard {
	all := standard{}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OTEL_") && value != "" {
			all[name] = value
		}
	}
	return all
}

// first is the value of the first of the names that is given.
func (all standard) first(names ...string) (value, name string) {
	for _, name := range names {
		if value := all[name]; value != "" {
			return value, name
		}
	}
	return "", ""
}

// endpoint is where the standard variables send traces, if they do. The
// general one names a base, below which traces have their path.
func (o *OTLP) endpoint(all standard) (value, name string) {
	if strings.EqualFold(all["OTEL_SDK_DISABLED"], "true") || all["OTEL_TRACES_EXPORTER"] == "none" {
		return "", ""
	}
	value, name = all.first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if value != "" {
		o.protocol, _ = all.first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		value = strings.TrimRight(value, "/") + "/v1/traces"
	}
	return value, name
}

func (o *OTLP) headers(all standard) (value, name string) {
	return all.first("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
}
