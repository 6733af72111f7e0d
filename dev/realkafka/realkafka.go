// Package realkafka gives tests a real Apache Kafka beside the embedded
// broker, without asking anybody to set one up. It takes the first of these
// that is there:
//
//  1. brokers named by STREAMING_HUB_TEST_KAFKA_BROKERS,
//  2. an unpacked Kafka, named by STREAMING_HUB_TEST_KAFKA_DIR or left in the
//     user's cache folder by an earlier run,
//  3. Kafka resolved by Maven into that cache folder,
//  4. Docker, when an engine answers,
//
// and otherwise says in one sentence why there is none: the error is
// ErrNotToBeHad, on which a test skips.
//
// A server that it starts is a single KRaft node on 127.0.0.1 with its data in
// a throw-away folder; it does not outlive the process that asked for it, see
// package leash.
//
// It is for tests only.
package realkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Version of Apache Kafka that is resolved by Maven and run in Docker.
const Version = "4.4.0"

// What the environment may name.
const (
	// BrokersEnv lists host:port addresses, with commas between them.
	BrokersEnv = "STREAMING_HUB_TEST_KAFKA_BROKERS"
	// DirEnv is a folder with Kafka's jars in libs/, as its archive unpacks.
	DirEnv = "STREAMING_HUB_TEST_KAFKA_DIR"
)

// ErrNotToBeHad is wrapped by the error of Start when this machine has no
// Kafka and no means of getting one. The error's text is one sentence.
var ErrNotToBeHad = errors.New("no Apache Kafka is to be had")

// missing is why one way to a Kafka is not open.
type missing string

func missingf(format string, args ...any) error { return missing(fmt.Sprintf(format, args...)) }

func (m missing) Error() string { return string(m) }

// Is makes each of them ErrNotToBeHad.
func (m missing) Is(target error) bool { return target == ErrNotToBeHad }

// Options say which Kafka is wanted.
type Options struct {
	// Users by name, with their passwords: they may log in by SCRAM-SHA-512
	// and SCRAM-SHA-256. Only a Kafka that runs as a program has them.
	Users map[string]string
	// Settings are further server settings, such as
	// log.retention.ms=1000. They outrank the package's own.
	Settings map[string]string
}

// Kafka is a running cluster of one broker.
type Kafka struct {
	// Origin says in a few words where it comes from.
	Origin string

	plain, login, tls string // addresses; "" where there is no such listener
	caFile            string
	stop              func() error
	closeOnce         sync.Once
	closeErr          error
}

// Brokers are the addresses that neither encrypt nor ask for a login.
func (k *Kafka) Brokers() []string { return strings.Split(k.plain, ",") }

// LoginBrokers are the addresses that ask for a SCRAM login, unencrypted; nil
// when there are none.
func (k *Kafka) LoginBrokers() []string { return addresses(k.login) }

// TLSBrokers are the addresses that encrypt by TLS and ask for a SCRAM login;
// nil when there are none.
func (k *Kafka) TLSBrokers() []string { return addresses(k.tls) }

// CAFile holds the certificate, in PEM form, that the TLS addresses are to be
// trusted by.
func (k *Kafka) CAFile() string { return k.caFile }

func addresses(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// Close stops a Kafka that Start started and removes its data. Further calls
// do nothing.
func (k *Kafka) Close() error {
	k.closeOnce.Do(func() {
		if k.stop != nil {
			k.closeErr = k.stop()
		}
	})
	return k.closeErr
}

// Start finds or starts a Kafka and returns when it answers. ctx bounds the
// start only.
func Start(ctx context.Context, o Options) (*Kafka, error) {
	if brokers := os.Getenv(BrokersEnv); brokers != "" {
		return named(ctx, brokers)
	}
	libs, why := findLibs(ctx)
	if why == nil {
		return startProgram(ctx, libs, o)
	}
	if !errors.Is(why, ErrNotToBeHad) {
		return nil, why
	}
	k, err := startContainer(ctx, o)
	if errors.Is(err, ErrNotToBeHad) {
		return nil, fmt.Errorf("%w: %w, and %w", ErrNotToBeHad, why, err)
	}
	return k, err
}

func named(ctx context.Context, brokers string) (*Kafka, error) {
	k := &Kafka{plain: brokers, Origin: "the brokers that " + BrokersEnv + " names"}
	if err := k.awaitAnswer(ctx, nil); err != nil {
		return nil, fmt.Errorf("%s=%s: %w", BrokersEnv, brokers, err)
	}
	return k, nil
}
