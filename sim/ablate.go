package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// An Ablation is what a scenario gives with a scaler of one kind.
type Ablation struct {
	Name       string  `json:"name"`
	Attainment float64 `json:"attainment"`
	Replicas   float64 `json:"replicas"`
	Dollars    float64 `json:"dollars"`
}

// Ablations are the scaler of a scenario as it is, without parts of it, the clairvoyant one,
// and as many workers all the time as the peak needs.
type Ablations struct {
	Scaler, Clairvoyant, Peak Ablation
	Parts                     []Ablation
	// Attained and Bill are the share within objectives and the cost of the scaler as it is, Times and OfPeak how many
	// times the clairvoyant's and the peak's that is, with their errors. Each shard is compared with the same arrivals.
	Attained, Bill, Times, OfPeak Estimate
}

const (
	// attained is the share of requests within objectives that the clairvoyant scaler pays for.
	attained = 0.99
	// serveSteps is how often the interval is halved in which a worker's capacity lies, and
	// serveMost how many requests in a second no worker serves, relative to what the scaler
	// takes for granted.
	serveSteps = 7
	serveMost  = 4
	// serveStep is by which share that is lowered until all shards of a sample meet the objectives.
	serveStep = 0.02
	// peakPace is how many times as fast the day is on which the workers of the peak are there all the time, and
	// peakLooks at how many times the peak is looked for.
	peakPace, peakLooks = 8, 1000
)

// Ablate runs a sample of a scenario, whose one pool is scaled, with each scaler. Rows without parts of the scaler are
// of the first shard alone.
func Ablate(sc *Scenario, by Sampling, each Each) (*Ablations, error) {
	if len(sc.Pools) != 1 || sc.Pools[0].Scale == nil {
		return nil, errors.New("a scenario with one pool that has scale is needed")
	}
	if err := by.validate(); err != nil {
		return nil, err
	}
	rows := make([][][]*Result, len(parts))
	errs := make([]error, len(parts)+1)
	serve := 0.0
	each(len(parts)+1, func(i int) {
		switch i {
		case 0: // the longest
			serve, errs[0] = by.findServe(sc, each)
		case 1:
			rows[0], errs[1] = by.run(sc, parts[0].change, each)
		default:
			r, err := by.Shard.run(sc, 0, parts[i-1].change)
			rows[i-1], errs[i] = [][]*Result{{r}}, err
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	best, serve, err := by.knowing(sc, serve, each)
	if err != nil {
		return nil, err
	}
	var a Ablations
	scaler := rows[0]
	for i := range rows[1:] {
		a.Parts = append(a.Parts, by.mean(parts[i+1].name, rows[i+1][0]))
	}
	a.Scaler, a.Clairvoyant = by.mean(parts[0].name, scaler[0]), by.mean("clairvoyant", best[0])
	kinds := by.kinds()
	a.Attained = by.estimate("within objectives", func(k, i int) float64 { return scaler[k][i].Total.Attainment })
	a.Bill = by.estimate("cost", func(k, i int) float64 { return kinds[k].dollars(scaler[k][i]) })
	a.Times = by.estimate("of clairvoyant", func(k, i int) float64 {
		return kinds[k].dollars(scaler[k][i]) / kinds[k].dollars(best[k][i])
	})
	if a.Peak, err = by.allTheTime(sc, serve); err != nil {
		return nil, err
	}
	a.OfPeak = by.estimate("of peak", func(k, i int) float64 { return kinds[k].dollars(scaler[k][i]) / a.Peak.Dollars })
	return &a, nil
}

// Bars are what a scaler must reach: the least share within objectives, and the most that it may cost relative to the
// clairvoyant scaler and to the workers of the peak all the time.
type Bars struct{ Attained, Clairvoyant, Peak float64 }

// Met reports whether a scaler reaches the bars with every value within the errors of its figures.
func (a *Ablations) Met(bars Bars) bool {
	return a.Attained.Value-a.Attained.Off() >= bars.Attained && a.Times.Value+a.Times.Off() <= bars.Clairvoyant &&
		a.OfPeak.Value+a.OfPeak.Off() <= bars.Peak
}

// mean returns the figures of the whole by shards of the sample.
func (s Sampling) mean(name string, shards []*Result) Ablation {
	row, n := Ablation{Name: name}, float64(len(shards))
	for _, r := range shards {
		row.Attainment += r.Total.Attainment / n
		row.Replicas += r.Fleet.Count / s.Share / n
		row.Dollars += float64(s.dollars(r) / n)
	}
	return row
}

// dollars returns the cost of the whole, by a shard of it.
func (p Shard) dollars(r *Result) float64 { return r.Fleet.Dollars / p.Share * p.Pace }

// quicker returns the shard with days that are shorter, if it is not the whole scenario.
func (s Sampling) quicker(times float64) Shard {
	p := s.Shard
	if s != Whole {
		p.Pace *= times
	}
	return p
}

// findServe finds how many requests in a second the cheapest clairvoyant scaler takes a worker to serve that meets
// the objectives of the first shard. It halves an interval twice at a time, with the three points that may be needed
// for that side by side.
func (s Sampling) findServe(sc *Scenario, each Each) (serve float64, err error) {
	low, high := 0.0, serveMost*cmp.Or(sc.Pools[0].Scale.Rate, 1)
	for left := serveSteps; left > 0; left -= 2 {
		middle := float64((low + high) / 2)
		points := []float64{middle, float64((low + middle) / 2), float64((middle + high) / 2)}
		if left == 1 {
			points = points[:1]
		}
		results, errs := make([]*Result, len(points)), make([]error, len(points))
		each(len(points), func(i int) { results[i], errs[i] = s.Shard.run(sc, 0, knowing(points[i])) })
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
		for range min(2, left) {
			middle = (low + high) / 2
			if results[slices.Index(points, middle)].Total.Attainment < attained {
				high = middle
			} else {
				low = middle
			}
		}
	}
	if low == 0 {
		return 0, errors.New("no number of workers meets the objectives: raise max, or change the objectives")
	}
	return low, nil
}

// knowing runs the clairvoyant scaler. It takes a worker to serve less until the objectives are met by all shards
// of the sample together, and returns how much that is.
func (s Sampling) knowing(sc *Scenario, serve float64, each Each) ([][]*Result, float64, error) {
	for {
		first, err := s.runKinds(sc, s.kinds()[:1], knowing(serve), each)
		if err != nil {
			return nil, 0, err
		}
		if s.mean("", first[0]).Attainment >= attained {
			others, err := s.runKinds(sc, s.kinds()[1:], knowing(serve), each)
			return append(first, others...), serve, err
		}
		serve *= 1 - serveStep
	}
}

// allTheTime runs as many workers all the time as the peak needs.
func (s Sampling) allTheTime(sc *Scenario, serve float64) (Ablation, error) {
	p := s.quicker(peakPace)
	part, err := p.Of(sc)
	if err != nil {
		return Ablation{}, err
	}
	simulation, err := newSimulation(part)
	if err != nil {
		return Ablation{}, err
	}
	peak, step := 0.0, max(time.Second, part.Duration/peakLooks)
	for at := time.Duration(0); at <= part.Duration; at += step {
		peak = max(peak, simulation.requestRate(simulation.stations[0], at))
	}
	workers := min(int(math.Ceil(peak/serve)), part.Pools[0].Scale.Max)
	r, err := p.run(sc, 0, fixed(workers))
	if err != nil {
		return Ablation{}, err
	}
	name := fmt.Sprintf("%.0f all the time", float64(workers)/p.Share)
	return Sampling{p, 1}.mean(name, []*Result{r}), nil
}
