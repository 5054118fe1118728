package admin

import "time"

// A Point is a period as charts draw it. What was not measured, because nothing happened
// that it could be measured of, is null.
type Point struct {
	// At is when the period begins, in seconds since 1970.
	At       int64    `json:"at"`
	Running  int      `json:"running"`
	Waiting  int      `json:"waiting"`
	KV       float64  `json:"kv"`
	Busy     float64  `json:"busy"`
	Hits     *float64 `json:"hits"`
	Requests float64  `json:"requests"`
	Prefill  float64  `json:"prefill_tokens"`
	Decode   float64  `json:"decode_tokens"`
	Failed   float64  `json:"failed"`
	Rejected float64  `json:"turned_away"`
	TTFT50   *float64 `json:"ttft_p50"`
	TTFT95   *float64 `json:"ttft_p95"`
	Gap50    *float64 `json:"gap_p50"`
	Gap95    *float64 `json:"gap_p95"`
	// TTFTTop and GapTop are set if a percentile lies beyond the last bucket: those that
	// equal it are longer than that.
	TTFTTop float64 `json:"ttft_top,omitempty"`
	GapTop  float64 `json:"gap_top,omitempty"`
	// TTFTCounts is how many first tokens came within each of the bounds that were asked
	// for, and not within the one before; the last is those beyond all.
	TTFTCounts []uint64 `json:"ttft_counts"`
}

// elapsedMin is the least age of a period that is not complete: rates over less are noise.
const elapsedMin = 5 * time.Second

// Points returns periods as points, with first tokens counted within bounds. The newest period
// may not be complete; its rates are over the time that has passed.
func Points(periods []Period, now time.Time, bounds []float64) []Point {
	points := []Point{}
	for i := range periods {
		s := &periods[i]
		elapsed := min(s.Step, now.Sub(s.At))
		if elapsed < elapsedMin {
			continue
		}
		points = append(points, s.point(elapsed.Seconds(), bounds))
	}
	return points
}

func (s *Period) point(seconds float64, bounds []float64) Point {
	per := func(count float64) float64 { return round(count / seconds) }
	p := Point{
		At:         s.At.Unix(),
		Running:    s.Running,
		Waiting:    s.Waiting,
		KV:         round(s.KV),
		Busy:       round(s.Busy),
		Requests:   per(s.Requests),
		Prefill:    per(s.Prompt - s.Cached),
		Decode:     per(s.Output),
		Failed:     per(s.Failed),
		Rejected:   per(s.Rejected),
		TTFTCounts: s.TTFT.Within(bounds),
	}
	if s.Prompt > 0 {
		hits := round(s.Cached / s.Prompt)
		p.Hits = &hits
	}
	p.TTFT50, p.TTFT95, p.TTFTTop = percentiles(s.TTFT)
	p.Gap50, p.Gap95, p.GapTop = percentiles(s.Gap)
	return p
}

// percentiles returns the median and the 95th percentile of times, nil if there are none.
func percentiles(t Latencies) (p50, p95 *float64, top float64) {
	if t.Count() == 0 {
		return nil, nil, 0
	}
	half, _ := t.Quantile(0.5)
	most, beyond := t.Quantile(0.95)
	half, most = round(half), round(most)
	if beyond {
		top = most
	}
	return &half, &most, top
}
