package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func (r queryResolver) RetryPreview(_ context.Context, policy model.RetryPolicyInput) (*model.RetryPreview, error) {
	p, mistakes, err := retryPolicy(&policy, "policy")
	if err != nil {
		return nil, err
	}
	if fault := retry.Validate(p); mistakes == nil && fault != nil {
		mistakes = mistake(fault.Error(), "policy")
	}
	if mistakes != nil {
		return &model.RetryPreview{Attempts: []*model.RetryPreviewAttempt{}, UserErrors: userErrors(mistakes)}, nil
	}
	p, _ = retry.InForce(p, r.CurveSteps)
	return toRetryPreview(p), nil
}

func toRetryPreview(p hub.RetryPolicy) *model.RetryPreview {
	steps, limit := retry.Preview(p), retry.AgeLimit(p)
	m := &model.RetryPreview{AgeLimit: &limit, UserErrors: userErrors(nil)}
	for _, s := range steps {
		m.Attempts = append(m.Attempts, &model.RetryPreviewAttempt{Number: s.Attempt, Earliest: s.Earliest, Latest: s.Latest, Mean: s.Mean})
	}
	m.Total = &steps[len(steps)-1].Latest // every policy has an attempt
	return m
}
