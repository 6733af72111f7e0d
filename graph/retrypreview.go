package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func (r queryResolver) RetryPreview(_ context.Context, policy model.RetryPolicyInput) (*model.RetryPreview, error) {
	if err := checkOneOf("policy", &policy); err != nil {
		return nil, err
	}
	p := newRetryPolicy(&policy)
	if err := retry.Validate(p); err != nil {
		mistake := controlplane.UserError{Code: controlplane.Invalid, Message: err.Error(), Path: []string{"policy"}}
		return &model.RetryPreview{Attempts: []*model.RetryPreviewAttempt{}, UserErrors: []*controlplane.UserError{&mistake}}, nil
	}
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
