package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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
}

const (
	// attained is the share of requests within objectives that the clairvoyant scaler pays for.
	attained = 0.99
	// serveSteps is how often the interval is halved in which a worker's capacity lies, and
	// serveMost how many requests in a second no worker serves, relative to what the scaler
	// takes for granted.
	serveSteps = 7
	serveMost  = 4
)

// Ablate runs a scenario, whose one pool is scaled, with each scaler.
func Ablate(sc *Scenario, each Each) (*Ablations, error) {
	if len(sc.Pools) != 1 || sc.Pools[0].Scale == nil {
		return nil, errors.New("a scenario with one pool that has scale is needed")
	}
	var a Ablations
	var err error
	if a.Scaler, a.Parts, err = sc.without(each); err != nil {
		return nil, err
	}
	serve, err := a.findClairvoyant(sc)
	if err != nil {
		return nil, err
	}
	s, err := newSimulation(sc)
	if err != nil {
		return nil, err
	}
	peak := 0.0
	for _, p := range s.ratesOf(s.stations[0]) {
		for _, point := range p {
			peak = max(peak, point.PerSecond)
		}
	}
	workers := min(int(math.Ceil(peak/serve)), sc.Pools[0].Scale.Max)
	a.Peak, err = sc.with(fmt.Sprint(workers, " all the time"), fixed(workers))
	return &a, err
}

// without runs the scenario with its scaler as it is, and without each part of it.
func (sc *Scenario) without(each Each) (Ablation, []Ablation, error) {
	rows, errs := make([]Ablation, len(parts)), make([]error, len(parts))
	each(len(parts), func(i int) {
		rows[i], errs[i] = sc.with(parts[i].name, func(p *PoolSpec) { parts[i].off(p.Scale) })
	})
	return rows[0], rows[1:], errors.Join(errs...)
}

// findClairvoyant finds the cheapest clairvoyant scaler that meets the objectives, and
// returns what it takes a worker to serve in a second.
func (a *Ablations) findClairvoyant(sc *Scenario) (serve float64, err error) {
	low, high := 0.0, serveMost*cmp.Or(sc.Pools[0].Scale.Rate, 1)
	for range serveSteps {
		middle := (low + high) / 2
		row, err := sc.with("clairvoyant", knowing(middle))
		if err != nil {
			return 0, err
		}
		if row.Attainment < attained {
			high = middle
			continue
		}
		low, a.Clairvoyant = middle, row
	}
	if low == 0 {
		return 0, errors.New("no number of workers meets the objectives: raise max, or change the objectives")
	}
	return low, nil
}

// with runs the scenario with its pool changed.
func (sc *Scenario) with(name string, change func(*PoolSpec)) (Ablation, error) {
	r, err := Run(sc.changed(change))
	if err != nil {
		return Ablation{}, fmt.Errorf("%s: %w", name, err)
	}
	return Ablation{name, r.Total.Attainment, r.Fleet.Count, r.Fleet.Dollars}, nil
}
