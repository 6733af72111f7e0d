package access

import (
	"strings"
	"unicode"

	"github.com/streaming-hub/streaming-hub/hub"
)

// read is what a token's claims say about scope, role and name. ok is false
// when they let nobody in: no tenant, no role, or one of them malformed.
func (c *IssuerConfig) read(claims map[string]any) (t hub.APIToken, ok bool) {
	tenant, ok := claim(claims, c.TenantClaim).(string)
	switch {
	case !ok:
		return t, false
	case c.PlatformValue != "" && tenant == c.PlatformValue:
	case hub.TenantID(tenant).Valid():
		t.Tenant = hub.TenantID(tenant)
	default:
		return t, false
	}
	t.Role = highestRole(claim(claims, c.RoleClaim))
	for _, of := range []string{"name", "preferred_username", "email"} {
		if name, _ := claims[of].(string); t.Name == "" {
			t.Name = nameOf(name)
		}
	}
	return t, t.Role != ""
}

// claim is a claim by its name, or by the names on the way to it, joined by
// dots. A claim whose own name has dots goes first.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	head, rest, nested := strings.Cut(name, ".")
	inner, _ := claims[head].(map[string]any)
	if !nested || inner == nil {
		return nil
	}
	return claim(inner, rest)
}

// highestRole is the highest of the hub's roles in a claim that is a text or a
// list; other words in it mean something to other programs.
func highestRole(v any) (best hub.Role) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		word, _ := one.(string)
		role := hub.Role(strings.ToUpper(word))
		if role.Includes(hub.Viewer) && (best == "" || role.Includes(best)) {
			best = role
		}
	}
	return best
}

// nameOf is a name of at most 200 characters that is safe to show.
func nameOf(s string) string {
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if runes := []rune(clean); len(runes) > 200 {
		clean = string(runes[:200])
	}
	return strings.TrimSpace(clean)
}
