package replay

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/hub"
)

// bubble has a store whose receivers answer.
func bubble(t *testing.T, look func(t *testing.T, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		ctx, stop := context.WithCancel(t.Context())
		var answering sync.WaitGroup
		answering.Go(func() { m.deliver(ctx) })
		look(t, m)
		stop()
		answering.Wait()
	})
}

// process is a runner that works.
type process struct {
	*Runner
	log      bytes.Buffer
	registry *prometheus.Registry
	kill     context.CancelFunc
	ended    chan struct{}
}

func startProcess(t *testing.T, m *memory) *process {
	p := &process{registry: prometheus.NewRegistry(), ended: make(chan struct{})}
	p.Runner = New(Deps{Store: m, Now: time.Now, Random: rand.Reader, Metrics: p.registry, Log: slog.New(slog.NewTextHandler(&p.log, nil))})
	ctx, kill := context.WithCancel(t.Context())
	p.kill = kill
	go func() {
		defer close(p.ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return p
}

func (p *process) stop() {
	p.kill()
	<-p.ended
}

// await waits until a job is in a state.
func await(t *testing.T, m *memory, j *memoryJob, state hub.JobState, most time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		var is hub.JobState
		m.do(func() { is = j.State })
		if is == state {
			return
		}
		if time.Since(began) > most {
			m.do(func() { t.Fatalf("still %s after %v: %+v", is, most, j.ReplayJob) })
		}
	}
}

// check looks at a completed job: each item was released once, and no second
// saw more than rate.
func (j *memoryJob) check(t *testing.T, rate int) {
	t.Helper()
	if j.doubles > 0 || j.Released != j.source || j.Delivered+j.Dead != j.source {
		t.Errorf("%d items were released again; %d of %d were released, %d have an end", j.doubles, j.Released, j.source, j.Delivered+j.Dead)
	}
	most := 0
	for i := range j.out {
		sum := 0
		for _, r := range j.out[i:] {
			if r.at.Sub(j.out[i].at) >= time.Second {
				break
			}
			sum += r.n
		}
		most = max(most, sum)
	}
	if most > rate {
		t.Errorf("%d items in one second, allowed are %d", most, rate)
	}
	for i, sum := 0, 0; i < len(j.out); i++ {
		sum += j.out[i].n
		if d := j.out[i].at.Sub(j.StartedAt); int64(sum) > int64(d)*int64(j.Pace.RatePerSecond)/int64(time.Second) {
			t.Errorf("%d items in the first %v at %d per second", sum, d, j.Pace.RatePerSecond)
		}
	}
}

func (m *memory) ended(j *memoryJob) (ended bool) {
	m.do(func() { ended = j.State.Ended() })
	return ended
}
