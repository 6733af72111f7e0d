package hub

import "time"

// Role is what an API token may do; each one includes those before it.
type Role string

const (
	Viewer   Role = "VIEWER"   // reads
	Operator Role = "OPERATOR" // also makes and verifies subscriptions, replays, discards
	Admin    Role = "ADMIN"    // also manages tokens and secrets, sees personal data
)

// Includes reports whether the role has all rights of another one. An unknown
// role has none.
func (r Role) Includes(other Role) bool {
	rank := map[Role]int{Viewer: 1, Operator: 2, Admin: 3}
	return rank[r] > 0 && rank[other] > 0 && rank[r] >= rank[other]
}

// APIToken lets a program or a person in. The token itself is shown once and
// not kept, only its SHA-256.
type APIToken struct {
	ID     TokenID
	Tenant TenantID // "" for platform scope: every tenant
	Name   string   // 1–200 characters, for people
	Role   Role
	Hash   [32]byte

	CreatedAt time.Time
	ExpiresAt time.Time // zero for never
	RevokedAt time.Time // zero while it is good
}

// Good reports whether the token lets anybody in at the given time.
func (t *APIToken) Good(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}
