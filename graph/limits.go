package graph

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/streaming-hub/streaming-hub/graph/generated"
	"github.com/streaming-hub/streaming-hub/graph/model"
)

// Limits of one request.
const (
	maxBody       = 256 << 10 // bytes, of a POST and of a WebSocket message
	maxTokens     = 10_000    // lexical, of a document
	maxDepth      = 16        // fields below each other; a full introspection has 15
	maxRootFields = 20
	maxAliases    = 100
	maxComplexity = 30_000           // fields, those of a list times its length
	readTime      = 10 * time.Second // until a request's body is here
	queryTime     = 10 * time.Second
	// A mutation may hold a verification probe of up to 30 s.
	mutationTime = 40 * time.Second
)

// shapeLimits refuses a document by its shape, before anything is executed.
type shapeLimits struct{}

var _ graphql.OperationContextMutator = shapeLimits{}

func (shapeLimits) ExtensionName() string                   { return "ShapeLimits" }
func (shapeLimits) Validate(graphql.ExecutableSchema) error { return nil }

func (shapeLimits) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	var s shape
	s.walk(op.Operation.SelectionSet, 1)
	switch {
	case s.depth > maxDepth:
		return limitError("the query is nested deeper than %d fields", maxDepth)
	case s.rootFields > maxRootFields:
		return limitError("the query has more than %d root fields", maxRootFields)
	case s.aliases > maxAliases:
		return limitError("the query has more than %d aliases", maxAliases)
	case s.fields > maxComplexity:
		return limitError("the query has more than %d fields", maxComplexity)
	}
	return nil
}

func limitError(format string, args ...any) *gqlerror.Error {
	e := gqlerror.Errorf(format, args...)
	e.Extensions = map[string]any{"code": codeLimit}
	return e
}

// shape is what a document looks like with its fragments spread out. The walk
// ends at the first exceeded limit, so that spreads within spreads cost no
// more than the limits allow.
type shape struct {
	depth, rootFields, aliases, fields int
}

func (s *shape) walk(set ast.SelectionSet, depth int) {
	s.depth = max(s.depth, depth-1)
	for _, one := range set {
		if s.depth > maxDepth || s.fields > maxComplexity {
			return
		}
		switch one := one.(type) {
		case *ast.Field:
			s.fields++
			if depth == 1 {
				s.rootFields++
			}
			if one.Alias != one.Name {
				s.aliases++
			}
			s.depth = max(s.depth, depth)
			s.walk(one.SelectionSet, depth+1)
		case *ast.InlineFragment:
			s.fields++
			s.walk(one.SelectionSet, depth)
		case *ast.FragmentSpread:
			s.fields++
			s.walk(one.Definition.SelectionSet, depth)
		}
	}
}

// costs multiplies what stands below a list by the list's length.
func costs() (c generated.ComplexityRoot) {
	list := func(child int, first int32) int {
		return min(1+child*int(min(max(first, 1), maxPage)), 10*maxComplexity)
	}
	c.Query.EventSubscriptions = func(child int, first int32, _ *string, _ *model.EventSubscriptionFilter) int {
		return list(child, first)
	}
	c.Query.Destinations = func(child int, first int32, _ *string, _ *model.DestinationFilter) int { return list(child, first) }
	// At most two old keys beside the current one.
	c.Destination.SigningKeys = func(child int) int { return list(child, 3) }
	c.Query.Events = func(child int, first int32, _ *string, _ *model.EventFilter) int { return list(child, first) }
	c.Query.Deliveries = func(child int, first int32, _ *string, _ *model.DeliveryFilter) int { return list(child, first) }
	c.Query.DeadLetters = func(child int, first int32, _ *string, _ *model.DeadLetterFilter) int { return list(child, first) }
	c.Query.CircuitBreakers = func(child int, first int32, _ *string, _ *model.CircuitBreakerFilter) int {
		return list(child, first)
	}
	c.Query.FailureSpans = func(child int, first int32, _ *string, _ *model.FailureSpanFilter) int { return list(child, first) }
	// A policy has up to 100 attempts, of which some 30 fit into its age limit.
	c.RetryPreview.Attempts = func(child int) int { return list(child, 30) }
	c.Event.Deliveries = func(child int, first int32, _ *string) int { return list(child, first) }
	c.Query.QuarantinedRecords = func(child int, first int32, _ *string, _ *model.QuarantinedRecordFilter) int {
		return list(child, first)
	}
	c.Query.DlqObservations = func(child int, first int32, _ *string, _ *model.DlqObservationFilter) int {
		return list(child, first)
	}
	c.Query.APITokens = func(child int, first int32, _ *string, _ *model.APITokenFilter) int { return list(child, first) }
	c.Query.AuditLog = func(child int, first int32, _ *string, _ *model.AuditLogFilter) int { return list(child, first) }
	c.Query.ReplayJobs = func(child int, first int32, _ *string, _ *model.ReplayJobFilter) int { return list(child, first) }
	c.ReplayJob.ByDestination = func(child int, first int32) int { return list(child, first) }
	c.Mutation.DiscardDeadLetters = func(child int, input model.DiscardDeadLettersInput) int {
		return list(child, int32(min(len(input.Ids), maxPage)))
	}
	c.Mutation.ReadmitQuarantinedRecords = func(child int, input model.ReadmitQuarantinedRecordsInput) int {
		return list(child, int32(min(len(input.Ids), maxPage)))
	}
	c.Event.Verdicts = func(child int, first int32, _ *string) int { return list(child, first) }
	c.MatchVerdict.Clauses = func(child int) int { return list(child, 6) }
	// Of headers there are usually a few; all of them are bounded in bytes.
	c.EventSubscription.Headers = func(child int) int { return list(child, 3) }
	c.Attempt.RequestHeaders = func(child int) int { return list(child, 3) }
	c.Attempt.ResponseHeaders = func(child int) int { return list(child, 3) }
	c.QuarantinedRecord.Headers = func(child int) int { return list(child, 10) }
	c.DlqObservation.Attributes = func(child int) int { return list(child, 10) }
	// Attempts of one delivery are few, as a rule at most a dozen.
	c.Delivery.Attempts = func(child int) int { return list(child, 5) }
	return c
}

// limitTime ends queries and mutations that take too long. A live feed has no
// end; its items are bounded by the write deadlines of its connection.
func limitTime(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	limit := queryTime
	switch graphql.GetOperationContext(ctx).Operation.Operation {
	case ast.Subscription:
		return next(ctx)
	case ast.Mutation:
		limit = mutationTime
	}
	respond := next(ctx)
	return func(ctx context.Context) *graphql.Response {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return respond(ctx)
	}
}
