package e2e

import (
	"context"
	"testing"
)

// logIn uses the settings for SCRAM, without and with TLS.
func logIn(ctx context.Context, t *testing.T, r *kafkaRig) {
	if r.kafka.LoginBrokers() == nil {
		t.Skipf("%s has no listener with a login", r.kafka.Origin)
	}
	r.createTopic(ctx, t, "lender", kafkaPartitions, nil)
	client := r.connect(t)
	start := func(broker, password string, more ...string) *planeProcess {
		t.Helper()
		return r.startOn(t, broker, append(append(r.environ[:len(r.environ):len(r.environ)],
			"STREAMING_HUB_KAFKA_SCRAM_USERNAME="+scramUser, "STREAMING_HUB_KAFKA_SCRAM_PASSWORD="+password), more...)...)
	}

	plane := start(r.kafka.LoginBrokers()[0], "wrong")
	plane.unready(ctx, t, "Kafka: ")
	plane.unready(ctx, t, "SASL")
	plane.stop(t)

	for _, mechanism := range []string{"SCRAM-SHA-512", "SCRAM-SHA-256"} {
		plane = start(r.kafka.LoginBrokers()[0], scramPassword, "STREAMING_HUB_KAFKA_SCRAM_MECHANISM="+mechanism)
		publish(ctx, t, client, r.facts("lender", 10, 0)...)
		r.arrived(ctx, t, r.sent)
		plane.stop(t)
	}

	start(r.kafka.TLSBrokers()[0], scramPassword, "STREAMING_HUB_KAFKA_TLS_ENABLED=true", "SSL_CERT_FILE="+r.kafka.CAFile())
	publish(ctx, t, client, r.facts("lender", 10, 0)...)
	r.arrived(ctx, t, r.sent)
}
