package access

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

type tokenMap map[hub.TokenID]hub.APIToken

func (m tokenMap) CreateToken(_ context.Context, t hub.APIToken) error { m[t.ID] = t; return nil }

func (m tokenMap) TokenByID(_ context.Context, id hub.TokenID) (hub.APIToken, bool, error) {
	t, ok := m[id]
	return t, ok, nil
}

func TestTokens(t *testing.T) {
	kept := tokenMap{}
	tokens := NewTokens(kept)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	tokens.now = func() time.Time { return now }
	text, token, err := tokens.Create(t.Context(), NewToken{Tenant: "acme", Name: "night", Role: hub.Operator, ExpiresAt: now.Add(time.Hour)})
	if err != nil || !strings.HasPrefix(text, TokenPrefix) {
		t.Fatalf("%q %v", text, err)
	}
	if bytes.Contains(token.Hash[:], []byte(text[10:20])) {
		t.Error("the token is kept as it is")
	}
	enter := func(text string) error { _, err := tokens.Authenticate(t.Context(), text); return err }
	t.Run("lets_in", func(t *testing.T) {
		a, err := tokens.Authenticate(t.Context(), text)
		if err != nil || a.Tenant != "acme" || a.Role != hub.Operator || a.ID != token.ID {
			t.Errorf("%+v %v", a, err)
		}
	})
	t.Run("any_changed_character_is_refused", func(t *testing.T) {
		for i := range text {
			changed := []byte(text)
			changed[i] ^= 1
			if err := enter(string(changed)); !errors.Is(err, ErrBadToken) {
				t.Errorf("character %d: %v", i, err)
			}
		}
		for _, bad := range []string{"", "shub_", "shub___", text[:len(text)-1], text + "a", strings.ToUpper(text)} {
			if err := enter(bad); !errors.Is(err, ErrBadToken) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
	t.Run("same_id_with_another_secret_is_refused", func(t *testing.T) {
		if err := enter(tokenText(token.ID, [32]byte{1})); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a_revocation_works_within_5_s", func(t *testing.T) {
		gone := token
		gone.RevokedAt = now
		kept[token.ID] = gone
		now = now.Add(5 * time.Second)
		if err := enter(text); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
		kept[token.ID] = token
		now = now.Add(5 * time.Second)
	})
	t.Run("an_end_works_at_once", func(t *testing.T) {
		if err := enter(text); err != nil {
			t.Fatal(err)
		}
		now = token.ExpiresAt
		if err := enter(text); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
}
