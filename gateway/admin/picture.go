package admin

import (
	"math"
	"time"

	"parley"
)

// A Picture is the state of a server at one moment, with its rates and latencies over
// the time before.
type Picture struct {
	At time.Time `json:"at"`
	// Verdict names the bottleneck, in one sentence.
	Verdict Diagnosis `json:"verdict"`
	// Running counts requests being computed, Waiting queued ones by tier.
	Running int            `json:"running"`
	Waiting map[string]int `json:"waiting"`
	// WaitSeconds is how long a new request would be queued.
	WaitSeconds float64 `json:"wait_seconds"`
	Rates       Rates   `json:"rates"`
	TTFT        Spread  `json:"ttft"`
	Gap         Spread  `json:"gap"`
	// Times are the other latencies of answers.
	Times Times `json:"times"`
	// Finishes counts answers of the last hour by finish reason.
	Finishes map[string]float64 `json:"finishes"`
	// Hits is the share of prompt tokens that were not computed again.
	Hits float64 `json:"hits"`
	// KV is the fullest pool's share in use, Busy the busiest worker's.
	KV       float64   `json:"kv"`
	Busy     float64   `json:"busy"`
	Promises []Promise `json:"promises"`
	// Pools has the bottleneck of each pool of workers, if there are several.
	Pools   []PoolPicture  `json:"pools,omitempty"`
	Queues  []QueuePicture `json:"queues"`
	Workers []Worker       `json:"workers"`
	// fleet means that only Workers can compute.
	fleet bool
	// seconds is the time that rates are of.
	seconds float64
	// calm means that nothing is running or queued now, where the rest is the most of a
	// window.
	calm bool
}

// count returns how many events a rate of the picture is.
func (p *Picture) count(rate float64) float64 { return math.Round(rate * p.seconds) }

// Rates are events per second, averaged over about the last ten.
type Rates struct {
	Requests      float64            `json:"requests"`
	Prefill       float64            `json:"prefill_tokens"`
	Decode        float64            `json:"decode_tokens"`
	Failed        float64            `json:"failed"`
	TurnedAway    float64            `json:"turned_away"`
	Limited       float64            `json:"limited"`
	Refused       float64            `json:"refused"`
	Cancelled     float64            `json:"cancelled"`
	Retries       float64            `json:"retries"`
	Preemptions   float64            `json:"preemptions"`
	TurnedByClass map[string]float64 `json:"turned_away_by_tier"`
}

// A Spread has percentiles of a time in seconds over the last minute.
type Spread struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Count uint64  `json:"count"`
	// Top is set if a percentile lies beyond the last bucket: those that equal it are
	// longer than that.
	Top float64 `json:"top,omitempty"`
}

// Times are how long answers were queued, prefilled and decoded, and their total time.
type Times struct {
	Queue   Spread `json:"queue"`
	Prefill Spread `json:"prefill"`
	Decode  Spread `json:"decode"`
	Whole   Spread `json:"whole"`
}

// A PoolPicture is the state of one pool of workers.
type PoolPicture struct {
	Pool string `json:"pool"`
	// Up counts the workers that get requests, of all Workers.
	Up      int `json:"up"`
	Workers int `json:"workers"`
	// Waiting counts the queued requests.
	Waiting int       `json:"waiting"`
	Verdict Diagnosis `json:"verdict"`
}

// A Promise is one objective, and how well it is met.
type Promise struct {
	// Name is availability, ttft or gap. Objective names the requests that the latter
	// two apply to.
	Name      string `json:"name"`
	Objective string `json:"objective,omitempty"`
	// Goal is the share of requests or tokens that must meet Limit, a time in seconds;
	// 0 for availability.
	Goal  float64 `json:"goal"`
	Limit float64 `json:"limit_seconds,omitempty"`
	// Kept is the share that met it over the last hour.
	Kept float64 `json:"kept"`
	// Count is the number of requests or tokens in Kept.
	Count float64 `json:"count"`
	// Burn is the burn rate of the error budget over five minutes and over an hour: 1
	// spends exactly the budget. If both exceed 14.4, a month's budget is spent in two
	// days, which needs immediate action.
	Burn5m float64 `json:"burn_5m"`
	Burn1h float64 `json:"burn_1h"`
}

// The values of [Diagnosis.Bottleneck].
const (
	NoBottleneck = "none"
	ByQueue      = "queue"
	ByKV         = "kv"
	ByCompute    = "compute"
	ByClients    = "clients"
	ByFailures   = "failures"
)

// A Diagnosis names the bottleneck of a server: what keeps it from serving more
// or faster.
type Diagnosis struct {
	// Bottleneck is "none", queue, kv, compute, clients or failures.
	Bottleneck string `json:"bottleneck"`
	// Happy reports that SLOs are met and no request failed or was rejected.
	Happy    bool   `json:"happy"`
	Sentence string `json:"sentence"`
	// Past means that it is over, and still worth knowing.
	Past bool `json:"past,omitempty"`
	// Do is what the operator should do; empty if nothing.
	Do string `json:"do,omitempty"`
}

// A QueuePicture is a queue with its numbers by tier.
type QueuePicture struct {
	Queue
	Waiting  map[string]int     `json:"waiting"`
	Shedding map[string]float64 `json:"shedding"`
}

// between returns the picture of the time between two readings.
func between(from, to *Reading) *Picture {
	p := &Picture{
		At:      to.At,
		Waiting: map[string]int{},
		Rates:   rates(from, to),
		Queues:  []QueuePicture{},
		seconds: to.At.Sub(from.At).Seconds(),
	}
	for i := range to.Queues {
		q := pictureOf(&to.Queues[i])
		p.WaitSeconds = max(p.WaitSeconds, q.WaitSeconds)
		for tier, n := range q.Waiting {
			p.Waiting[tier] += n
		}
		p.Queues = append(p.Queues, q)
	}
	p.fleet = to.Fleet
	p.Workers = append([]Worker{}, to.Workers...)
	for i := range p.Workers {
		w := &p.Workers[i]
		p.Running += w.Running
		p.KV, p.Busy = max(p.KV, w.KV), max(p.Busy, w.Busy)
		p.Rates.Preemptions = round(p.Rates.Preemptions + w.Preemptions)
	}
	p.TTFT, p.Gap = spread(&from.TTFT, &to.TTFT), spread(&from.Gap, &to.Gap)
	p.Hits = share(delta(from.CachedTotal, to.CachedTotal), delta(from.PromptTotal, to.PromptTotal))
	return p
}

// timesBetween returns the times of requests answered between two readings.
func timesBetween(from, to *Reading) Times {
	return Times{spread(&from.Waited, &to.Waited), spread(&from.Prefill, &to.Prefill),
		spread(&from.Decode, &to.Decode), spread(&from.Whole, &to.Whole)}
}

// finishes counts the answers that ended between two readings.
func finishes(from, to *Reading) map[string]float64 {
	counted := map[string]float64{}
	for reason, n := range to.FinishTotal {
		if more := delta(from.FinishTotal[reason], n); more > 0 {
			counted[reason] = more
		}
	}
	return counted
}

// latencies fills in what is measured over longer than rates are: a minute, and an
// hour.
func (p *Picture) latencies(minute, hour, now *Reading) {
	p.TTFT, p.Gap = spread(&minute.TTFT, &now.TTFT), spread(&minute.Gap, &now.Gap)
	p.Times, p.Finishes = timesBetween(minute, now), finishes(hour, now)
	p.Hits = share(delta(minute.CachedTotal, now.CachedTotal), delta(minute.PromptTotal, now.PromptTotal))
}

// judged fills in what follows from the numbers.
func (p *Picture) judged(promises []Promise, verdict Diagnosis, pools []PoolPicture) *Picture {
	p.Promises, p.Verdict, p.Pools = promises, verdict, pools
	return p
}

// raised makes loads the largest of those that the picture and readings have.
func (p *Picture) raised(readings []*Reading) *Picture {
	p.calm = p.Running == 0 && p.waiting() == 0
	for _, r := range readings {
		other := between(r, r)
		if other.waiting() > p.waiting() {
			p.Waiting = other.Waiting
		}
		p.WaitSeconds, p.Running = max(p.WaitSeconds, other.WaitSeconds), max(p.Running, other.Running)
		p.KV, p.Busy = max(p.KV, other.KV), max(p.Busy, other.Busy)
		p.Rates.Preemptions = max(p.Rates.Preemptions, other.Rates.Preemptions)
		for i := range p.Workers {
			p.Workers[i].raise(other.Workers)
		}
	}
	return p
}

func pictureOf(q *Queue) QueuePicture {
	p := QueuePicture{Queue: *q, Waiting: map[string]int{}, Shedding: map[string]float64{}}
	for c := range parley.Class(parley.Classes) {
		p.Waiting[c.String()] = q.Waiting[c]
		p.Shedding[c.String()] = q.Shedding[c]
	}
	return p
}

// waiting counts the queued requests of all tiers.
func (p *Picture) waiting() (n int) {
	for _, tier := range p.Waiting {
		n += tier
	}
	return n
}

// within returns the part of the picture that belongs to one pool.
func (p *Picture) within(pool string) *Picture {
	own := &Picture{At: p.At, Waiting: map[string]int{}, fleet: p.fleet}
	for _, q := range p.Queues {
		if q.Pool != pool {
			continue
		}
		own.Queues = append(own.Queues, q)
		own.WaitSeconds = max(own.WaitSeconds, q.WaitSeconds)
		for tier, n := range q.Waiting {
			own.Waiting[tier] += n
		}
	}
	for _, w := range p.Workers {
		if w.Pool == pool {
			own.Workers = append(own.Workers, w)
			own.Running += w.Running
			own.KV, own.Busy = max(own.KV, w.KV), max(own.Busy, w.Busy)
			own.Rates.Preemptions += w.Preemptions
		}
	}
	return own
}

func rates(from, to *Reading) Rates {
	elapsed := to.At.Sub(from.At).Seconds()
	per := func(before, after float64) float64 {
		if elapsed <= 0 {
			return 0
		}
		return round(delta(before, after) / elapsed)
	}
	r := Rates{
		Requests:      per(from.ended(), to.ended()),
		Prefill:       per(from.PromptTotal-from.CachedTotal, to.PromptTotal-to.CachedTotal),
		Decode:        per(from.OutputTotal, to.OutputTotal),
		Failed:        per(from.FailedTotal, to.FailedTotal),
		TurnedAway:    per(from.TurnedAwayTotal, to.TurnedAwayTotal),
		Limited:       per(from.LimitedTotal, to.LimitedTotal),
		Refused:       per(from.RefusedTotal, to.RefusedTotal),
		Cancelled:     per(from.CancelledTotal, to.CancelledTotal),
		Retries:       per(from.RetriesTotal, to.RetriesTotal),
		TurnedByClass: map[string]float64{},
	}
	for c := range parley.Class(parley.Classes) {
		r.TurnedByClass[c.String()] = per(from.ShedTotal[c], to.ShedTotal[c])
	}
	return r
}

func spread(from, to *Histogram) Spread {
	h := to.since(from)
	s := Spread{P50: round(h.Quantile(0.5)), P95: round(h.Quantile(0.95)), P99: round(h.Quantile(0.99)),
		Count: h.Count}
	if h.Beyond(0.99) {
		s.Top = round(h.Bounds[len(h.Bounds)-1])
	}
	return s
}
