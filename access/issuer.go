package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// maxWebToken bounds a JSON web token, in bytes.
	maxWebToken = 16 << 10
	// issuerRefresh is after which time the issuer is asked for its keys again,
	// so that a key that it withdrew does not let anybody in for ever.
	issuerRefresh = time.Hour
	// issuerRetry is how long an issuer that does not answer is left alone.
	issuerRetry = 10 * time.Second
)

// signatures are the algorithms that are taken: asymmetric ones only. With
// HS256 the public key would do as the secret, with none nothing is signed.
var signatures = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// IssuerConfig says whose JSON web tokens let in.
type IssuerConfig struct {
	URL      string // of the issuer, as in its tokens
	Audience string // that a token has to name
	// Claims of a token by which it reaches a tenant and has a role; parts of a
	// nested claim are joined by dots.
	TenantClaim, RoleClaim string
	// PlatformValue is the value of the tenant claim that means all tenants. It
	// should be none that is a tenant id.
	PlatformValue string
	Client        *http.Client // nil for one that waits 5 s
	Now           func() time.Time
	Log           *slog.Logger
}

// Issuer checks the JSON web tokens of one OpenID Connect issuer, which it asks
// for its keys at the first token. It is safe for concurrent use.
type Issuer struct {
	config IssuerConfig
	client *seldom

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the issuer has answered
	asked    time.Time
}

// NewIssuer does not reach for the issuer yet.
func NewIssuer(c IssuerConfig) (*Issuer, error) {
	switch {
	case c.Audience == "":
		return nil, errors.New("an issuer needs an audience: without, tokens made for other programs would let in")
	case c.TenantClaim == "" || c.RoleClaim == "":
		return nil, errors.New("an issuer needs the names of the claims for tenant and role")
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 5 * time.Second}
	}
	return &Issuer{config: c, client: &seldom{next: c.Client.Transport, now: c.Now}}, nil
}

// isWebToken tells a JSON web token from one of our own.
func isWebToken(text string) bool {
	return strings.Count(text, ".") == 2 && !strings.HasPrefix(text, TokenPrefix)
}

// token is what a JSON web token stands for. The error is ErrBadToken, or that
// the issuer does not answer.
func (i *Issuer) token(ctx context.Context, text string) (hub.APIToken, error) {
	if len(text) > maxWebToken {
		return hub.APIToken{}, ErrBadToken
	}
	verifier, err := i.ready(ctx)
	if err != nil {
		return hub.APIToken{}, err
	}
	checked, err := verifier.Verify(ctx, text)
	switch {
	case ctx.Err() != nil:
		return hub.APIToken{}, ctx.Err()
	case err != nil && i.client.away():
		return hub.APIToken{}, fmt.Errorf("fetch the keys of %s: %w", i.config.URL, err)
	case err != nil:
		return hub.APIToken{}, ErrBadToken
	}
	var claims map[string]any
	if err := checked.Claims(&claims); err != nil {
		return hub.APIToken{}, ErrBadToken
	}
	t, ok := i.config.read(claims)
	if !ok || checked.Subject == "" {
		return hub.APIToken{}, ErrBadToken
	}
	t.ID = subjectID(checked.Issuer, checked.Subject)
	t.CreatedAt, t.ExpiresAt = checked.IssuedAt.UTC(), checked.Expiry.UTC()
	if t.Name == "" {
		t.Name = nameOf(checked.Subject)
	}
	return t, nil
}

// ready is what checks tokens, made anew from time to time. An issuer that is
// away leaves the old one in place.
func (i *Issuer) ready(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.config.Now()
	age := now.Sub(i.asked)
	if i.verifier != nil && age < issuerRefresh {
		return i.verifier, nil
	}
	if i.verifier == nil && !i.asked.IsZero() && age < issuerRetry {
		return nil, fmt.Errorf("the issuer %s did not answer a moment ago", i.config.URL)
	}
	i.asked = now
	i.client.reset()
	client := &http.Client{Transport: i.client, Timeout: i.config.Client.Timeout}
	// Its context outlives this request: the keys are fetched with it.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), client), i.config.URL)
	if err != nil {
		i.config.Log.Warn("the token issuer cannot be asked for its keys", "issuer", i.config.URL, "error", err)
		if i.verifier != nil {
			i.asked = now.Add(issuerRetry - issuerRefresh)
			return i.verifier, nil
		}
		return nil, fmt.Errorf("ask the issuer %s: %w", i.config.URL, err)
	}
	i.verifier = provider.Verifier(&oidc.Config{
		ClientID: i.config.Audience, SupportedSigningAlgs: signatures, Now: i.config.Now,
	})
	return i.verifier, nil
}

// subjectID is the id of a subject of an issuer, always the same, in the form
// of a version 8 UUID.
func subjectID(issuer, subject string) (id hub.TokenID) {
	sum := sha256.Sum256([]byte("oidc\x00" + issuer + "\x00" + subject))
	copy(id.ID[:], sum[:])
	id.ID[6], id.ID[8] = id.ID[6]&0x0f|0x80, id.ID[8]&0x3f|0x80
	return id
}
