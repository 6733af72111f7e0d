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
	job := sink.Job{
		Event: probe.Event, Delivery: probe.Delivery, AttemptID: probe.AttemptID, Number: 1,
		URL: probe.URL, Signer: probe.Signer, Timeout: probe.Timeout, Headers: probe.Headers,
	}
	if probe.CredentialHeader != "" {
		job.Credential = &sink.Credential{Header: probe.CredentialHeader, Value: probe.Credential}
	}
	if probe.Certificate != nil {
		certificate, err := sink.NewCertificate([]byte(probe.Certificate.Chain), probe.Certificate.Key)
		if err != nil {
			return hub.Attempt{ID: probe.AttemptID, Number: 1, Failure: hub.Failure{Class: hub.ErrNoSecret, Phase: hub.PhasePrepare, Detail: err.Error()}}
		}
		job.Certificate = certificate
	}
	return p.webhook.Attempt(ctx, job)
}
