package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func TestSecret_prints_redacted_in_every_formatter(t *testing.T) {
	const clear = "sup3rsecretvalue"
	s := secret.New([]byte(clear))
	type holder struct {
		Public  secret.Secret
		private secret.Secret
		List    []secret.Secret
		Map     map[string]secret.Secret
		Pointer *secret.Secret
		Any     any
	}
	h := holder{s, s, []secret.Secret{s}, map[string]secret.Secret{"k": s}, &s, s}

	var out bytes.Buffer
	for _, v := range []any{s, &s, h, &h, []any{s}, struct{ inner holder }{h}, fmt.Errorf("key %v: %w", s, fmt.Errorf("%s", s))} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%c", "%U", "%t", "%e", "%20v", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, v)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		for _, logger := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
			logger.Info("a secret", "value", v)
		}
	}
	bytesOf := func(format string, sep string) string {
		parts := make([]string, len(clear))
		for i := range clear {
			parts[i] = fmt.Sprintf(format, clear[i])
		}
		return strings.Join(parts, sep)
	}
	for _, leak := range []string{clear, bytesOf("%d", " "), bytesOf("%d", ", "), bytesOf("%#x", ", "), bytesOf("%x", ""), bytesOf("%X", ""), bytesOf("%b", " ")} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("the output holds %q", leak)
		}
	}
	if got := fmt.Sprintf("%v|%s|%#v|%q", s, s, s, s); got != "[REDACTED]|[REDACTED]|[REDACTED]|[REDACTED]" {
		t.Error(got)
	}
	if string(s.Reveal()) != clear {
		t.Error("Reveal lost the secret")
	}
}

func TestSecret_Equal(t *testing.T) {
	a, b, c := secret.New([]byte("a")), secret.New([]byte("a")), secret.New([]byte("b"))
	if !a.Equal(b) || a.Equal(c) || a.Equal(secret.Secret{}) || !(secret.Secret{}).IsZero() || a.IsZero() {
		t.Error("secrets compare wrongly")
	}
}

func TestParseSigning(t *testing.T) {
	const ok = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	s, err := secret.ParseSigning(ok)
	if err != nil || string(s.Reveal()) != "0123456789abcdef0123456789abcdef" || secret.SigningText(s) != ok {
		t.Fatalf("%q, %v", s.Reveal(), err)
	}
	key := func(n int) string { return secret.SigningText(secret.New(bytes.Repeat([]byte{0xfb}, n))) }
	for _, row := range []struct {
		rule, text string
		ok         bool
	}{
		{"24_bytes", key(24), true},
		{"23_bytes", key(23), false},
		{"64_bytes", key(64), true},
		{"65_bytes", key(65), false},
		{"8_bytes", key(8), false},
		{"empty", "", false},
		{"empty_after_prefix", "whsec_", false},
		{"no_base64", "whsec_!!!", false},
		{"with_version", "v1," + ok, false},
		{"unprefixed", strings.TrimPrefix(ok, "whsec_"), false},
		{"upper_case_prefix", "WHSEC_" + strings.TrimPrefix(ok, "whsec_"), false},
		{"line_end", ok + "\n", false},
		{"line_end_inside", ok[:20] + "\n" + ok[20:], false},
		{"leading_space", " " + ok, false},
		{"url_safe", strings.NewReplacer("+", "-", "/", "_").Replace(key(32)), false},
		{"no_padding", strings.TrimRight(ok, "="), false},
		{"stray_bits", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWZ=", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			_, err := secret.ParseSigning(row.text)
			if (err == nil) != row.ok {
				t.Fatalf("ParseSigning = %v", err)
			}
			if err != nil && len(row.text) > 20 && strings.Contains(err.Error(), row.text[10:18]) {
				t.Errorf("the error repeats the secret: %v", err)
			}
		})
	}
}

func TestParseSigning_says_what_belongs_before_whsec(t *testing.T) {
	if _, err := secret.ParseSigning("v1,whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="); err == nil || !strings.Contains(err.Error(), "v1, which belongs to signatures") {
		t.Error(err)
	}
}

func TestNewSigning(t *testing.T) {
	text, s := secret.NewSigning(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	again, err := secret.ParseSigning(text)
	if err != nil || !again.Equal(s) || len(s.Reveal()) != 32 {
		t.Errorf("%v", err)
	}
}
