package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestJudgeToken(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	life := func(d time.Duration) *time.Duration { return &d }
	tenant, platform := Actor{Role: hub.Admin, Tenant: "acme"}, Actor{Role: hub.Admin}
	for _, c := range []struct {
		name string
		a    Actor
		w    TokenWish
		want string // tenant role expiry, or the mistakes
	}{
		{"own_tenant", tenant, TokenWish{Name: " night ", Role: hub.Operator}, "acme OPERATOR never"},
		{"own_tenant_named", tenant, TokenWish{Tenant: "acme", Name: "n", Role: hub.Admin}, "acme ADMIN never"},
		{"another_tenant", tenant, TokenWish{Tenant: "other", Name: "n", Role: hub.Viewer}, "TENANT_MISMATCH tenantId"},
		{"platform_by_a_tenant", tenant, TokenWish{Platform: true, Name: "n", Role: hub.Viewer}, "TENANT_MISMATCH scope"},
		{"platform_by_the_platform", platform, TokenWish{Platform: true, Name: "n", Role: hub.Admin}, " ADMIN never"},
		{"platform_of_a_tenant", platform, TokenWish{Platform: true, Tenant: "acme", Name: "n", Role: hub.Viewer}, "INVALID tenantId"},
		{"a_tenant_by_the_platform", platform, TokenWish{Tenant: "acme", Name: "n", Role: hub.Viewer}, "acme VIEWER never"},
		{"no_tenant_by_the_platform", platform, TokenWish{Name: "n", Role: hub.Viewer}, "REQUIRED tenantId"},
		{"above_the_own_role", Actor{Role: hub.Operator, Tenant: "acme"}, TokenWish{Name: "n", Role: hub.Admin}, "INVALID role"},
		{"no_role", tenant, TokenWish{Name: "n", Role: "ROOT"}, "INVALID role"},
		{"no_name", tenant, TokenWish{Name: " ", Role: hub.Viewer}, "INVALID name"},
		{"a_name_of_200_characters", tenant, TokenWish{Name: strings.Repeat("é", 200), Role: hub.Viewer}, "acme VIEWER never"},
		{"a_name_of_201_characters", tenant, TokenWish{Name: strings.Repeat("é", 201), Role: hub.Viewer}, "INVALID name"},
		{"a_life_of_1_s", tenant, TokenWish{Name: "n", Role: hub.Viewer, ExpiresIn: life(time.Second)}, "acme VIEWER 2026-01-31 12:00:01"},
		{"a_life_of_less", tenant, TokenWish{Name: "n", Role: hub.Viewer, ExpiresIn: life(time.Second - 1)}, "INVALID expiresIn"},
		{"a_life_of_10_years", tenant, TokenWish{Name: "n", Role: hub.Viewer, ExpiresIn: life(maxTokenLife)}, "acme VIEWER 2036-01-29 12:00:00"},
		{"a_life_of_more", tenant, TokenWish{Name: "n", Role: hub.Viewer, ExpiresIn: life(maxTokenLife + 1)}, "INVALID expiresIn"},
		{"all_mistakes_at_once", tenant, TokenWish{Tenant: "x", Role: "x", ExpiresIn: life(0)}, "TENANT_MISMATCH tenantId, INVALID name, INVALID role, INVALID expiresIn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, mistakes := judgeToken(c.a, c.w, now)
			expiry := "never"
			if !n.ExpiresAt.IsZero() {
				expiry = n.ExpiresAt.Format(time.DateTime)
			}
			got := fmt.Sprint(n.Tenant, " ", n.Role, " ", expiry)
			if len(mistakes) > 0 {
				var list []string
				for _, m := range mistakes {
					list = append(list, fmt.Sprint(m.Code, " ", strings.Join(m.Path[1:], ".")))
				}
				got = strings.Join(list, ", ")
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
