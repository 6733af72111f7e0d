package graph

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vikstrous/dataloadgen"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// loaders batch the look-ups of one response, for one actor.
type loaders struct {
	subscriptions *dataloadgen.Loader[hub.SubscriptionID, *hub.EventSubscription]
	ofTenant      *dataloadgen.Loader[subscriptionPage, []hub.EventSubscription]
	destinations  *dataloadgen.Loader[hub.DestinationID, *hub.Destination]
	signingKeys   *dataloadgen.Loader[hub.DestinationID, []hub.SigningKey]
	credentials   *dataloadgen.Loader[hub.DestinationID, []hub.Credential]
	events        *dataloadgen.Loader[hub.EventID, *db.EventHead]
	bodies        *dataloadgen.Loader[hub.EventID, []byte]
	deliveries    *dataloadgen.Loader[hub.DeliveryID, *hub.Standing]
	attempts      *dataloadgen.Loader[hub.DeliveryID, []hub.RecordedAttempt]
	lastAttempts  *dataloadgen.Loader[hub.DeliveryID, []hub.RecordedAttempt]
	ofPairs       *dataloadgen.Loader[db.Pair, *hub.Standing]

	breakers       *dataloadgen.Loader[hub.DestinationID, *db.StoredBreaker]
	gates          *dataloadgen.Loader[hub.DestinationID, controlplane.Gate]
	rates          *dataloadgen.Loader[hub.DestinationID, *db.StoredRate]
	spans          *dataloadgen.Loader[hub.SubscriptionID, *db.FailureSpan]
	authorizations *dataloadgen.Loader[hub.DestinationID, string]

	replayJobs *dataloadgen.Loader[hub.JobID, *hub.ReplayJob]

	tokens             *dataloadgen.Loader[hub.TokenID, *hub.APIToken]
	audit              *dataloadgen.Loader[hub.ID, *db.AuditRecord]
	quarantined        *dataloadgen.Loader[hub.ID, *hub.QuarantinedRecord]
	quarantinedHeaders *dataloadgen.Loader[hub.ID, []db.RawHeader]
	quarantinedBodies  *dataloadgen.Loader[hub.ID, []byte]
	observations       *dataloadgen.Loader[hub.ID, *hub.Observation]
	observationBodies  *dataloadgen.Loader[hub.ID, []byte]
}

// subscriptionPage names a page of a tenant's subscriptions.
type subscriptionPage struct {
	tenant hub.TenantID
	before hub.ID
	size   int
}

// Batches close after a millisecond or at a full page of keys.
const (
	loaderWait  = time.Millisecond
	loaderBatch = 2 * maxPage
)

func (r *Resolver) newLoaders(ctx context.Context) *loaders {
	a := actorOf(ctx)
	return &loaders{
		subscriptions: byKey(func(ctx context.Context, ids []hub.SubscriptionID) (map[hub.SubscriptionID]*hub.EventSubscription, error) {
			list, err := r.Subscriptions.ByID(ctx, a, ids)
			return indexed(list, func(s *hub.EventSubscription) hub.SubscriptionID { return s.ID }), err
		}),
		ofTenant: byKey(func(ctx context.Context, wanted []subscriptionPage) (map[subscriptionPage][]hub.EventSubscription, error) {
			pages := make(map[subscriptionPage][]hub.EventSubscription, len(wanted))
			var err error
			for _, p := range wanted {
				if pages[p], err = r.Subscriptions.Page(ctx, a, p.tenant, p.before, p.size); err != nil {
					return nil, err
				}
			}
			return pages, nil
		}),
		ofPairs: byKey(func(ctx context.Context, pairs []db.Pair) (map[db.Pair]*hub.Standing, error) {
			return r.History.DeliveriesOfPairs(ctx, a, pairs)
		}),
		quarantined: byKey(func(ctx context.Context, ids []hub.ID) (map[hub.ID]*hub.QuarantinedRecord, error) {
			list, err := r.Quarantine.ByID(ctx, a, ids)
			return indexed(list, func(q *hub.QuarantinedRecord) hub.ID { return q.ID }), err
		}),
		replayJobs: byKey(func(ctx context.Context, ids []hub.JobID) (map[hub.JobID]*hub.ReplayJob, error) {
			list, err := r.Replays.ByID(ctx, a, ids)
			return indexed(list, func(j *hub.ReplayJob) hub.JobID { return j.ID }), err
		}),
		tokens: byKey(func(ctx context.Context, ids []hub.TokenID) (map[hub.TokenID]*hub.APIToken, error) {
			list, err := r.Tokens.ByID(ctx, a, ids)
			return indexed(list, func(t *hub.APIToken) hub.TokenID { return t.ID }), err
		}),
		audit: byKey(func(ctx context.Context, ids []hub.ID) (map[hub.ID]*db.AuditRecord, error) {
			list, err := r.Audit.ByID(ctx, a, ids)
			return indexed(list, func(e *db.AuditRecord) hub.ID { return e.ID }), err
		}),
		quarantinedHeaders: byKey(r.Quarantine.Headers),
		quarantinedBodies:  byKey(r.Quarantine.Bodies),
		observations: byKey(func(ctx context.Context, ids []hub.ID) (map[hub.ID]*hub.Observation, error) {
			list, err := r.Observations.ByID(ctx, a, ids)
			return indexed(list, func(o *hub.Observation) hub.ID { return o.ID }), err
		}),
		observationBodies: byKey(r.Observations.Bodies),
		destinations: byKey(func(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]*hub.Destination, error) {
			list, err := r.Subscriptions.Destinations(ctx, a, ids)
			return indexed(list, func(d *hub.Destination) hub.DestinationID { return d.ID }), err
		}),
		breakers: byKey(func(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]*db.StoredBreaker, error) {
			list, err := r.Breakers.Of(ctx, a, ids)
			return indexed(list, func(s *db.StoredBreaker) hub.DestinationID { return s.Destination }), err
		}),
		gates: byKey(r.Breakers.Gates),
		rates: byKey(func(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]*db.StoredRate, error) {
			list, err := r.Policies.RatesOf(ctx, a, ids)
			return indexed(list, func(f *db.StoredRate) hub.DestinationID { return f.Destination }), err
		}),
		spans: byKey(func(ctx context.Context, ids []hub.SubscriptionID) (map[hub.SubscriptionID]*db.FailureSpan, error) {
			list, err := r.Policies.SpansOf(ctx, a, ids)
			return indexed(list, func(f *db.FailureSpan) hub.SubscriptionID { return f.Subscription }), err
		}),
		authorizations: byKey(r.History.Authorizations),
		signingKeys:    byKey(r.Subscriptions.SigningKeys),
		credentials:    byKey(r.Subscriptions.Credentials),
		events: byKey(func(ctx context.Context, ids []hub.EventID) (map[hub.EventID]*db.EventHead, error) {
			list, err := r.History.EventsByID(ctx, a, ids)
			return indexed(list, func(e *db.EventHead) hub.EventID { return e.Event.ID }), err
		}),
		bodies: byKey(r.History.Bodies),
		deliveries: byKey(func(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID]*hub.Standing, error) {
			list, err := r.History.DeliveriesByID(ctx, a, ids)
			return indexed(list, func(s *hub.Standing) hub.DeliveryID { return s.Delivery.ID }), err
		}),
		attempts: byKey(func(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
			return r.History.Attempts(ctx, a, ids)
		}),
		lastAttempts: byKey(func(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
			return r.History.LastAttempts(ctx, a, ids)
		}),
	}
}

func byKey[K comparable, V any](fetch func(context.Context, []K) (map[K]V, error)) *dataloadgen.Loader[K, V] {
	return dataloadgen.NewMappedLoader(fetch, dataloadgen.WithWait(loaderWait), dataloadgen.WithBatchCapacity(loaderBatch))
}

func indexed[K comparable, V any](list []V, key func(*V) K) map[K]*V {
	byKey := make(map[K]*V, len(list))
	for i := range list {
		byKey[key(&list[i])] = &list[i]
	}
	return byKey
}

// load is the zero value for what does not exist.
func load[K comparable, V any](ctx context.Context, l *dataloadgen.Loader[K, V], key K) (v V, err error) {
	v, err = l.Load(ctx, key)
	if errors.Is(err, dataloadgen.ErrNotFound) {
		return v, nil
	}
	return v, err
}

// loadAll asks for many keys at once, the zero value for what does not exist.
func loadAll[K comparable, V any](ctx context.Context, l *dataloadgen.Loader[K, V], keys []K) ([]V, error) {
	waiting := make([]func() (V, error), len(keys))
	for i, key := range keys {
		waiting[i] = l.LoadThunk(ctx, key)
	}
	list := make([]V, len(keys))
	for i, get := range waiting {
		var err error
		if list[i], err = get(); err != nil && !errors.Is(err, dataloadgen.ErrNotFound) {
			return nil, err
		}
	}
	return list, nil
}

type answerKey struct{}

// answer is what is kept while one response is put together.
type answer struct {
	loaders *loaders
	// bodyBytes counts the bodies that the response shows.
	bodyBytes atomic.Int64
}

func answerOf(ctx context.Context) *answer { return ctx.Value(answerKey{}).(*answer) }

func loadersOf(ctx context.Context) *loaders { return answerOf(ctx).loaders }

// freshLoaders gives each response its own loaders: one for a query, one for
// every item of a live feed.
func (r *Resolver) freshLoaders(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	return next(context.WithValue(ctx, answerKey{}, &answer{loaders: r.newLoaders(ctx)}))
}

// freshAfterChange gives what is read behind a mutation new loaders: those of
// the mutations before it, in the same document, know what was true then.
// Mutations run one after the other, each with all that is read behind it.
func (r *Resolver) freshAfterChange(ctx context.Context, next graphql.Resolver) (any, error) {
	v, err := next(ctx)
	if graphql.GetFieldContext(ctx).Object == "Mutation" {
		answerOf(ctx).loaders = r.newLoaders(ctx)
	}
	return v, err
}

// maxBodies bounds the bodies of one response, in bytes as they are stored. A
// single one is always shown.
const maxBodies = 16 << 20

// showBody counts a body, before it is read, and refuses what is too much.
func showBody(ctx context.Context, size int) error {
	if all := answerOf(ctx).bodyBytes.Add(int64(size)); all > maxBodies && all > int64(size) {
		return apiErrorf(codeLimit, "the bodies of this answer pass %d MiB; ask for a shorter page, or for fewer bodies", maxBodies>>20)
	}
	return nil
}
