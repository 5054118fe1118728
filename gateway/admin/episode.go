package admin

import (
	"fmt"
	"time"
)

// remembered is how long the headline remembers that requests were rejected or failed.
const remembered = 10 * time.Minute

// An Episode is a time in which requests were rejected or failed.
type Episode struct {
	// Until is when the last one was.
	Until time.Time
	// Rejected and Failed are how many were, of All.
	Rejected, Failed, All float64
	// Busy and KV are the most of any worker meanwhile.
	Busy, KV float64
}

// lastEpisode returns what happened in the time that is remembered; nil if nothing did.
func (h *History) lastEpisode() *Episode {
	var e Episode
	for i := 1; i < len(h.ring); i++ {
		from, to := h.at(i-1), h.at(i)
		rejected := delta(from.TurnedAwayTotal, to.TurnedAwayTotal)
		failed := delta(from.FailedTotal, to.FailedTotal)
		if h.latest.At.Sub(to.At) > remembered || rejected+failed == 0 {
			continue
		}
		e.Until = to.At
		e.Rejected += rejected
		e.Failed += failed
		e.All += delta(from.ended(), to.ended())
		for j := range to.Workers {
			e.Busy, e.KV = max(e.Busy, to.Workers[j].Busy), max(e.KV, to.Workers[j].KV)
		}
	}
	if e.Until.IsZero() {
		return nil
	}
	return &e
}

// cause returns the bottleneck of the episode.
func (e *Episode) cause() string {
	switch {
	case e.Failed > e.Rejected:
		return ByFailures
	case e.KV >= kvFull:
		return ByKV
	case e.Busy >= busyAll:
		return ByCompute
	}
	return ByQueue
}

// remedies are what helps against a bottleneck that is over.
var remedies = map[string]string{
	ByFailures: "The log has level ERROR for each, with the request id.",
	ByKV:       "If it happens again, enlarge the memory with --kv-tokens or add a worker.",
	ByCompute:  "If it happens again, add a worker.",
	ByQueue:    "See the reason in parley_shed_total; --queue-depth and --queue-wait set the limits of the queue.",
}

func (e *Episode) sentence(now time.Time) string {
	what := fmt.Sprintf("%.0f of %.0f requests were rejected", e.Rejected, e.All)
	if e.cause() == ByFailures {
		what = fmt.Sprintf("%.0f of %.0f requests failed with server errors", e.Failed, e.All)
	}
	why := map[string]string{
		ByKV:      fmt.Sprintf(" while key/value memory was %.0f%% full", 100*e.KV),
		ByCompute: fmt.Sprintf(" while compute was %.0f%% busy", 100*e.Busy),
		ByQueue:   fmt.Sprintf(" although workers were at most %.0f%% busy", 100*e.Busy),
	}[e.cause()]
	minutes := max(1, int(now.Sub(e.Until).Round(time.Minute)/time.Minute))
	ago := fmt.Sprintf("%d minutes ago", minutes)
	if minutes == 1 {
		ago = "a minute ago"
	}
	return fmt.Sprintf("All clear now. Until %s, %s%s.", ago, what, why)
}
