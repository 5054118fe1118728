package sim

import (
	"time"

	"parley/engine/sched"
	"parley/sim/cost"
)

// attemptCounts are of requests and their attempts.
type attemptCounts struct {
	arrived, retried, rejected, limited, truncated, hungUp, failed, finished, good, moved uint64
}

// tokenCounts are of requests that were served.
type tokenCounts struct{ prompt, cached, output uint64 }

// A tally is what is known of some requests: those of a kind of traffic, or in a window.
type tally struct {
	attemptCounts
	tokenCounts
	ttft, tpot, wait histogram
}

func (t *tally) merge(o *tally) {
	t.arrived += o.arrived
	t.retried += o.retried
	t.rejected += o.rejected
	t.limited += o.limited
	t.truncated += o.truncated
	t.hungUp += o.hungUp
	t.failed += o.failed
	t.finished += o.finished
	t.good += o.good
	t.moved += o.moved
	t.prompt += o.prompt
	t.cached += o.cached
	t.output += o.output
	t.ttft.merge(&o.ttft)
	t.tpot.merge(&o.tpot)
	t.wait.merge(&o.wait)
}

// A gauge is what was seen of workers, added up over samples.
type gauge struct {
	samples         int
	kv, kvMost      float64 // share of blocks in use
	running, queued int
	replicas, ready int
	dollars         float64
}

// A window is what is measured in a span of time.
type window struct {
	tally
	gauge
	busy              [2]time.Duration // of passes, by what they waited for
	held              [sched.Waits]time.Duration
	preempted, passes uint64
}

func (w *window) merge(o *window) {
	w.tally.merge(&o.tally)
	w.samples += o.samples
	w.kv += o.kv
	w.kvMost = max(w.kvMost, o.kvMost)
	w.running += o.running
	w.queued += o.queued
	w.replicas += o.replicas
	w.ready += o.ready
	w.dollars += o.dollars
	for i := range w.busy {
		w.busy[i] += o.busy[i]
	}
	for i := range w.held {
		w.held[i] += o.held[i]
	}
	w.preempted += o.preempted
	w.passes += o.passes
}

// A meter measures a run.
type meter struct {
	clock      *clock
	every      time.Duration
	ttft, tpot time.Duration // the objectives
	windows    []*window
	late       uint64 // answers outside of the objectives
	// gaps are the times between two tokens of an answer; those of a pass are often the same.
	gaps histogram
	last struct {
		gap    time.Duration
		bucket int
	}
}

// gap counts the time between two tokens.
func (m *meter) gap(d time.Duration) {
	if d != m.last.gap || m.gaps.n == 0 {
		m.last.gap, m.last.bucket = d, bucketOf(d)
		m.gaps.reach(m.last.bucket)
	}
	m.gaps.counts[m.last.bucket]++
	m.gaps.n++
}

// window returns the present one.
func (m *meter) window() *window {
	i := int(m.clock.now / m.every)
	for len(m.windows) <= i {
		m.windows = append(m.windows, &window{})
	}
	return m.windows[i]
}

// each changes the tallies that an event belongs to: of its traffic, and of its time.
func (m *meter) each(of *tally, change func(t *tally)) {
	change(&m.window().tally)
	change(of)
}

// began counts a first token.
func (m *meter) began(of *tally, at *times, prompt, cached int, waits [sched.Waits]time.Duration) {
	w := m.window()
	for i, d := range waits {
		w.held[i] += d
	}
	m.each(of, func(t *tally) {
		t.ttft.add(at.first - at.came + at.outside)
		t.wait.add(at.sent - at.came)
		t.prompt += uint64(prompt)
		t.cached += uint64(cached)
	})
}

// ended counts an answer that is complete.
func (m *meter) ended(of *tally, at *times, written int) {
	tpot := (m.clock.now - at.first) / time.Duration(max(1, written-1))
	good := at.first-at.born+at.outside <= m.ttft && tpot <= m.tpot
	if !good {
		m.late++
	}
	m.each(of, func(t *tally) {
		t.finished++
		t.output += uint64(written)
		if written > 1 {
			t.tpot.add(tpot)
		}
		if good {
			t.good++
		}
	})
}

// passed counts a pass, and how often sequences had to make room before it.
func (m *meter) passed(took time.Duration, limit cost.Limit, preempted uint64) {
	w := m.window()
	w.passes++
	w.busy[limit] += took
	w.preempted += preempted
}
