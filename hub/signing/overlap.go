package signing

import (
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// MaxOverlap bounds for how long an old secret stays valid after a
	// rotation; 0 is fine and ends the old secret at once.
	MaxOverlap = 7 * 24 * time.Hour
	// MaxOldKeys is how many old secrets sign beside the current one.
	MaxOldKeys = 2
)

// Rotate gives the keys of a destination after a rotation at now: a new
// current one, the previous one with an end set anew, and of the older ones,
// whose ends stay, those that are valid still. Of more than MaxOldKeys the
// oldest end at once. What ended is left out. The newest comes first.
func Rotate(keys []hub.SigningKey, now time.Time, overlap time.Duration) []hub.SigningKey {
	next := hub.SigningKey{Version: 1, CreatedAt: now}
	var old []hub.SigningKey
	for _, k := range keys {
		next.Version = max(next.Version, k.Version+1)
		if k.EndsAt.IsZero() {
			k.EndsAt = now.Add(overlap)
		}
		if k.EndsAt.After(now) {
			old = append(old, k)
		}
	}
	slices.SortFunc(old, func(a, b hub.SigningKey) int { return int(b.Version) - int(a.Version) })
	return append([]hub.SigningKey{next}, old[:min(len(old), MaxOldKeys)]...)
}

// Revoke gives the keys after one of them was revoked at now. A revoked
// current key is followed by a new one, so that a destination is never without
// and nothing waits. found is false when no valid key has the version; the keys
// stay as they are.
func Revoke(keys []hub.SigningKey, version int32, now time.Time) (left []hub.SigningKey, found bool) {
	newest := int32(0)
	current := false
	for _, k := range keys {
		newest = max(newest, k.Version)
		switch valid := k.EndsAt.IsZero() || k.EndsAt.After(now); {
		case valid && k.Version == version:
			found, current = true, k.EndsAt.IsZero()
		case valid:
			left = append(left, k)
		}
	}
	if !found {
		return keys, false
	}
	if current {
		left = append(left, hub.SigningKey{Version: newest + 1, CreatedAt: now})
	}
	slices.SortFunc(left, func(a, b hub.SigningKey) int { return int(b.Version) - int(a.Version) })
	return left, true
}
