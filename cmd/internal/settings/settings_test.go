package settings_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
)

func TestLoad(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "hub.env")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	conf := file("# production\n\nSTREAMING_HUB_DISPATCH_WORKERS=16\nSTREAMING_HUB_TENANT_ID = 'acme'\n")
	secretFile := file("postgres://u:p@h/d\n")
	program := settings.Program{Defaults: map[string]string{"HTTP_LISTEN_ADDR": "127.0.0.1:8080"}}

	for name, c := range map[string]struct {
		environ []string
		program settings.Program
		check   func(settings.Settings) any // what to compare with want
		want    any
		fails   []string // parts of the error
	}{
		"listen_address_without_a_port":     {environ: []string{"STREAMING_HUB_HTTP_LISTEN_ADDR=localhost"}, fails: []string{"HTTP_LISTEN_ADDR"}},
		"listen_port_too_large":             {environ: []string{"STREAMING_HUB_HTTP_LISTEN_ADDR=:65536"}, fails: []string{"65535"}},
		"listen_port_by_name":               {environ: []string{"STREAMING_HUB_HTTP_LISTEN_ADDR=:http"}, fails: []string{"HTTP_LISTEN_ADDR"}},
		"topic_prefix_with_a_space":         {environ: []string{"STREAMING_HUB_TOPIC_PREFIX=a b"}, fails: []string{"TOPIC_PREFIX"}},
		"topic_prefix_that_ends_with_a_dot": {environ: []string{"STREAMING_HUB_TOPIC_PREFIX=a."}, fails: []string{"TOPIC_PREFIX"}},
		"type_prefix_with_a_pattern":        {environ: []string{"STREAMING_HUB_TYPE_PREFIX=a.*"}, fails: []string{"TYPE_PREFIX"}},
		"header_prefix_with_a_colon":        {environ: []string{"STREAMING_HUB_HEADER_PREFIX=X Y:"}, fails: []string{"HEADER_PREFIX"}},
		"tenant_with_a_space":               {environ: []string{"STREAMING_HUB_TENANT_ID=a b"}, fails: []string{"TENANT_ID"}},
		"control_plane_url_of_a_script":     {environ: []string{"STREAMING_HUB_CONTROL_PLANE_URL=javascript:1"}, fails: []string{"http or https URL"}},
		"control_plane_url_with_a_user":     {environ: []string{"STREAMING_HUB_CONTROL_PLANE_URL=https://me@host"}, fails: []string{"CONTROL_PLANE_URL"}},
		"origin_with_a_path":                {environ: []string{"STREAMING_HUB_ALLOWED_ORIGINS=https://a.example,https://b.example/x"}, fails: []string{"https://b.example/x"}},
		"origin_that_is_a_star":             {environ: []string{"STREAMING_HUB_ALLOWED_ORIGINS=*"}, fails: []string{"ALLOWED_ORIGINS"}},
		"one_tenant_without_its_name":       {environ: []string{"STREAMING_HUB_MULTI_TENANT_ENABLED=false"}, fails: []string{"TENANT_ID"}},
		"spread_longer_than_the_window": {
			environ: []string{"STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW=1h", "STREAMING_HUB_AUTODISABLE_FAILURE_SPREAD=61m"}, fails: []string{"1h1m", "1h"},
		},
		"spread_as_long_as_the_window": {
			environ: []string{"STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW=1h", "STREAMING_HUB_AUTODISABLE_FAILURE_SPREAD=60m"},
			check:   func(s settings.Settings) any { return s.AutodisableFailureSpread }, want: time.Hour,
		},
		"forms_that_are_fine": {
			environ: []string{
				"STREAMING_HUB_HTTP_LISTEN_ADDR=:0", "STREAMING_HUB_TOPIC_PREFIX=acme", "STREAMING_HUB_TYPE_PREFIX=com.acme_2", "STREAMING_HUB_HEADER_PREFIX=X-Acme-",
				"STREAMING_HUB_MULTI_TENANT_ENABLED=false", "STREAMING_HUB_TENANT_ID=acme_1", "STREAMING_HUB_CONTROL_PLANE_URL=https://hub.example/console",
				"STREAMING_HUB_ALLOWED_ORIGINS=https://a.example, http://localhost:3000",
			},
			check: func(s settings.Settings) any { return s.AllowedOrigins }, want: []string{"https://a.example", "http://localhost:3000"},
		},
		"keys_that_are_none_are_not_repeated": {
			environ: []string{"STREAMING_HUB_KEK_KEYS=k1:c2hvcnQ="}, fails: []string{"KEK_KEYS"},
		},
		"default_when_nothing_is_set": {
			check: func(s settings.Settings) any { return s.DispatchWorkers }, want: 8,
		},
		"defaults_of_durations_and_lists": {
			check: func(s settings.Settings) any {
				return []any{s.AutodisableFailureWindow, s.DLQRetention, len(s.DefaultRetrySteps), s.MaxBodyBytes, s.AutodisableEnabled}
			},
			want: []any{120 * time.Hour, 168 * time.Hour, 0, 1048576, true},
		},
		"program_has_its_own_default": {
			program: program,
			check:   func(s settings.Settings) any { return s.HTTPListenAddr }, want: "127.0.0.1:8080",
		},
		"file_outranks_default": {
			environ: []string{"STREAMING_HUB_CONFIG_FILE=" + conf},
			check:   func(s settings.Settings) any { return []any{s.DispatchWorkers, s.TenantID} }, want: []any{16, "acme"},
		},
		"environment_outranks_file": {
			environ: []string{"STREAMING_HUB_CONFIG_FILE=" + conf, "STREAMING_HUB_DISPATCH_WORKERS=32"},
			check:   func(s settings.Settings) any { return s.DispatchWorkers }, want: 32,
		},
		"empty_counts_as_absent": {
			environ: []string{"STREAMING_HUB_CONFIG_FILE=" + conf, "STREAMING_HUB_DISPATCH_WORKERS="},
			check:   func(s settings.Settings) any { return s.DispatchWorkers }, want: 16,
		},
		"lists_are_cut_at_commas": {
			environ: []string{"STREAMING_HUB_KAFKA_BROKERS=a:1, b:2,", "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,50ms,1m"},
			check: func(s settings.Settings) any {
				return []any{s.KafkaBrokers, s.DefaultRetrySteps}
			},
			want: []any{[]string{"a:1", "b:2"}, []time.Duration{0, 50 * time.Millisecond, time.Minute}},
		},
		"secret_from_its_own_file": {
			environ: []string{"STREAMING_HUB_POSTGRES_DSN_FILE=" + secretFile},
			check:   func(s settings.Settings) any { return string(s.PostgresDSN.Reveal()) }, want: "postgres://u:p@h/d",
		},
		"secret_given_twice_is_refused": {
			environ: []string{"STREAMING_HUB_POSTGRES_DSN_FILE=" + secretFile, "STREAMING_HUB_POSTGRES_DSN=postgres://other"},
			fails:   []string{"STREAMING_HUB_POSTGRES_DSN", "given twice"},
		},
		"only_secrets_are_read_from_files": {
			environ: []string{"STREAMING_HUB_ROLE_FILE=/x"},
			fails:   []string{"STREAMING_HUB_ROLE_FILE", "only secrets"},
		},
		"unknown_name_is_refused_with_the_nearest": {
			environ: []string{"STREAMING_HUB_DISPATCH_WORKER=3"},
			fails:   []string{"STREAMING_HUB_DISPATCH_WORKER ", "did you mean STREAMING_HUB_DISPATCH_WORKERS?"},
		},
		"unknown_name_without_a_near_one": {
			environ: []string{"STREAMING_HUB_QQQQQQQQQQQQ=3"},
			fails:   []string{"STREAMING_HUB_QQQQQQQQQQQQ (from the environment) is no setting"},
		},
		"unknown_name_in_the_file": {
			environ: []string{"STREAMING_HUB_CONFIG_FILE=" + file("STREAMING_HUB_ROEL=all\n")},
			fails:   []string{"ROEL", "from the file", "did you mean STREAMING_HUB_ROLE?"},
		},
		"line_that_is_no_setting": {
			environ: []string{"STREAMING_HUB_CONFIG_FILE=" + file("\nrole: all\n")},
			fails:   []string{"line 2"},
		},
		"name_twice_in_the_file": {
			environ: []string{"STREAMING_HUB_CONFIG_FILE=" + file("STREAMING_HUB_ROLE=all\nSTREAMING_HUB_ROLE=ingest\n")},
			fails:   []string{"line 2", "second time"},
		},
		"test_names_and_other_programs_are_left_alone": {
			environ: []string{"STREAMING_HUB_TEST_POSTGRES_DSN=x", "STREAMING=1", "PATH=/bin"},
			check:   func(s settings.Settings) any { return s.Role }, want: settings.RoleAll,
		},
		"standard_variables_count_where_ours_is_absent": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318/", "OTEL_EXPORTER_OTLP_HEADERS=key=general", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=key=traces"},
			check:   otlp, want: []string{"http://collector:4318/v1/traces", "key=traces", ""},
		},
		"standard_variable_for_traces_is_taken_as_it_is": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://traces:4318/x"},
			check:   otlp, want: []string{"http://traces:4318/x", "", ""},
		},
		"our_name_outranks_the_standard_one": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "STREAMING_HUB_OTLP_ENDPOINT=http://ours:4318"},
			check:   otlp, want: []string{"http://ours:4318", "", ""},
		},
		"standard_endpoint_for_grpc_is_refused": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
			check:   otlp, want: []string{"http://collector:4317/v1/traces", "", "OTEL_EXPORTER_OTLP_PROTOCOL asks for grpc, and the hub speaks OTLP over HTTP only: name such an endpoint in STREAMING_HUB_OTLP_ENDPOINT, or set OTEL_TRACES_EXPORTER=none"},
		},
		"standard_endpoint_without_a_protocol_is_for_http": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
			check:   otlp, want: []string{"http://collector:4318/v1/traces", "", ""},
		},
		"standard_variables_switch_traces_off": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_TRACES_EXPORTER=none"},
			check:   otlp, want: []string{"", "", ""},
		},
		"standard_variables_switch_everything_off": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_SDK_DISABLED=True"},
			check:   otlp, want: []string{"", "", ""},
		},
		"share": {
			environ: []string{"STREAMING_HUB_TRACE_SAMPLE_RATIO=0.25"},
			check:   func(s settings.Settings) any { return s.TraceSampleRatio }, want: 0.25,
		},
		"share_beyond_its_range":  {environ: []string{"STREAMING_HUB_TRACE_SAMPLE_RATIO=1.01"}, fails: []string{"from 0 to 1"}},
		"share_that_is_no_number": {environ: []string{"STREAMING_HUB_TRACE_SAMPLE_RATIO=NaN"}, fails: []string{"from 0 to 1"}},
		"every_fault_is_named_at_once": {
			environ: []string{"STREAMING_HUB_ROLE=both", "STREAMING_HUB_DISPATCH_WORKERS=0", "STREAMING_HUB_DISPATCH_LEASE=soon",
				"STREAMING_HUB_AUTODISABLE_ENABLED=maybe", "STREAMING_HUB_DEFAULT_RETRY_STEPS=11h"},
			fails: []string{"all, ingest, delivery", "from 1 to 4096", "from 2s to 10m", "true or false", "each at most 10h"},
		},
		"required_and_missing": {
			program: settings.Program{Required: []string{"POSTGRES_DSN"}},
			fails:   []string{"STREAMING_HUB_POSTGRES_DSN is needed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := settings.Load(c.program, c.environ)
			if (err != nil) != (len(c.fails) > 0) {
				t.Fatalf("error = %v", err)
			}
			for _, part := range c.fails {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if c.check != nil {
				if diff := cmp.Diff(c.want, c.check(got)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// otlp is where traces go, with which headers, and why that is refused.
func otlp(s settings.Settings) any {
	refused := ""
	if err := s.OTLP.Check(); err != nil {
		refused = err.Error()
	}
	return []string{s.OTLP.Endpoint, string(s.OTLP.Headers.Reveal()), refused}
}

func TestSecretsStayOutOfSight(t *testing.T) {
	password := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("hunter2!"), 4))
	environ := []string{"STREAMING_HUB_POSTGRES_DSN=postgres://u:" + password + "@h/d", "STREAMING_HUB_KEK_KEYS=k1:" + password, "OTEL_EXPORTER_OTLP_HEADERS=key=" + password}
	s, err := settings.Load(settings.Program{}, environ)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := settings.List(settings.Program{}, environ)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "dsn", s.PostgresDSN, "all", s)
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s.KEKKeys, s.KEKKeys, s.KEKKeys), fmt.Sprint(lines), log.String(), string(asJSON)} {
		if strings.Contains(printed, password) || strings.Contains(printed, fmt.Sprintf("%x", password)) {
			t.Errorf("a secret shows in %s", printed)
		}
	}
}

// An error about a secret says what is wrong with it and nothing of it.
func TestSecretsStayOutOfErrors(t *testing.T) {
	for _, bad := range []string{"hunter2hunter2", "k1:hunter2hunter2", "k1:aHVudGVyMmh1bnRlcjI="} {
		_, err := settings.Load(settings.Program{}, []string{"STREAMING_HUB_KEK_KEYS=" + bad})
		if err == nil || strings.Contains(err.Error(), "unter2") || strings.Contains(err.Error(), "aHVu") {
			t.Errorf("error = %v", err)
		}
	}
}

func TestMarkdown(t *testing.T) {
	text := settings.Markdown()
	lines, err := settings.List(settings.Program{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if l.Help == "" || l.Kind == "" {
			t.Errorf("%s has no description", l.Name)
		}
		if !strings.Contains(text, "`"+l.Name+"`") {
			t.Errorf("%s is not documented", l.Name)
		}
	}
}
