package sim

import (
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
	// serveStep is by which share that is lowered until all shards of a sample meet the objectives.
	serveStep = 0.02
	// serveLess is how many times less a worker is taken to serve at most. What is left then has other reasons.
	serveLess = 2
	// peakPace is how many times as fast the day is on which the workers of the peak are there all the time, and
	// peakLooks at how many times the peak is looked for.
	peakPace, peakLooks = 8, 1000
)

// Ablate runs a sample of a scenario, whose one pool is scaled, with each scaler. Rows without parts of the scaler are
// of the first shard alone.
func Ablate(sc *Scenario, by Sampling, runner Runner) (*Ablations, error) {
	if len(sc.Pools) != 1 || sc.Pools[0].Scale == nil {
		return nil, errors.New("a scenario with one pool that has scale is needed")
	}
	if err := by.validate(); err != nil {
		return nil, err
	}
	find := newServeSearch(sc, by.Shard)
	trials := find.trials(runner.Width)
	first := len(trials)
	trials = append(trials, by.trials(by.kinds()[:1], parts[0].change)...)
	for i := range parts[1:] {
		trials = append(trials, trial{by.Shard, 0, parts[i+1].change})
	}
	trials = append(trials, by.trials(by.kinds()[1:], parts[0].change)...)
	results, err := runAll(sc, trials, runner)
	if err != nil {
		return nil, err
	}
	find.learn(results[:first])
	scaler := [][]*Result{results[first : first+by.Count]}
	without := results[first+by.Count:][:len(parts)-1]
	scaler = append(scaler, slices.Collect(slices.Chunk(results[first+by.Count+len(without):], by.Count))...)
	find.expect(scaler[0][0])
	serve, err := find.run(sc, runner)
	if err != nil {
		return nil, err
	}
	best, serve, err := by.knowing(sc, serve, find.results, runner)
	if err != nil {
		return nil, err
	}
	var a Ablations
	for i, r := range without {
		a.Parts = append(a.Parts, by.mean(parts[i+1].name, []*Result{r}))
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

// knowing runs the clairvoyant scaler. It takes a worker to serve less until the objectives are met by all shards
// of the sample together, and returns how much that is. The first shard's results are known for some of that.
func (s Sampling) knowing(
	sc *Scenario, serve float64, known map[float64]*Result, runner Runner,
) ([][]*Result, float64, error) {
	for least := serve / serveLess; serve > least; serve *= 1 - serveStep {
		// The next step is tried in advance where there are processors for it.
		var tried []float64
		var trials []trial
		for next := serve; len(tried) == 0 || len(trials) > 0 && len(trials)+s.Count <= runner.Width; {
			tried = append(tried, next)
			shards := s.trials(s.kinds()[:1], knowing(next))
			if known[next] != nil {
				shards = shards[1:]
			}
			trials = append(trials, shards...)
			next *= 1 - serveStep
		}
		results, err := runAll(sc, trials, runner)
		if err != nil {
			return nil, 0, err
		}
		for _, serve = range tried {
			var first []*Result
			if r := known[serve]; r != nil {
				first = append(first, r)
			}
			rest := s.Count - len(first)
			first, results = append(first, results[:rest]...), results[rest:]
			if s.mean("", first).Attainment >= attained {
				others, err := runAll(sc, s.trials(s.kinds()[1:], knowing(serve)), runner)
				return append([][]*Result{first}, slices.Collect(slices.Chunk(others, s.Count))...), serve, err
			}
		}
	}
	return nil, 0, errUnmet
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
