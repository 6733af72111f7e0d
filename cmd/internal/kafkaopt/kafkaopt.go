// Package kafkaopt turns the settings for Kafka into client options. It is
// apart from package settings so that the control plane, which reads settings
// too, links no Kafka.
package kafkaopt

import (
	"crypto/tls"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
)

// Options are brokers, TLS and log-in.
func Options(s settings.Settings) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.KafkaBrokers...),
		kgo.ClientID("streaming-hub"),
	}
	if s.KafkaTLSEnabled {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if s.KafkaSCRAM.Username != "" {
		auth := scram.Auth{User: s.KafkaSCRAM.Username, Pass: string(s.KafkaSCRAM.Password.Reveal())}
		if s.KafkaSCRAM.Mechanism == "SCRAM-SHA-256" {
			opts = append(opts, kgo.SASL(auth.AsSha256Mechanism()))
		} else {
			opts = append(opts, kgo.SASL(auth.AsSha512Mechanism()))
		}
	}
	return opts
}
