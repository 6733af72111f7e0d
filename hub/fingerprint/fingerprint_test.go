package fingerprint_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/fingerprint"
)

func TestOf(t *testing.T) {
	base := fingerprint.Cause{
		Destination: hub.DestinationID{ID: hub.ID{1}}, Phase: hub.PhaseAnswer, Class: hub.ErrStatus, Status: 500,
		Body: `{"error":"order 4711 not found","trace":"0af7651916cd43dd8448eb211c80319c"}`,
	}
	for _, row := range []struct {
		name   string
		change func(c *fingerprint.Cause)
		same   bool
	}{
		{"nothing_changed", func(*fingerprint.Cause) {}, true},
		{"other_number_and_trace", func(c *fingerprint.Cause) {
			c.Body = `{"error":"order 12 not found","trace":"b7ad6b7169203331b9c7d6e8f0a1b2c3"}`
		}, true},
		{"other_case_and_white_space", func(c *fingerprint.Cause) { c.Body = strings.ToUpper(strings.ReplaceAll(c.Body, " ", "\n\t ")) }, true},
		{"other_words", func(c *fingerprint.Cause) { c.Body = `{"error":"order 4711 not paid","trace":"1"}` }, false},
		{"other_destination", func(c *fingerprint.Cause) { c.Destination.ID[0] = 2 }, false},
		{"other_phase", func(c *fingerprint.Cause) { c.Phase = hub.PhaseTLS }, false},
		{"other_class", func(c *fingerprint.Cause) { c.Class = hub.ErrReset }, false},
		{"other_status", func(c *fingerprint.Cause) { c.Status = 502 }, false},
		{"other_reason", func(c *fingerprint.Cause) { c.Reason = hub.DeadPoison }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := base
			row.change(&c)
			one, two := fingerprint.Of(base), fingerprint.Of(c)
			if len(one) != fingerprint.Size || bytes.Equal(one, two) != row.same {
				t.Errorf("%x and %x, want the same: %v", one, two, row.same)
			}
		})
	}
}

func TestNormalise(t *testing.T) {
	for _, row := range []struct{ name, body, want string }{
		{"empty", "", ""},
		{"only_white_space", " \r\n\t", ""},
		{"numbers_and_ids", "Order 4711 at 2026-11-30T01:02:03Z id=ab12-34", "order # at #:#:# id=#"},
		{"bytes_beyond_ascii_stay", "café 7", "café #"},
		{"the_beginning_counts", strings.Repeat("x ", 400), strings.TrimSpace(strings.Repeat("x ", 128))},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := fingerprint.Normalise(row.body); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}
