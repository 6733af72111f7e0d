package settings

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
)

// Issuer is whose JSON web tokens let in, nil when there is none.
func (s Settings) Issuer(log *slog.Logger) (*access.Issuer, error) {
	if s.OIDC.Issuer == "" {
		return nil, nil
	}
	i, err := access.NewIssuer(access.IssuerConfig{
		URL: s.OIDC.Issuer, Audience: s.OIDC.Audience, TenantClaim: s.OIDC.TenantClaim, RoleClaim: s.OIDC.RoleClaim,
		PlatformValue: s.OIDC.PlatformValue, Now: time.Now, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%sOIDC_*: %w", Prefix, err)
	}
	return i, nil
}
