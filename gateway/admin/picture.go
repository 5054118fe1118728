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
}

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
}

// Times are how long answers were queued, prefilled and decoded, and their total time.
type Times struct {
	Queue   Spread `json:"queue"`
	Prefill Spread `json:"prefill"`
	Decode  Spread `json:"decode"`
	Whole   Spread `json:"whole"`
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

// A QueuePicture is a queue with its numbers by tier.
type QueuePicture struct {
	Queue
	Waiting  map[string]int     `json:"waiting"`
	Shedding map[string]float64 `json:"shedding"`
}

// The windows of pictures.
const (
	ratesOver  = 10 * time.Second
	spreadOver = time.Minute
)

// Now returns the current picture; an empty one if nothing was read yet.
func (h *History) Now(objectives parley.Objectives) *Picture {
	if h.latest == nil {
		return &Picture{Waiting: map[string]int{},
			Verdict: Diagnosis{Bottleneck: NoBottleneck, Sentence: "No data yet: the server has just started."}}
	}
	now := h.latest
	p := between(h.before(ratesOver), now)
	minute := h.before(spreadOver)
	p.TTFT, p.Gap = spread(&minute.TTFT, &now.TTFT), spread(&minute.Gap, &now.Gap)
	p.Times, p.Finishes = timesBetween(minute, now), finishes(h.before(Kept), now)
	p.Hits = share(delta(minute.CachedTotal, now.CachedTotal), delta(minute.PromptTotal, now.PromptTotal))
	p.Promises = h.promises(objectives)
	p.Verdict = Judge(p, missedObjectives(minute, now, objectives))
	p.Pools = poolsOf(p)
	return p
}

// before is Before, or the latest reading itself if there is no other.
func (h *History) before(age time.Duration) *Reading {
	if r := h.Before(age); r != nil {
		return r
	}
	return h.latest
}

// between returns the picture of the time between two readings.
func between(from, to *Reading) *Picture {
	p := &Picture{At: to.At, Waiting: map[string]int{}, Rates: rates(from, to), Queues: []QueuePicture{}}
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

func pictureOf(q *Queue) QueuePicture {
	p := QueuePicture{Queue: *q, Waiting: map[string]int{}, Shedding: map[string]float64{}}
	for c := range parley.Class(parley.Classes) {
		p.Waiting[c.String()] = q.Waiting[c]
		p.Shedding[c.String()] = q.Shedding[c]
	}
	return p
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

// ended counts all requests that ended.
func (r *Reading) ended() float64 {
	return r.OKTotal + r.FailedTotal + r.TurnedAwayTotal + r.LimitedTotal + r.RefusedTotal + r.CancelledTotal
}

func spread(from, to *Histogram) Spread {
	h := to.since(from)
	return Spread{P50: round(h.Quantile(0.5)), P95: round(h.Quantile(0.95)), P99: round(h.Quantile(0.99)),
		Count: h.Count}
}

// delta is how much a counter grew. One that was reset grew by all it has.
func delta(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

func share(part, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return round(part / all)
}

// round keeps four decimals: more are noise, and cost bytes.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// A Point is a picture reduced to what is drawn over time.
type Point struct {
	At          int64   `json:"at"`
	Running     int     `json:"running"`
	Waiting     int     `json:"waiting"`
	KV          float64 `json:"kv"`
	Busy        float64 `json:"busy"`
	Hits        float64 `json:"hits"`
	Requests    float64 `json:"requests"`
	Prefill     float64 `json:"prefill_tokens"`
	Decode      float64 `json:"decode_tokens"`
	TTFT50      float64 `json:"ttft_p50"`
	TTFT95      float64 `json:"ttft_p95"`
	Gap50       float64 `json:"gap_p50"`
	Gap95       float64 `json:"gap_p95"`
	Failed      float64 `json:"failed"`
	TurnedAway  float64 `json:"turned_away"`
	Preemptions float64 `json:"preemptions"`
	// TTFTCounts is how many first tokens came within each of [History.TTFTBounds],
	// and not within the one before; the last is those beyond all.
	TTFTCounts []uint64 `json:"ttft_counts"`
}

func pointOf(from, to *Reading) Point {
	p := between(from, to)
	waiting := 0
	for _, n := range p.Waiting {
		waiting += n
	}
	return Point{
		At:          p.At.Unix(),
		Running:     p.Running,
		Waiting:     waiting,
		KV:          round(p.KV),
		Busy:        p.Busy,
		Hits:        p.Hits,
		Requests:    p.Rates.Requests,
		Prefill:     p.Rates.Prefill,
		Decode:      p.Rates.Decode,
		TTFT50:      p.TTFT.P50,
		TTFT95:      p.TTFT.P95,
		Gap50:       p.Gap.P50,
		Gap95:       p.Gap.P95,
		Failed:      p.Rates.Failed,
		TurnedAway:  p.Rates.TurnedAway,
		Preemptions: p.Rates.Preemptions,
		TTFTCounts:  to.TTFT.within(&from.TTFT),
	}
}
