// Package replay carries replay jobs out: it freezes their sets and releases
// their items into the delivery queue, where they are deliveries like any
// other.
//
// The rules are in hub/replay. What must hold, and why:
//
//   - All state is in Postgres, and each piece of work is one transaction under
//     the job's row lock: a kill at any moment loses and repeats nothing, and
//     any number of processes may do this at once.
//   - A piece of work is small, and jobs take turns: none waits for a huge one.
package replay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

const (
	// stepEvery is how often running jobs release what their rate allows.
	stepEvery = 250 * time.Millisecond
	// scanChunk is how much of a preview one transaction freezes.
	scanChunk = 500
	// maxJobs bounds the jobs that are looked after at once.
	maxJobs = 1000
)

// Store keeps the jobs of all replicas.
type Store interface {
	// ActiveReplayJobs are those that are PREVIEWING, READY or RUNNING.
	ActiveReplayJobs(ctx context.Context, limit int) ([]db.ActiveJob, error)
	// ScanReplay freezes the next part of a job's set, and says whether there
	// is more of it. While another replica is at the job it does nothing, and
	// there is no more.
	ScanReplay(ctx context.Context, id hub.JobID, chunk int, feedID hub.ID) (more bool, err error)
	// StepReplay does what decide says of the job; it does nothing while
	// another replica is at the job.
	StepReplay(ctx context.Context, id hub.JobID, feedID hub.ID, decide func(j *hub.ReplayJob, now time.Time) replay.Step) (did bool, err error)
}

// Deps are what a Runner works with.
type Deps struct {
	Store   Store
	Now     func() time.Time
	Random  io.Reader
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Runner carries jobs out.
type Runner struct {
	deps   Deps
	active *prometheus.GaugeVec
	items  prometheus.Counter

	// failing are the causes of errors since the last look, failed those from
	// before: a cause is logged when it is new.
	failing, failed map[string]bool
}

// New makes a runner; Run starts it.
func New(d Deps) *Runner {
	r := &Runner{
		deps: d,
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "streaming_hub_replay_jobs",
			Help: "Replay jobs of all replicas that have not ended and are not paused, by state.",
		}, []string{"state"}),
		items: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_replay_items_total",
			Help: "Items of replay jobs that this process took up: released into the delivery queue, or skipped.",
		}),
	}
	d.Metrics.MustRegister(r.active, r.items)
	return r
}

// Run works until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	var work []db.ActiveJob
	for {
		if len(work) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				work = r.look(ctx)
			}
		} else {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				work = r.look(ctx)
			default:
			}
		}
		work = r.pass(ctx, work)
	}
}

// look finds the jobs that may need something.
func (r *Runner) look(ctx context.Context) []db.ActiveJob {
	r.failing, r.failed = nil, r.failing
	jobs, err := r.deps.Store.ActiveReplayJobs(ctx, maxJobs)
	if err != nil {
		r.note(ctx, err)
		return nil
	}
	count := map[hub.JobState]int{}
	for _, j := range jobs {
		count[j.State]++
	}
	for _, state := range []hub.JobState{hub.JobPreviewing, hub.JobReady, hub.JobRunning} {
		r.active.WithLabelValues(string(state)).Set(float64(count[state]))
	}
	return jobs
}

// pass does one piece of work of each job and returns the jobs that have more
// right now.
func (r *Runner) pass(ctx context.Context, jobs []db.ActiveJob) (rest []db.ActiveJob) {
	for _, j := range jobs {
		if ctx.Err() != nil {
			return nil
		}
		more, err := r.piece(ctx, j)
		if err != nil {
			r.note(ctx, err)
		} else if more {
			rest = append(rest, j)
		}
	}
	return rest
}

func (r *Runner) piece(ctx context.Context, j db.ActiveJob) (more bool, err error) {
	now := r.deps.Now()
	feedID := hub.NewID(now, r.deps.Random)
	old := now.Sub(j.CreatedAt) >= replay.MaxWait
	switch {
	case j.State == hub.JobPreviewing && !old:
		return r.deps.Store.ScanReplay(ctx, j.ID, scanChunk, feedID)
	case j.State == hub.JobReady && !old:
		return false, nil // waits for people
	}
	var step replay.Step
	did, err := r.deps.Store.StepReplay(ctx, j.ID, feedID, func(job *hub.ReplayJob, now time.Time) replay.Step {
		step = replay.Next(job, now)
		return step
	})
	if err != nil || !did {
		return false, err
	}
	r.items.Add(float64(step.Release))
	return step.Release == replay.MaxRelease, nil
}

// note logs an error unless its cause is known.
func (r *Runner) note(ctx context.Context, err error) {
	cause := err
	for next := err; next != nil; next = errors.Unwrap(next) {
		cause = next
	}
	text := cause.Error()
	if !r.failed[text] && !r.failing[text] && ctx.Err() == nil {
		r.deps.Log.Warn("cannot go on with replay jobs; trying again", "error", err)
	}
	if r.failing == nil {
		r.failing = map[string]bool{}
	}
	r.failing[text] = true
}
