package dispatch

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/tracing"
)

// Queue is the delivery queue in the database.
type Queue interface {
	Lanes(ctx context.Context, after db.Lane, limit int) ([]db.LaneHead, error)
	ClaimLanes(ctx context.Context, quotas []db.LaneQuota, lease time.Duration) ([]db.Claim, error)
	ClaimLast(ctx context.Context, quotas []db.LaneQuota, lease time.Duration) ([]db.Claim, error)
	BeginAlone(ctx context.Context, c db.Claim, lease time.Duration) (bool, error)
	Events(ctx context.Context, ids []hub.ID) ([]hub.Event, error)
	ReleaseLeases(ctx context.Context, releases []db.Release) error
	ShareLimits(ctx context.Context, holder hub.ID, ttl time.Duration, requests []db.LimitRequest) ([]db.LimitGrant, error)
	SubscriptionExists(ctx context.Context, id hub.SubscriptionID) (bool, error)
	RecordOutcomes(ctx context.Context, feedID hub.ID, outcomes []hub.Outcome) (map[hub.DeliveryID]bool, error)
}

// Sink makes one attempt.
type Sink interface {
	Attempt(ctx context.Context, job sink.Job) hub.Attempt
}

// Tenants knows the routes of deliveries.
type Tenants interface {
	Get(ctx context.Context, ids []hub.TenantID) (map[hub.TenantID]*snapshot.Tenant, error)
	Current(ctx context.Context, id hub.TenantID) (*snapshot.Tenant, error)
}

// Circuits are the circuit breakers of destinations.
type Circuits interface {
	Admit(lane db.Lane, last bool) breaker.Admission
	Ramp(lane db.Lane) int
	OpenLanes() []db.Lane
	TakeProbe(ctx context.Context, lane db.Lane, attempt hub.AttemptID) (generation int64, taken bool, err error)
	Record(lane db.Lane, o breaker.Outcome)
}

// Health is what the failure policies say and learn.
type Health interface {
	// Admit says whether FAILURE_RATE lets attempts of a destination run. try
	// means that the attempt would be the one try of a disabled destination: it
	// runs once TakeTry has said so.
	Admit(lane db.Lane) (allow, try bool)
	TakeTry(ctx context.Context, lane db.Lane, policy hub.FailurePolicy) (bool, error)
	// OffLanes are the lanes of destinations that are switched off.
	OffLanes() []db.Lane
	Record(o Observed)
}

// Observed is an attempt as the failure policies see it.
type Observed struct {
	Lane         db.Lane
	Subscription hub.SubscriptionID
	Policy       hub.FailurePolicy
	Status       int32
	Class        hub.ErrorClass // "" for a success
	Try          bool           // the one try of a disabled destination
	Replay       bool           // a run that an operator asked for
	Gone         bool           // 410, and the subscription asks to be disabled then
}

// Deps are what a Pool works with.
type Deps struct {
	Queue     Queue
	Sink      Sink
	Tenants   Tenants
	Circuits  Circuits
	Health    Health
	Workers   int           // attempts at once, 8 by default
	Lease     time.Duration // of a claim, 60 s by default; longer than the longest attempt
	Unwritten int           // outcomes sent and not yet written, 512 by default
	// Poison is how many lone runs of a delivery may end without an outcome
	// before the next such end makes it a dead letter; 5 by default.
	Poison int
	// MaxBody is the largest body that is sent, in bytes; 0 for no limit. It
	// matters when the limit of ingest was lowered since an event came.
	MaxBody int
	Now     func() time.Time
	Random  io.Reader
	Token   func() int64    // a random lease token, never 0
	Jitter  func() float64  // [0, 1)
	Tracer  *tracing.Tracer // nil for no traces
	Metrics *Metrics
	Log     *slog.Logger
}
