package sim

import (
	"cmp"
	"errors"
	"math"
)

const (
	// serveSteps is how often the interval is halved in which a worker's capacity lies, and
	// serveMost how many requests in a second no worker serves, relative to what the scaler
	// takes for granted.
	serveSteps = 7
	serveMost  = 4
	// serveOver is how much more than with the scaler a worker is expected to serve with the clairvoyant one, and
	// serveSpread the relative spread of that. They decide which points are tried in advance, not what is found.
	serveOver, serveSpread = 1.1, 0.1
)

// errUnmet says that no clairvoyant scaler meets the objectives.
var errUnmet = errors.New("no number of workers meets the objectives: raise max, or change the objectives")

// A serveSearch finds how many requests in a second the cheapest clairvoyant scaler takes a worker to serve that meets
// the objectives of a shard: it halves an interval, and tries points in advance that are likely to be halves of it.
type serveSearch struct {
	shard     Shard
	low, high float64
	left      int     // how often the interval is still to be halved
	guess     float64 // where the capacity is expected, 0 where nothing is known
	tried     []float64
	results   map[float64]*Result
}

func newServeSearch(sc *Scenario, shard Shard) *serveSearch {
	return &serveSearch{
		shard:   shard,
		high:    serveMost * cmp.Or(sc.Pools[0].Scale.Rate, 1),
		left:    serveSteps,
		results: map[float64]*Result{},
	}
}

// expect guesses the capacity of a worker by what the scaler itself gave each to do.
func (s *serveSearch) expect(r *Result) {
	workerSeconds := float64(r.Fleet.Count * r.Duration)
	if workerSeconds > 0 {
		s.guess = float64(serveOver*float64(r.Total.Arrived)) / workerSeconds
	}
}

// run returns the capacity.
func (s *serveSearch) run(sc *Scenario, runner Runner) (float64, error) {
	for s.left > 0 {
		results, err := runAll(sc, s.trials(runner.Width), runner)
		if err != nil {
			return 0, err
		}
		s.learn(results)
	}
	if s.low == 0 {
		return 0, errUnmet
	}
	return s.low, nil
}

// trials returns runs of the points that are needed next with the highest probability, at most n and at least one.
func (s *serveSearch) trials(n int) (out []trial) {
	type interval struct {
		low, high float64
		left      int
	}
	open := []interval{{s.low, s.high, s.left}}
	s.tried = s.tried[:0]
	for len(open) > 0 && len(s.tried) < max(1, n) {
		likeliest := 0
		for i := range open {
			if s.probability(open[i].low, open[i].high) > s.probability(open[likeliest].low, open[likeliest].high) {
				likeliest = i
			}
		}
		in := open[likeliest]
		open[likeliest] = open[len(open)-1]
		open = open[:len(open)-1]
		middle := float64((in.low + in.high) / 2)
		s.tried = append(s.tried, middle)
		out = append(out, trial{s.shard, 0, trying(middle)})
		if in.left > 1 {
			open = append(open, interval{in.low, middle, in.left - 1}, interval{middle, in.high, in.left - 1})
		}
	}
	return out
}

// probability returns how likely it is that the capacity lies in an interval, relative to others.
func (s *serveSearch) probability(low, high float64) float64 { return s.below(high) - s.below(low) }

// below returns how likely it is that the capacity is less than a value: about a guess, the further away the less.
func (s *serveSearch) below(value float64) float64 {
	if s.guess == 0 {
		return value
	}
	z := (value - s.guess) / float64(serveSpread*s.guess)
	return z / (1 + math.Abs(z))
}

// learn takes the results of the points that were tried, and halves the interval as often as they allow.
func (s *serveSearch) learn(results []*Result) {
	for i, r := range results {
		s.results[s.tried[i]] = r
	}
	for s.left > 0 {
		middle := float64((s.low + s.high) / 2)
		r := s.results[middle]
		switch {
		case r == nil:
			return
		case r.Total.Attainment < attained:
			s.high = middle
		default:
			s.low = middle
		}
		s.left--
	}
}
