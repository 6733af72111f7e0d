// Package access tells who a caller is by an API token. Both planes ask it:
// the control plane for GraphQL, the data plane for the pull API.
//
//	tokens.go  making tokens, and checking them against the store
//	text.go    the form of a token: shub_<id>_<random>_<checksum>
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

// tokenValidity is how long a token that was looked up is believed: a
// revocation works everywhere within it.
const tokenValidity = 4 * time.Second

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
	now := t.now().UTC()
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
	return text, token, t.store.CreateToken(ctx, token)
}

// Authenticate tells who a token is. The error is ErrBadToken, or the hub's
// own when the store does not answer.
func (t *Tokens) Authenticate(ctx context.Context, text string) (hub.APIToken, error) {
	id, ok := parseTokenText(text)
	if !ok {
		return hub.APIToken{}, ErrBadToken
	}
	hash, now := sha256.Sum256([]byte(text)), t.now()
	token, ok := t.cached(hash, now)
	if !ok {
		var err error
		if token, ok, err = t.store.TokenByID(ctx, id); err != nil {
			return hub.APIToken{}, err
		}
		if !ok || subtle.ConstantTimeCompare(token.Hash[:], hash[:]) != 1 {
			return hub.APIToken{}, ErrBadToken
		}
		t.remember(hash, token, now.Add(tokenValidity))
	}
	if !token.Good(now) {
		return hub.APIToken{}, ErrBadToken
	}
	return token, nil
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
