package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// issuerRig is an OpenID Connect issuer of a test.
type issuerRig struct {
	t       *testing.T
	server  *httptest.Server
	keys    map[string]crypto.Signer // by key id; those that are published
	away    atomic.Bool
	fetches atomic.Int32
	now     time.Time
	tokens  *Tokens
}

const audience = "streaming-hub"

func newIssuerRig(t *testing.T) *issuerRig {
	t.Helper()
	first, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &issuerRig{t: t, keys: map[string]crypto.Signer{"first": first}, now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.server.Close)
	issuer, err := NewIssuer(IssuerConfig{
		URL: r.server.URL, Audience: audience, TenantClaim: "tenant", RoleClaim: "realm.roles", PlatformValue: "*",
		Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.tokens = NewTokens(tokenMap{}).Trust(issuer)
	r.tokens.now = func() time.Time { return r.now }
	return r
}

func (r *issuerRig) serve(w http.ResponseWriter, req *http.Request) {
	if r.away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if req.URL.Path == "/keys" {
		r.fetches.Add(1)
		list := []any{}
		for id, key := range r.keys {
			list = append(list, publicKey(id, key))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": list})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"issuer": r.server.URL, "jwks_uri": r.server.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"HS256", "none", "RS256"}})
}

var b64 = base64.RawURLEncoding

func publicKey(id string, key crypto.Signer) map[string]any {
	switch k := key.Public().(type) {
	case *ecdsa.PublicKey:
		raw, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		return map[string]any{"kty": "EC", "crv": "P-256", "kid": id, "x": b64.EncodeToString(raw[1:33]), "y": b64.EncodeToString(raw[33:])}
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": id, "n": b64.EncodeToString(k.N.Bytes()), "e": "AQAB"}
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": b64.EncodeToString(k)}
	}
	return nil
}

// claims are those of a good token, with changes.
func (r *issuerRig) claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": r.server.URL, "aud": []string{"other", audience}, "sub": "user-1", "name": "Ada",
		"iat": r.now.Unix(), "exp": r.now.Add(10 * time.Minute).Unix(),
		"tenant": "acme", "realm": map[string]any{"roles": []string{"offline_access", "operator", "viewer"}},
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// sign makes a token with a header of any kind.
func (r *issuerRig) sign(header, claims map[string]any, sign func(input []byte) []byte) string {
	r.t.Helper()
	h, err := json.Marshal(header)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := json.Marshal(claims)
	if err != nil {
		r.t.Fatal(err)
	}
	input := b64.EncodeToString(h) + "." + b64.EncodeToString(c)
	return input + "." + b64.EncodeToString(sign([]byte(input)))
}

func by(t *testing.T, key crypto.Signer) func([]byte) []byte {
	return func(input []byte) []byte {
		sum := sha256.Sum256(input)
		var sig []byte
		var err error
		switch k := key.(type) {
		case *ecdsa.PrivateKey:
			x, y, e := ecdsa.Sign(rand.Reader, k, sum[:])
			sig, err = append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...), e
		case ed25519.PrivateKey:
			sig = ed25519.Sign(k, input)
		default:
			sig, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
		}
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
}

func (r *issuerRig) good(changes map[string]any) string {
	return r.sign(map[string]any{"alg": "ES256", "kid": "first"}, r.claims(changes), by(r.t, r.keys["first"]))
}

func TestIssuer_lets_its_tokens_in(t *testing.T) {
	r := newIssuerRig(t)
	got, err := r.tokens.Authenticate(t.Context(), r.good(nil))
	if err != nil || got.Tenant != "acme" || got.Role != hub.Operator || got.Name != "Ada" || !got.ExpiresAt.Equal(r.now.Add(10*time.Minute)) || got.ID.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	t.Run("a_subject_is_always_the_same_actor", func(t *testing.T) {
		again, _ := r.tokens.Authenticate(t.Context(), r.good(map[string]any{"name": "Ada L."}))
		other, _ := r.tokens.Authenticate(t.Context(), r.good(map[string]any{"sub": "user-2"}))
		if again.ID != got.ID || other.ID == got.ID || other.ID.IsZero() {
			t.Errorf("%s %s %s", got.ID, again.ID, other.ID)
		}
	})
	t.Run("platform_by_a_value_of_the_claim", func(t *testing.T) {
		p, err := r.tokens.Authenticate(t.Context(), r.good(map[string]any{"tenant": "*", "realm": map[string]any{"roles": "ADMIN"}}))
		if err != nil || p.Tenant != "" || p.Role != hub.Admin {
			t.Errorf("%+v, %v", p, err)
		}
	})
	t.Run("own_tokens_still_do", func(t *testing.T) {
		text, _, err := r.tokens.Create(t.Context(), NewToken{Name: "x", Role: hub.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.tokens.Authenticate(t.Context(), text); err != nil {
			t.Error(err)
		}
	})
	t.Run("until_they_expire", func(t *testing.T) {
		text := r.good(nil)
		r.now = r.now.Add(10 * time.Minute)
		if _, err := r.tokens.Authenticate(t.Context(), text); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
	t.Run("the_keys_are_fetched_once", func(t *testing.T) {
		if n := r.fetches.Load(); n != 1 {
			t.Errorf("%d fetches", n)
		}
	})
	t.Run("without_an_issuer_nobody_enters_by_one", func(t *testing.T) {
		if _, err := NewTokens(tokenMap{}).Authenticate(t.Context(), r.good(nil)); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
}

func TestIssuer_algorithms(t *testing.T) {
	r := newIssuerRig(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r.keys["rsa"], r.keys["ed"] = rsaKey, edKey
	for _, alg := range signatures {
		if strings.HasPrefix(alg, "HS") || strings.EqualFold(alg, "none") {
			t.Errorf("%s is taken", alg)
		}
	}
	public, err := json.Marshal(publicKey("first", r.keys["first"]))
	if err != nil {
		t.Fatal(err)
	}
	mac := func(input []byte) []byte {
		h := hmac.New(sha256.New, public)
		h.Write(input)
		return h.Sum(nil)
	}
	for name, c := range map[string]struct {
		alg, kid string
		sign     func([]byte) []byte
		in       bool
	}{
		"ES256":                      {"ES256", "first", by(t, r.keys["first"]), true},
		"RS256":                      {"RS256", "rsa", by(t, rsaKey), true},
		"EdDSA":                      {"EdDSA", "ed", by(t, edKey), true},
		"none":                       {"none", "first", func([]byte) []byte { return nil }, false},
		"None":                       {"None", "first", func([]byte) []byte { return nil }, false},
		"HS256_with_the_public_key":  {"HS256", "first", mac, false},
		"another_key_under_its_name": {"ES256", "first", by(t, edKey), false},
		"another_algorithm_of_a_key": {"ES256", "rsa", by(t, rsaKey), false},
	} {
		t.Run(name, func(t *testing.T) {
			text := r.sign(map[string]any{"alg": c.alg, "kid": c.kid}, r.claims(nil), c.sign)
			if _, err := r.tokens.Authenticate(t.Context(), text); (err == nil) != c.in || err != nil && !errors.Is(err, ErrBadToken) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestIssuer_refuses(t *testing.T) {
	r := newIssuerRig(t)
	for name, changes := range map[string]map[string]any{
		"wrong_audience":     {"aud": "other"},
		"no_audience":        {"aud": nil},
		"wrong_issuer":       {"iss": "https://login.example"},
		"issuer_with_slash":  {"iss": r.server.URL + "/"},
		"expired":            {"exp": r.now.Add(-time.Second).Unix()},
		"no_expiry":          {"exp": nil},
		"not_yet":            {"nbf": r.now.Add(time.Hour).Unix()},
		"no_subject":         {"sub": nil},
		"no_tenant":          {"tenant": nil},
		"empty_tenant":       {"tenant": ""},
		"tenant_is_none":     {"tenant": "../acme"},
		"tenant_is_a_list":   {"tenant": []string{"acme"}},
		"no_role":            {"realm": nil},
		"unknown_role":       {"realm": map[string]any{"roles": "root"}},
		"role_is_an_object":  {"realm": map[string]any{"roles": map[string]any{"ADMIN": true}}},
		"role_beside_realms": {"realm": "ADMIN"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := r.tokens.Authenticate(t.Context(), r.good(changes)); !errors.Is(err, ErrBadToken) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	t.Run("changed_claims", func(t *testing.T) {
		one, two := strings.Split(r.good(nil), "."), strings.Split(r.good(map[string]any{"tenant": "*"}), ".")
		if _, err := r.tokens.Authenticate(t.Context(), one[0]+"."+two[1]+"."+one[2]); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
	for _, text := range []string{"..", "a.b.c", strings.Repeat("a", maxWebToken) + ".b.c", "shub_a.b.c"} {
		if _, err := r.tokens.Authenticate(t.Context(), text); !errors.Is(err, ErrBadToken) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	if _, err := NewIssuer(IssuerConfig{URL: r.server.URL, TenantClaim: "t", RoleClaim: "r"}); err == nil {
		t.Error("an issuer without an audience")
	}
}

func TestIssuer_keys(t *testing.T) {
	r := newIssuerRig(t)
	enter := func(text string) error { _, err := r.tokens.Authenticate(context.Background(), text); return err }
	// fresh is a token that nobody has seen yet.
	fresh := func(kid string, key crypto.Signer) string {
		return r.sign(map[string]any{"alg": "ES256", "kid": kid}, r.claims(map[string]any{"jti": rand.Text()}), by(t, key))
	}
	old := r.keys["first"]
	if err := enter(fresh("first", old)); err != nil {
		t.Fatal(err)
	}
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("an_unknown_key_is_refused_and_fetched_for_seldom", func(t *testing.T) {
		r.now = r.now.Add(fetchPause)
		before := r.fetches.Load()
		for range 20 {
			if err := enter(fresh("second", second)); !errors.Is(err, ErrBadToken) {
				t.Errorf("%v", err)
			}
		}
		if n := r.fetches.Load() - before; n != 1 {
			t.Errorf("%d fetches", n)
		}
		if err := enter(fresh("first", old)); err != nil {
			t.Errorf("a known key meanwhile: %v", err)
		}
	})
	t.Run("a_new_key_is_found", func(t *testing.T) {
		r.keys["second"] = second
		r.now = r.now.Add(fetchPause)
		if err := enter(fresh("second", second)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a_withdrawn_key_ends_within_an_hour", func(t *testing.T) {
		delete(r.keys, "first")
		r.now = r.now.Add(issuerRefresh)
		if err := enter(fresh("first", old)); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
	t.Run("an_issuer_that_is_away_changes_nothing_for_known_keys", func(t *testing.T) {
		if err := enter(fresh("second", second)); err != nil {
			t.Fatal(err)
		}
		r.away.Store(true)
		r.now = r.now.Add(issuerRefresh)
		if err := enter(fresh("second", second)); err != nil {
			t.Error(err)
		}
		if err := enter(fresh("third", old)); err == nil || errors.Is(err, ErrBadToken) {
			t.Errorf("an unknown key: %v; want that it cannot be checked", err)
		}
		r.away.Store(false)
		r.now = r.now.Add(issuerRetry)
		if err := enter(fresh("third", old)); !errors.Is(err, ErrBadToken) {
			t.Errorf("%v", err)
		}
	})
	t.Run("an_issuer_that_never_answered_is_no_bad_token", func(t *testing.T) {
		other := newIssuerRig(t)
		other.away.Store(true)
		for range 3 {
			if _, err := other.tokens.Authenticate(t.Context(), other.good(nil)); err == nil || errors.Is(err, ErrBadToken) {
				t.Errorf("%v", err)
			}
		}
		other.away.Store(false)
		other.now = other.now.Add(issuerRetry)
		if _, err := other.tokens.Authenticate(t.Context(), other.good(nil)); err != nil {
			t.Error(err)
		}
	})
}
