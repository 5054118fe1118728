package admin

import (
	"cmp"
	"sort"
	"time"

	"parley"

	dto "github.com/prometheus/client_model/go"
)

// A Reading has the counters of a server at one moment. Fields that end in Total only
// grow.
type Reading struct {
	At time.Time
	// Requests that succeeded, failed with a server error, were rejected for lack of
	// capacity, exceeded a limit of their tenant, were invalid, and were cancelled.
	OKTotal, FailedTotal, TurnedAwayTotal, LimitedTotal, RefusedTotal, CancelledTotal float64
	// ShedTotal counts rejected requests by class.
	ShedTotal [parley.Classes]float64
	// RetriesTotal counts retries by clients.
	RetriesTotal float64
	// PromptTotal, CachedTotal and OutputTotal count tokens.
	PromptTotal, CachedTotal, OutputTotal float64
	InFlight                              float64
	// TTFT and Gap are the times to first token and between tokens, and Objectives the
	// same for the requests of each objective.
	TTFT, Gap  Histogram
	Objectives map[string]*Tokens
	// Waited, Prefill, Decode and Whole are how long answers were queued, prefilled and
	// decoded, and their total time.
	Waited, Prefill, Decode, Whole Histogram
	// FinishTotal counts answers by finish reason.
	FinishTotal map[string]float64
	// Queues has one queue for each model and pool.
	Queues []Queue
	// Fleet means that only Workers can compute.
	Fleet bool
	// Workers are the engines, local and remote.
	Workers []Worker
}

// Tokens has the times to first token and between tokens.
type Tokens struct{ TTFT, Gap Histogram }

// objective returns the times of the objective that labels a metric.
func (r *Reading) objective(m *dto.Metric) *Tokens {
	name := label(m, "objective")
	if r.Objectives[name] == nil {
		if r.Objectives == nil {
			r.Objectives = map[string]*Tokens{}
		}
		r.Objectives[name] = &Tokens{}
	}
	return r.Objectives[name]
}

// tokensOf returns the times of an objective. Without metrics of objectives, the
// default one has all.
func (r *Reading) tokensOf(objective string) *Tokens {
	switch t := r.Objectives[objective]; {
	case t != nil:
		return t
	case r.Objectives == nil && objective == parley.DefaultObjective:
		return &Tokens{r.TTFT, r.Gap}
	}
	return &Tokens{}
}

// A Queue has the queued requests of one model and pool.
type Queue struct {
	Model    string                  `json:"model"`
	Pool     string                  `json:"pool"`
	Waiting  [parley.Classes]int     `json:"-"`
	Shedding [parley.Classes]float64 `json:"-"`
	// WaitSeconds is how long the queued work will take.
	WaitSeconds     float64 `json:"wait_seconds"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	// ModelBreaker and WorkerBreaker are closed, trying or open.
	ModelBreaker  string `json:"model_breaker"`
	WorkerBreaker string `json:"worker_breaker"`
}

// A Worker is what one worker reports about itself.
type Worker struct {
	Name  string `json:"name"`
	Pool  string `json:"pool"`
	Model string `json:"model"`
	// Kind is its protocol, such as parley or vllm; Version is its program's.
	Kind    string `json:"kind,omitempty"`
	Version string `json:"version,omitempty"`
	// State is up, or why it gets no requests: joining, draining, failing, down, asleep,
	// waking. Trouble is what went wrong, if known.
	State   string `json:"state"`
	Trouble string `json:"trouble,omitempty"`
	// Sleeps means that it can be put to sleep and woken.
	Sleeps  bool `json:"sleeps,omitempty"`
	Running int  `json:"running"`
	Waiting int  `json:"waiting"`
	// KV is the share of the key/value pool in use.
	KV float64 `json:"kv"`
	// Hits is the cache hit rate of prompt tokens, Busy the share of time in which steps
	// were computed, Preemptions their number per second.
	Hits        float64 `json:"hits"`
	Busy        float64 `json:"busy"`
	Preemptions float64 `json:"preemptions"`
	// ReadySeconds is how long its model took to load, at the start or when it was last woken; 0 if
	// it does not say.
	ReadySeconds float64 `json:"ready_seconds,omitempty"`
	// Device is the GPU that it computes on, nil without one.
	Device *parley.DeviceState `json:"device,omitempty"`

	// The totals that these are computed from, if the worker reports them.
	PreemptedTotal, AskedTotal, HitTotal, BusyTotal float64 `json:"-"`
}

// LocalPool is the pool of workers in the gateway's own process.
const LocalPool = "local"

// Up is the state of a worker that gets requests.
const Up = "up"

// families are the metrics that readings consist of; each adds one of its numbers.
var families = map[string]func(r *Reading, m *dto.Metric){
	"parley_outcomes_total": func(r *Reading, m *dto.Metric) {
		if to := r.outcome(label(m, "outcome")); to != nil {
			*to += number(m)
		}
	},
	"parley_shed_total": func(r *Reading, m *dto.Metric) {
		r.ShedTotal[class(label(m, "tier"))] += number(m)
	},
	"parley_client_retries_total": func(r *Reading, m *dto.Metric) { r.RetriesTotal += number(m) },
	"parley_prompt_tokens_total":  func(r *Reading, m *dto.Metric) { r.PromptTotal += number(m) },
	"parley_cached_tokens_total":  func(r *Reading, m *dto.Metric) { r.CachedTotal += number(m) },
	"parley_output_tokens_total":  func(r *Reading, m *dto.Metric) { r.OutputTotal += number(m) },
	"parley_requests_in_flight":   func(r *Reading, m *dto.Metric) { r.InFlight += number(m) },
	"parley_ttft_seconds": func(r *Reading, m *dto.Metric) {
		r.TTFT.add(m.GetHistogram())
		r.objective(m).TTFT.add(m.GetHistogram())
	},
	"parley_inter_token_seconds": func(r *Reading, m *dto.Metric) {
		r.Gap.add(m.GetHistogram())
		r.objective(m).Gap.add(m.GetHistogram())
	},
	"parley_decode_seconds": func(r *Reading, m *dto.Metric) { r.Decode.add(m.GetHistogram()) },
	"parley_answer_seconds": func(r *Reading, m *dto.Metric) { r.Whole.add(m.GetHistogram()) },
	"parley_stage_seconds": func(r *Reading, m *dto.Metric) {
		switch label(m, "stage") {
		case "queue":
			r.Waited.add(m.GetHistogram())
		case "prefill":
			r.Prefill.add(m.GetHistogram())
		}
	},
	"parley_finish_total": func(r *Reading, m *dto.Metric) {
		if r.FinishTotal == nil {
			r.FinishTotal = map[string]float64{}
		}
		r.FinishTotal[label(m, "reason")] += number(m)
	},
	"parley_queue_waiting": func(r *Reading, m *dto.Metric) {
		r.queue(m).Waiting[class(label(m, "tier"))] = int(number(m))
	},
	"parley_queue_shedding_ratio": func(r *Reading, m *dto.Metric) {
		r.queue(m).Shedding[class(label(m, "tier"))] = number(m)
	},
	"parley_queue_estimated_wait_seconds": func(r *Reading, m *dto.Metric) { r.queue(m).WaitSeconds = number(m) },
	"parley_queue_tokens_per_second":      func(r *Reading, m *dto.Metric) { r.queue(m).TokensPerSecond = number(m) },
	"parley_breaker_state":                (*Reading).breaker,

	"parley_engine_running":  func(r *Reading, m *dto.Metric) { r.engine(m).Running += int(number(m)) },
	"parley_engine_waiting":  func(r *Reading, m *dto.Metric) { r.engine(m).Waiting += int(number(m)) },
	"parley_engine_kv_usage": func(r *Reading, m *dto.Metric) { r.engine(m).KV = number(m) },
	"parley_engine_preemptions_total": func(r *Reading, m *dto.Metric) {
		r.engine(m).PreemptedTotal += number(m)
	},
	"parley_engine_prefix_tokens_total":     func(r *Reading, m *dto.Metric) { r.engine(m).AskedTotal += number(m) },
	"parley_engine_prefix_hit_tokens_total": func(r *Reading, m *dto.Metric) { r.engine(m).HitTotal += number(m) },
	"parley_engine_step_seconds": func(r *Reading, m *dto.Metric) {
		r.engine(m).BusyTotal += m.GetHistogram().GetSampleSum()
	},
}

// Read returns a reading of what a registry gathered. Engines in this process are
// named by their models; remote workers are not included.
func Read(gathered []*dto.MetricFamily, at time.Time) *Reading {
	r := &Reading{At: at}
	for _, f := range gathered {
		take := families[f.GetName()]
		if parley.IsDeviceMetric(f.GetName()) {
			take = func(r *Reading, m *dto.Metric) { r.device(f.GetName(), m) }
		}
		if take == nil {
			continue
		}
		for _, m := range f.GetMetric() {
			take(r, m)
		}
	}
	sort.Slice(r.Workers, func(i, j int) bool {
		a, b := &r.Workers[i], &r.Workers[j]
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Model, b.Model)) < 0
	})
	return r
}

// The outcomes of requests, as parley_outcomes_total names them.
const (
	OK         = "ok"
	Failed     = "failed"
	TurnedAway = "turned_away"
	Limited    = "limited"
	Refused    = "refused"
	Cancelled  = "cancelled"
)

// OutcomeOf returns the outcome of a request that ended with code; "" means success.
func OutcomeOf(code parley.Code) string {
	switch code {
	case "":
		return OK
	case parley.Cancelled:
		return Cancelled
	case parley.Overloaded, parley.Unavailable:
		return TurnedAway
	case parley.Internal, parley.DeadlineExceeded:
		return Failed
	case parley.RateLimited, parley.QuotaExceeded:
		return Limited
	}
	return Refused
}

func (r *Reading) outcome(name string) *float64 {
	switch name {
	case OK:
		return &r.OKTotal
	case Failed:
		return &r.FailedTotal
	case TurnedAway:
		return &r.TurnedAwayTotal
	case Limited:
		return &r.LimitedTotal
	case Refused:
		return &r.RefusedTotal
	case Cancelled:
		return &r.CancelledTotal
	}
	return nil
}

// breakerStates are what the numbers of parley_breaker_state mean.
var breakerStates = []string{"closed", "trying", "open"}

func (r *Reading) breaker(m *dto.Metric) {
	q, state := r.queue(m), breakerStates[min(max(int(number(m)), 0), len(breakerStates)-1)]
	if label(m, "kind") == "worker" {
		q.WorkerBreaker = state
	} else {
		q.ModelBreaker = state
	}
}

// queue returns the queue that labels a metric.
func (r *Reading) queue(m *dto.Metric) *Queue {
	model, pool := label(m, "model"), label(m, "pool")
	for i := range r.Queues {
		if q := &r.Queues[i]; q.Model == model && q.Pool == pool {
			return q
		}
	}
	r.Queues = append(r.Queues, Queue{Model: model, Pool: pool})
	return &r.Queues[len(r.Queues)-1]
}

// engine returns the worker in this process that labels a metric.
func (r *Reading) engine(m *dto.Metric) *Worker {
	model := label(m, "model_name")
	for i := range r.Workers {
		if r.Workers[i].Model == model {
			return &r.Workers[i]
		}
	}
	r.Workers = append(r.Workers, Worker{Name: model, Pool: LocalPool, Model: model, State: Up})
	return &r.Workers[len(r.Workers)-1]
}

// device takes in a metric of the GPU of a worker in this process. Those of remote workers have
// no model_name.
func (r *Reading) device(name string, m *dto.Metric) {
	if label(m, "model_name") == "" {
		return
	}
	w := r.engine(m)
	if w.Device == nil {
		w.Device = &parley.DeviceState{}
	}
	w.Device.SetMetric(name, number(m), func(name string) string { return label(m, name) })
}

func number(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// class returns the class of a name; the lowest for unknown names.
func class(name string) parley.Class {
	for c := range parley.Class(parley.Classes) {
		if c.String() == name {
			return c
		}
	}
	return 0
}

// forgetWorkers replaces the workers of a reading by one aggregate.
func (r *Reading) forgetWorkers() {
	if len(r.Workers) < 2 {
		return
	}
	all := Worker{Name: "*"}
	for i := range r.Workers {
		w := &r.Workers[i]
		all.Running += w.Running
		all.Waiting += w.Waiting
		all.Preemptions += w.Preemptions
		all.KV, all.Busy = max(all.KV, w.KV), max(all.Busy, w.Busy)
	}
	r.Workers = []Worker{all}
}

// raise makes loads the larger ones of the worker and of what it was among others.
func (w *Worker) raise(others []Worker) {
	for i := range others {
		if o := &others[i]; o.Name == w.Name && o.Model == w.Model {
			w.KV, w.Waiting = max(w.KV, o.KV), max(w.Waiting, o.Waiting)
		}
	}
}

// compare computes what a worker did since an earlier reading. A worker without totals
// reports shares itself.
func (w *Worker) compare(from *Reading, elapsed time.Duration) {
	for i := range from.Workers {
		b := &from.Workers[i]
		if b.Name != w.Name || b.Model != w.Model {
			continue
		}
		w.Preemptions = round(delta(b.PreemptedTotal, w.PreemptedTotal) / elapsed.Seconds())
		if asked := delta(b.AskedTotal, w.AskedTotal); asked > 0 {
			w.Hits = share(delta(b.HitTotal, w.HitTotal), asked)
		}
		if w.BusyTotal > 0 {
			w.Busy = min(round(delta(b.BusyTotal, w.BusyTotal)/elapsed.Seconds()), 1)
		}
	}
}

// name is the model's, with the pool if there may be several.
func (q *Queue) name() string {
	if q.Pool == "" || q.Pool == LocalPool {
		return q.Model
	}
	return q.Model + " in pool " + q.Pool
}

// ended counts all requests that ended.
func (r *Reading) ended() float64 {
	return r.OKTotal + r.FailedTotal + r.TurnedAwayTotal + r.LimitedTotal + r.RefusedTotal + r.CancelledTotal
}
