package hub

import "time"

// Destination is the endpoint of one tenant: sink kind, canonical URL and
// signing secret. It is unique per (tenant, kind, URL); several subscriptions
// may share one, and with it the secret, the circuit breaker and the health.
type Destination struct {
	ID        DestinationID
	Tenant    TenantID
	Kind      SinkKind
	URL       string // canonical ASCII, see package address; "" for pull
	CreatedAt time.Time
}
