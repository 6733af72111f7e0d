package replay

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Explain says in one sentence where a job stands and what comes next.
func Explain(j *hub.ReplayJob, now time.Time) string {
	switch j.State {
	case hub.JobPreviewing:
		return fmt.Sprintf("The set is being frozen: %s so far.", items(j.Total))
	case hub.JobReady:
		if offerEnds(j, now) {
			return "The preview is older than 24 h: the job expires."
		}
		return fmt.Sprintf("%s can be started until %s.", items(j.Total), j.PreviewedAt.Add(MaxWait).UTC().Format(time.RFC3339))
	case hub.JobRunning:
		return explainRun(j)
	case hub.JobPaused:
		by := "a user"
		if j.PausedBy == hub.DisabledByAuto {
			by = "the hub"
		}
		return fmt.Sprintf("Paused by %s%s; %s until it is resumed.", by, because(j), waits(j))
	case hub.JobCompleted:
		return fmt.Sprintf("%s are done: %d delivered, %d dead, %d skipped.", items(j.Total), j.Delivered, j.Dead, j.Skipped)
	case hub.JobCancelled:
		s := fmt.Sprintf("Cancelled%s; %d of %s were released", because(j), j.Released, items(j.Total))
		if open := j.Open(); open > 0 {
			s += fmt.Sprintf(", %d of them have no end yet", open)
		}
		return s + "."
	case hub.JobExpired:
		return fmt.Sprintf("Expired%s.", because(j))
	default:
		return fmt.Sprintf("Failed%s.", because(j))
	}
}

func explainRun(j *hub.ReplayJob) string {
	pending := j.Pending()
	waiting := max(MinUntried, UntriedSeconds*int64(j.Pace.RatePerSecond))
	switch {
	case pending <= 0 && j.Open() > 0:
		return fmt.Sprintf("No item is pending any more; %d of %s have no end yet.", j.Open(), items(j.Total))
	case pending <= 0:
		return "Each item has its end: the job completes."
	case onCanary(j) && canaryLeft(j) == 0 && untried(j) > 0:
		return fmt.Sprintf("The canary is out: %d of its %s have not been tried yet; the other %d follow if at most %d %% fail.",
			untried(j), items(j.Released), pending, j.Pace.PauseAbovePercent)
	case onCanary(j):
		return fmt.Sprintf("The canary goes first: %d of %s are released; the other %d follow when each of them was tried, if at most %d %% fail.",
			j.Released, items(j.Released+canaryLeft(j)), pending-canaryLeft(j), j.Pace.PauseAbovePercent)
	case untried(j) >= waiting:
		return fmt.Sprintf("%s wait for their first try; the other %d follow when fewer than %d wait.", items(untried(j)), pending, waiting)
	default:
		return fmt.Sprintf("%d of %s are released; the other %d follow at %d per second, in %s or longer.",
			j.Released, items(j.Total), pending, j.Pace.RatePerSecond,
			take(pending, float64(j.Pace.RatePerSecond)).Round(time.Second))
	}
}

// because is a job's reason as part of a sentence.
func because(j *hub.ReplayJob) string {
	if j.Reason == "" {
		return ""
	}
	return ": " + j.Reason
}

func waits(j *hub.ReplayJob) string {
	if n := j.Pending(); n != 1 {
		return fmt.Sprintf("%d items wait", n)
	}
	return "1 item waits"
}

func items(n int64) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}
