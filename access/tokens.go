// Package access tells who a caller is by an API token. Both planes ask it:
// the control plane for GraphQL, the data plane for the pull API.
//
//	tokens.go  making tokens, and checking them against the store
//	text.go    the form of a token: shub_<id>_<random>_<checksum>
//	issuer.go  JSON web tokens of an OpenID Connect issuer, in place of ours
//	claims.go  what such a token says about tenant and role
//	keys.go    the issuer's public keys, fetched seldom
//
// What a token may do is not decided here: the caller reads its role and scope.
// For programs that make tokens, such as the command line:
//
//	tokens := access.NewTokens(database)
//	text, token, err := tokens.Create(ctx, access.NewToken{Name: "night shift", Role: hub.Operator, Tenant: "acme"})
//
// text is shown once; token is what is kept.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
)

// tokenValidity is how long a token that was looked up is believed. Live
// connections look again every 2 s: both together, a revocation works
// everywhere within 5 s.
const tokenValidity = 2 * time.Second

// tokenCacheSize bounds the cache; beyond it everything is looked up anew.
const tokenCacheSize = 10_000

// ErrBadToken is returned for a token that lets nobody in, whatever is wrong
// with it.
var ErrBadToken = errors.New("the API token is unknown, expired or revoked")

// TokenStore keeps tokens.
type TokenStore interface {
	CreateToken(ctx context.Context, t hub.APIToken) error
	TokenByID(ctx context.Context, id hub.TokenID) (t hub.APIToken, found bool, err error)
}

// Tokens makes and checks API tokens. It is safe for concurrent use.
type Tokens struct {
	store  TokenStore
	now    func() time.Time
	random io.Reader
	issuer *Issuer // nil when only own tokens let in

	mu    sync.Mutex
	known map[[32]byte]knownToken
}

type knownToken struct {
	token hub.APIToken
	until time.Time
}

// NewTokens is Tokens with the system's clock and randomness.
func NewTokens(store TokenStore) *Tokens {
	return &Tokens{store: store, now: time.Now, random: rand.Reader, known: map[[32]byte]knownToken{}}
}

// Trust lets JSON web tokens of an issuer in, beside own tokens. It is called
// before the first Authenticate; nil changes nothing.
func (t *Tokens) Trust(i *Issuer) *Tokens {
	t.issuer = i
	return t
}

// NewToken says what kind of token to make.
type NewToken struct {
	Tenant    hub.TenantID // "" for platform scope
	Name      string       // 1–200 characters
	Role      hub.Role
	ExpiresAt time.Time // zero for never
}

// Create makes and stores a token. text is the token itself, which is kept
// nowhere.
func (t *Tokens) Create(ctx context.Context, n NewToken) (text string, token hub.APIToken, err error) {
	if text, token, err = t.Draw(n); err != nil {
		return "", token, err
	}
	return text, token, t.store.CreateToken(ctx, token)
}

// Draw makes a token that the caller stores.
func (t *Tokens) Draw(n NewToken) (text string, token hub.APIToken, err error) {
	now := t.now().UTC().Truncate(time.Microsecond) // as Postgres keeps it
	switch {
	case n.Tenant != "" && !n.Tenant.Valid():
		return "", token, fmt.Errorf("%.40q is not a tenant id", n.Tenant)
	case n.Name == "" || utf8.RuneCountInString(n.Name) > 200:
		return "", token, errors.New("a token needs a name of 1 to 200 characters")
	case !n.Role.Includes(hub.Viewer):
		return "", token, fmt.Errorf("%.40q is not a role; use VIEWER, OPERATOR or ADMIN", n.Role)
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return "", token, errors.New("the token would have expired already")
	}
	token = hub.APIToken{
		ID: hub.TokenID{ID: hub.NewID(now, t.random)}, Tenant: n.Tenant, Name: n.Name, Role: n.Role,
		CreatedAt: now, ExpiresAt: n.ExpiresAt,
	}
	var key [32]byte
	if _, err := io.ReadFull(t.random, key[:]); err != nil {
		return "", token, fmt.Errorf("draw a token: %w", err)
	}
	text = tokenText(token.ID, key)
	token.Hash = sha256.Sum256([]byte(text))
	return text, token, nil
}

// Authenticate tells who a token is. The error is ErrBadToken, or the hub's
// own when the store does not answer.
func (t *Tokens) Authenticate(ctx context.Context, text string) (hub.APIToken, error) {
	hash, now := sha256.Sum256([]byte(text)), t.now()
	token, ok := t.cached(hash, now)
	if !ok {
		var err error
		if token, err = t.lookUp(ctx, text, hash); err != nil {
			return hub.APIToken{}, err
		}
		t.remember(hash, token, now.Add(tokenValidity))
	}
	if !token.Good(now) {
		return hub.APIToken{}, ErrBadToken
	}
	return token, nil
}

func (t *Tokens) lookUp(ctx context.Context, text string, hash [32]byte) (hub.APIToken, error) {
	if t.issuer != nil && isWebToken(text) {
		return t.issuer.token(ctx, text)
	}
	id, ok := parseTokenText(text)
	if !ok {
		return hub.APIToken{}, ErrBadToken
	}
	token, ok, err := t.store.TokenByID(ctx, id)
	if err == nil && (!ok || subtle.ConstantTimeCompare(token.Hash[:], hash[:]) != 1) {
		err = ErrBadToken
	}
	return token, err
}

// Forget makes this process look a token up anew at once.
func (t *Tokens) Forget(id hub.TokenID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for hash, k := range t.known {
		if k.token.ID == id {
			delete(t.known, hash)
		}
	}
}

func (t *Tokens) cached(hash [32]byte, now time.Time) (hub.APIToken, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.known[hash]
	return k.token, ok && now.Before(k.until)
}

func (t *Tokens) remember(hash [32]byte, token hub.APIToken, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= tokenCacheSize {
		clear(t.known)
	}
	t.known[hash] = knownToken{token: token, until: until}
}
