package graph

import (
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/tracing"
)

// traced tells of each query and mutation, from its first step to its answer.
// A live feed lasts as long as somebody looks: it has no span.
func traced(t *tracing.Tracer) graphql.OperationMiddleware {
	return func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		op := graphql.GetOperationContext(ctx)
		if op.Operation.Operation == ast.Subscription {
			return next(ctx)
		}
		end := t.Operation(op.Headers, tracing.Operation{
			Kind: string(op.Operation.Operation), Field: firstField(op.Operation.SelectionSet), Name: op.Operation.Name,
		})
		var once sync.Once // a stream asks until there is no more
		answer := next(ctx)
		return func(ctx context.Context) *graphql.Response {
			r := answer(ctx)
			once.Do(func() { end(r != nil && len(r.Errors) > 0) })
			return r
		}
	}
}

// firstField is a field of the schema: the document was validated.
func firstField(set ast.SelectionSet) string {
	for _, one := range set {
		switch one := one.(type) {
		case *ast.Field:
			return one.Name
		case *ast.InlineFragment:
			return firstField(one.SelectionSet)
		case *ast.FragmentSpread:
			return firstField(one.Definition.SelectionSet)
		}
	}
	return ""
}
