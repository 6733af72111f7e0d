package signing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// written is keys as versions with their ends in hours from now: "3 2@24".
func written(keys []hub.SigningKey, now time.Time) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprint(k.Version)
		if !k.EndsAt.IsZero() {
			parts[i] += fmt.Sprintf("@%g", k.EndsAt.Sub(now).Hours())
		}
	}
	return strings.Join(parts, " ")
}

func key(version int32, now time.Time, ends ...time.Duration) hub.SigningKey {
	k := hub.SigningKey{Version: version, CreatedAt: now.Add(-time.Hour)}
	for _, end := range ends {
		k.EndsAt = now.Add(end)
	}
	return k
}

func TestRotate(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const h = time.Hour
	for _, row := range []struct {
		rule    string
		keys    []hub.SigningKey
		overlap time.Duration
		want    string
	}{
		{"first_key", nil, 24 * h, "1"},
		{"previous_key_overlaps", []hub.SigningKey{key(1, now)}, 24 * h, "2 1@24"},
		{"no_overlap_ends_the_previous_at_once", []hub.SigningKey{key(1, now)}, 0, "2"},
		{"second_rotation_inside_the_overlap_keeps_the_older_end", []hub.SigningKey{key(2, now), key(1, now, 3*h)}, 24 * h, "3 2@24 1@3"},
		{"each_rotation_sets_the_previous_end_anew", []hub.SigningKey{key(2, now), key(1, now, -h)}, 24 * h, "3 2@24"},
		{"at_most_two_old_keys_the_oldest_ends", []hub.SigningKey{key(3, now), key(2, now, 5*h), key(1, now, 20*h)}, 24 * h, "4 3@24 2@5"},
		{"order_of_what_is_given_does_not_matter", []hub.SigningKey{key(1, now, 20*h), key(3, now), key(2, now, 5*h)}, 24 * h, "4 3@24 2@5"},
		{"a_key_that_ends_now_has_ended", []hub.SigningKey{key(2, now), key(1, now, 0)}, h, "3 2@1"},
		{"versions_of_ended_keys_are_not_used_again", []hub.SigningKey{key(7, now, -h)}, h, "8"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got := signing.Rotate(row.keys, now, row.overlap)
			if w := written(got, now); w != row.want {
				t.Errorf("keys %s, want %s", w, row.want)
			}
			if !got[0].CreatedAt.Equal(now) {
				t.Errorf("the new key was made at %s", got[0].CreatedAt)
			}
		})
	}
}

func TestRevoke(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const h = time.Hour
	three := []hub.SigningKey{key(3, now), key(2, now, 5*h), key(1, now, h)}
	for _, row := range []struct {
		rule    string
		keys    []hub.SigningKey
		version int32
		want    string
		found   bool
	}{
		{"old_key_leaves_the_others", three, 2, "3 1@1", true},
		{"current_key_is_followed_by_a_new_one", three, 3, "4 2@5 1@1", true},
		{"only_key_is_followed_by_a_new_one", []hub.SigningKey{key(1, now)}, 1, "2", true},
		{"unknown_version_changes_nothing", three, 4, "3 2@5 1@1", false},
		{"ended_key_is_not_there_any_more", []hub.SigningKey{key(2, now), key(1, now, -h)}, 1, "2 1@-1", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, found := signing.Revoke(row.keys, row.version, now)
			if w := written(got, now); w != row.want || found != row.found {
				t.Errorf("keys %s, %t; want %s, %t", w, found, row.want, row.found)
			}
		})
	}
}
