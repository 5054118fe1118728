package admin

import (
	"time"

	"parley"
)

// Now returns the current picture; an empty one if nothing was read yet. Limited lists
// whose requests limits have refused in the last minute, the most first.
func (h *History) Now(objectives parley.Objectives, limited ...LimitedBy) *Picture {
	if h.latest == nil {
		return &Picture{Waiting: map[string]int{},
			Verdict: Diagnosis{Bottleneck: NoBottleneck, Sentence: "No data yet: the server has just started."}}
	}
	now := h.latest
	p := between(h.before(ratesOver), now)
	minute := h.before(spreadOver)
	p.latencies(minute, h.before(Kept), now)
	promises := h.promises(objectives)
	verdict := Judge(&State{
		Picture: h.window(),
		Broken:  missedObjectives(minute, now, objectives),
		Limited: limited,
		Missed:  missedPromises(promises),
		Past:    h.lastEpisode(),
	})
	return p.judged(promises, verdict, poolsOf(p))
}

// HeadlineWindow is the time that the headline is about.
const HeadlineWindow = spreadOver

// window returns the picture that the headline is computed from.
func (h *History) window() *Picture {
	from := h.before(HeadlineWindow)
	p := between(from, h.latest)
	var within []*Reading
	for i := range h.ring {
		if r := h.at(i); r.At.After(from.At) {
			within = append(within, r)
		}
	}
	return p.raised(within)
}

// Points returns the history as points of at least step each, oldest first.
func (h *History) Points(step time.Duration) []Point {
	points := []Point{}
	var from *Reading
	for i := range h.ring {
		r := h.at(i)
		switch {
		case from == nil:
			from = r
		case r.At.Sub(from.At) >= step-Step/2:
			points = append(points, pointOf(from, r))
			from = r
		}
	}
	return points
}

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
