package outage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary is a book whose log is read without times.
func diary() (*Book, *bytes.Buffer) {
	var out bytes.Buffer
	return New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))), &out
}

var errAway = errors.New("away")

func TestBook(t *testing.T) {
	for name, c := range map[string]struct {
		tries []error
		want  []string
	}{
		"success_says_nothing":   {[]error{nil, nil}, nil},
		"failure_is_said_once":   {[]error{errAway, errAway, errors.New("another")}, []string{`level=WARN msg="cannot claim; trying again" error=away lane=7`}},
		"its_end_is_said_once":   {[]error{errAway, nil, nil}, []string{`level=WARN msg="cannot claim; trying again" error=away lane=7`, `level=INFO msg="can claim again" after=1s`}},
		"a_new_one_is_said_anew": {[]error{errAway, nil, errAway}, []string{"WARN", "INFO", "WARN"}},
		"a_stop_is_no_outage":    {[]error{context.Canceled, fmt.Errorf("claim: %w", context.Canceled)}, nil},
		"a_stop_ends_none":       {[]error{errAway, context.Canceled, errAway}, []string{"WARN"}},
		"lateness_is_one":        {[]error{context.DeadlineExceeded}, []string{"WARN"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, out := diary()
				for _, err := range c.tries {
					if got := b.Failed("claim", err, "lane", 7); got != (err != nil) {
						t.Errorf("Failed(%v) = %t", err, got)
					}
					time.Sleep(time.Second)
				}
				lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
				if out.Len() == 0 {
					lines = nil
				}
				if len(lines) != len(c.want) {
					t.Fatalf("log:\n%s", out)
				}
				for i, want := range c.want {
					if !strings.Contains(lines[i], want) {
						t.Errorf("line %d is %q, want %q", i, lines[i], want)
					}
				}
			})
		})
	}
}

func TestBook_things_are_told_apart(t *testing.T) {
	b, out := diary()
	b.Failed("claim", errAway)
	b.Failed("read", errAway)
	b.Failed("read", nil)
	b.Failed("claim", errAway)
	if got := strings.Count(out.String(), "\n"); got != 3 || strings.Contains(out.String(), "can claim again") {
		t.Errorf("log:\n%s", out)
	}
}

func TestBook_many_at_once(t *testing.T) {
	b, out := diary()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 1000 {
				b.Failed("claim", errAway)
			}
		})
	}
	all.Wait()
	if got := strings.Count(out.String(), "\n"); got != 1 {
		t.Errorf("%d lines", got)
	}
}

func TestBook_success_costs_nothing(t *testing.T) {
	b, _ := diary()
	if n := testing.AllocsPerRun(100, func() { b.Failed("claim", nil) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
