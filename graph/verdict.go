package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// Verdicts judges by the clauses that matching itself uses.
func (r eventResolver) Verdicts(ctx context.Context, obj *model.Event) ([]*model.MatchVerdict, error) {
	subs, err := load(ctx, loadersOf(ctx).ofTenant, obj.Of.Tenant)
	list := make([]*model.MatchVerdict, len(subs))
	for i := range subs {
		list[i] = toVerdict(&subs[i], match.Explain(obj.Of, &subs[i]))
	}
	return list, err
}

func toVerdict(s *hub.EventSubscription, e match.Explanation) *model.MatchVerdict {
	v := &model.MatchVerdict{EventSubscription: toSubscription(s), Matched: e.Matched, FailedClause: optional(e.FailedClause)}
	for _, c := range e.Clauses {
		v.Clauses = append(v.Clauses, &model.MatchClause{Name: c.Name, Passed: c.Passed, Wanted: c.Wanted, Got: c.Got})
	}
	return v
}
