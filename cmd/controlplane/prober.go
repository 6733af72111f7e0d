package main

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/hub"
)

// prober sends verification probes by the sink that delivers.
type prober struct{ webhook *sink.Webhook }

func (p prober) Probe(ctx context.Context, probe controlplane.Probe) hub.Attempt {
	return p.webhook.Attempt(ctx, sink.Job{
		Event: probe.Event, Delivery: probe.Delivery, AttemptID: probe.AttemptID, Number: 1,
		URL: probe.URL, Signer: probe.Signer, Timeout: probe.Timeout,
	})
}
