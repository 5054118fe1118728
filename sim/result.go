package sim

import (
	"fmt"
	"time"

	"parley/engine/sched"
	"parley/sim/cost"
)

// A Spread is the percentiles of a time, in seconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func spreadOf(h *histogram) Spread {
	return Spread{h.at(0.5).Seconds(), h.at(0.95).Seconds(), h.at(0.99).Seconds()}
}

// Figures are what became of requests.
type Figures struct {
	Name string `json:"name,omitempty"`
	// Arrived counts requests, Retried further attempts of them. Rejected and HungUp
	// count attempts, Failed requests that no worker could ever hold, Moved those that
	// a lost worker had.
	Arrived  uint64 `json:"arrived"`
	Retried  uint64 `json:"retried"`
	Rejected uint64 `json:"rejected"`
	HungUp   uint64 `json:"hung_up"`
	// Limited counts attempts that a limit of their organisation refused, Truncated answers
	// that one ended.
	Limited   uint64 `json:"limited,omitzero"`
	Truncated uint64 `json:"truncated,omitzero"`
	Failed    uint64 `json:"failed"`
	Moved     uint64 `json:"moved"`
	Finished  uint64 `json:"finished"`
	// Attainment is the share of requests that were answered within the objectives,
	// counted from the first attempt; Goodput is how many of those there were in a second.
	Attainment float64 `json:"attainment"`
	Goodput    float64 `json:"goodput"`
	// Throughput is in output tokens per second.
	Throughput float64 `json:"throughput"`
	// HitRate is the share of prompt tokens that were found in a cache.
	HitRate float64 `json:"hit_rate"`
	// TTFT counts from an attempt's arrival, Queue is the part of it before the
	// request was sent to a worker.
	TTFT  Spread `json:"ttft"`
	TPOT  Spread `json:"tpot"`
	Queue Spread `json:"queue"`
}

func (t *tally) figures(name string, over time.Duration) Figures {
	s := Figures{
		Name:      name,
		Arrived:   t.arrived,
		Retried:   t.retried,
		Rejected:  t.rejected,
		HungUp:    t.hungUp,
		Limited:   t.limited,
		Truncated: t.truncated,
		Failed:    t.failed,
		Moved:     t.moved,
		Finished:  t.finished,
		TTFT:      spreadOf(&t.ttft),
		TPOT:      spreadOf(&t.tpot),
		Queue:     spreadOf(&t.wait),
	}
	s.Attainment = ratio(float64(t.good), float64(t.arrived))
	s.Goodput = ratio(float64(t.good), over.Seconds())
	s.Throughput = ratio(float64(t.output), over.Seconds())
	s.HitRate = ratio(float64(t.cached), float64(t.prompt))
	return s
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Replicas is what the workers did.
type Replicas struct {
	// Count and Ready are means; the former has those that start.
	Count float64 `json:"replicas"`
	Ready float64 `json:"ready"`
	// KV is the mean share of blocks that sequences use, KVMost that of the fullest
	// worker at the fullest moment.
	KV     float64 `json:"kv"`
	KVMost float64 `json:"kv_most"`
	// Running and Queued are means of requests. Busy is the share of the ready workers'
	// time in which they compute: what a GPU's utilisation shows.
	Running   float64 `json:"running"`
	Queued    float64 `json:"queued"`
	Busy      float64 `json:"busy"`
	Preempted uint64  `json:"preempted"`
	Passes    uint64  `json:"passes"`
	Dollars   float64 `json:"dollars"`
	// Gap is the time between two tokens of an answer, over the whole run.
	Gap Spread `json:"gap,omitzero"`
}

func (w *window) replicasUsed() Replicas {
	n := float64(max(1, w.samples))
	return Replicas{
		Count:     float64(w.replicas) / n,
		Ready:     float64(w.ready) / n,
		KV:        w.kv / n,
		KVMost:    w.kvMost,
		Running:   float64(w.running) / n,
		Queued:    float64(w.queued) / n,
		Busy:      ratio((w.busy[0] + w.busy[1]).Seconds(), float64(w.ready)*probeEvery.Seconds()),
		Preempted: w.preempted,
		Passes:    w.passes,
		Dollars:   w.dollars,
	}
}

// A Row is a window of time.
type Row struct {
	// At is its beginning, in seconds.
	At float64 `json:"at"`
	Figures
	Replicas
	// Bottleneck is what limited the fleet, if the objectives were missed.
	Bottleneck string `json:"bottleneck"`
}

// A Result is what a run gave. Times are in seconds.
type Result struct {
	Name     string  `json:"name"`
	About    string  `json:"about,omitempty"`
	Seed     uint64  `json:"seed"`
	Duration float64 `json:"duration"`
	// TTFT and TPOT are the objectives.
	TTFT float64 `json:"ttft_objective"`
	TPOT float64 `json:"tpot_objective"`
	// Window is the distance of two rows.
	Window  float64   `json:"window"`
	Total   Figures   `json:"total"`
	Fleet   Replicas  `json:"fleet"`
	Traffic []Figures `json:"traffic"`
	Rows    []Row     `json:"rows"`
	// Refused are what limits refused, by organisation, the most first.
	Refused []Refusals `json:"refused,omitempty"`
	// Findings say in sentences what bound when.
	Findings []string `json:"findings"`
}

// newResult sums up a run.
func newResult(s *Scenario, m *meter, traffic []Figures, refused []Refusals) *Result {
	over := m.clock.now
	r := &Result{
		Name:     s.Name,
		About:    s.About,
		Seed:     s.Seed,
		Duration: over.Seconds(),
		TTFT:     s.TTFT.Seconds(),
		TPOT:     s.TPOT.Seconds(),
		Window:   s.Window.Seconds(),
		Traffic:  traffic,
		Refused:  refused,
	}
	var all window
	for i, w := range m.windows {
		all.merge(w)
		r.Rows = append(r.Rows, Row{
			At:         (time.Duration(i) * s.Window).Seconds(),
			Figures:    w.figures("", min(s.Window, over-time.Duration(i)*s.Window)),
			Replicas:   w.replicasUsed(),
			Bottleneck: m.bottleneck(w),
		})
	}
	r.Total, r.Fleet = all.figures("", over), all.replicasUsed()
	r.Fleet.Gap = spreadOf(&m.gaps)
	r.Findings = r.findings()
	return r
}

// The bottlenecks.
const (
	noBottleneck = ""
	kvMemory     = "KV memory"
	seats        = "seats"
	arithmetic   = "compute"
	bandwidth    = "bandwidth"
	workers      = "no worker"
)

// kvFull is the share of blocks in use from which memory is what requests wait for.
const kvFull = 0.85

// bottleneck returns what limited the fleet in a window: nothing while the objectives
// were met and no request was rejected.
func (m *meter) bottleneck(w *window) string {
	slow := w.ttft.n > 0 && w.ttft.at(0.95) > m.ttft || w.tpot.n > 0 && w.tpot.at(0.95) > m.tpot
	if !slow && w.rejected+w.hungUp == 0 {
		return noBottleneck
	}
	mean := w.kv / float64(max(1, w.samples))
	turn, seat, memory := w.held[sched.ForTurn], w.held[sched.ForSeat], w.held[sched.ForMemory]
	switch {
	case w.samples > 0 && w.ready == 0:
		return workers
	case memory > max(turn, seat) || mean > kvFull:
		return kvMemory
	case seat > max(turn, memory):
		return seats
	case w.busy[cost.Memory] > w.busy[cost.Arithmetic]:
		return bandwidth
	}
	return arithmetic
}

// findings describes the spans of time with one bottleneck.
func (r *Result) findings() (out []string) {
	at := func(i int) time.Duration {
		return time.Duration(min(float64(i)*r.Window, r.Duration) * float64(time.Second)).Round(time.Second)
	}
	for i := 0; i < len(r.Rows); {
		end, what := i+1, r.Rows[i].Bottleneck
		worst := r.Rows[i].Figures.TTFT.P95
		rejected := r.Rows[i].Rejected + r.Rows[i].HungUp
		for ; end < len(r.Rows) && r.Rows[end].Bottleneck == what; end++ {
			worst = max(worst, r.Rows[end].Figures.TTFT.P95)
			rejected += r.Rows[end].Rejected + r.Rows[end].HungUp
		}
		if what != noBottleneck {
			out = append(out, fmt.Sprintf(
				"From %v to %v the bottleneck is %s: TTFT p95 up to %.2f s, %d attempts rejected or given up.",
				at(i), at(end), what, worst, rejected))
		}
		i = end
	}
	if len(out) == 0 {
		out = append(out, "The objectives are met throughout.")
	}
	return out
}
