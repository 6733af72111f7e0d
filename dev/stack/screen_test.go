package stack

import (
	"net/http"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/dev/receiver"
)

func TestScreen_attempts(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out, "X-Lerian-")
	seen := func(path, typ string, status int) {
		header := http.Header{}
		header.Set("X-Lerian-Event-Type", typ)
		s.attempt(receiver.Observation{Path: path, Header: header, Verified: true, Status: status})
	}
	lines := func() int {
		n := strings.Count(out.String(), "\n")
		out.Reset()
		return n
	}
	t.Run("nothing_before_it_is_said_where_everything_is", func(t *testing.T) {
		seen("/a", "loan.paid", 200)
		seen("/a", "loan.paid", 500)
		if n := lines(); n != 0 {
			t.Errorf("%d lines", n)
		}
		s.ready(&Stack{})
		out.Reset()
	})
	t.Run("probes_are_not_shown", func(t *testing.T) {
		seen("/a", receiver.VerificationType, 200)
		if n := lines(); n != 0 {
			t.Errorf("%d lines", n)
		}
	})
	t.Run("deliveries_go_quiet", func(t *testing.T) {
		for range 3 * shownDeliveries {
			seen("/a", "loan.paid", 200)
		}
		if n := lines(); n != shownDeliveries+1 {
			t.Errorf("%d lines, want those of the first %d and what follows", n, shownDeliveries)
		}
	})
	t.Run("a_row_of_failures_goes_quiet_whatever_others_do", func(t *testing.T) {
		for range 3 * shownFailures {
			seen("/a", "loan.paid", 503)
			seen("/b", "loan.paid", 200)
		}
		if n := lines(); n != shownFailures+1 {
			t.Errorf("%d lines, want those of the first %d and what follows", n, shownFailures)
		}
	})
	t.Run("what_ends_the_row_is_shown", func(t *testing.T) {
		seen("/a", "loan.paid", 200)
		text := out.String()
		if n := lines(); n != 1 || !strings.HasPrefix(text, "delivered") {
			t.Errorf("%d lines: %s", n, text)
		}
	})
	t.Run("the_next_row_is_shown_again", func(t *testing.T) {
		seen("/a", "loan.paid", 500)
		if text := out.String(); !strings.Contains(text, "answered 500") {
			t.Errorf("shown: %q", text)
		}
	})
}

func TestRetryText(t *testing.T) {
	const name = "STREAMING_HUB_DEFAULT_RETRY_STEPS"
	for _, environ := range [][]string{nil, {"PATH=/bin"}, {name + "="}} {
		if got := retryText(environ); !strings.Contains(got, "within 5 minutes") {
			t.Errorf("with %q: %s", environ, got)
		}
	}
	if got := retryText([]string{"PATH=/bin", name + "=0s,1s"}); strings.Contains(got, "5 minutes") || !strings.Contains(got, "0s,1s") {
		t.Errorf("with steps that are set: %s", got)
	}
}
