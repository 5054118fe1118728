package sim

import (
	"fmt"
	"slices"
	"time"
)

// A simulation is the state of a run.
type simulation struct {
	*Scenario
	clock    *clock
	meter    *meter
	stations []*station
	crowds   []*crowd
	gate     *gate
	lateMost uint64 // answers outside of the objectives after which the run ends; 0 is any number
}

// Run simulates a scenario.
func Run(sc *Scenario) (*Result, error) {
	s, err := newSimulation(sc)
	if err != nil {
		return nil, err
	}
	return s.run()
}

func (s *simulation) run() (*Result, error) {
	for _, t := range s.stations {
		for range t.Workers {
			t.start(&t.kind, 0)
		}
		for range t.prefill().Workers {
			t.start(&t.prompts, 0)
		}
		s.clock.after(0, t.probe)
		s.recall(t)
		for _, c := range t.scaled {
			s.clock.after(c.spec.Every, func() { t.rescale(c) })
		}
	}
	for _, e := range s.Events {
		s.clock.after(e.At, func() { s.happen(e) })
	}
	for _, c := range s.crowds {
		c.next()
	}
	for s.continues() {
		s.clock.next()()
	}
	for _, t := range s.stations {
		if t.err != nil {
			return nil, fmt.Errorf("pool %s: %w", t.Name, t.err)
		}
	}
	var traffic []Figures
	for _, c := range s.crowds {
		traffic = append(traffic, c.tally.figures(c.TrafficSpec.Name, s.clock.now))
	}
	return newResult(s.Scenario, s.meter, traffic, s.gate.refusals()), nil
}

func newSimulation(sc *Scenario) (*simulation, error) {
	s := &simulation{Scenario: sc, clock: newClock()}
	s.gate = newGate(s.clock)
	s.meter = &meter{clock: s.clock, every: sc.Window, ttft: sc.TTFT, tpot: sc.TPOT}
	for i := range sc.Pools {
		t, err := newStation(&sc.Pools[i], sc.Seed, s.meter)
		if err != nil {
			return nil, err
		}
		s.stations = append(s.stations, t)
	}
	for i := range sc.Traffic {
		t := &sc.Traffic[i]
		c, err := newCrowd(t, i, sc.Seed, s.station(t.Pool), s.gate, sc.Duration)
		if err != nil {
			return nil, err
		}
		s.crowds = append(s.crowds, c)
	}
	for _, t := range s.stations {
		for _, c := range t.scaled {
			if c.spec.Clairvoyant > 0 {
				rate := func(at time.Duration) float64 { return s.requestRate(t, at) }
				c.scaler = &clairvoyant{c.spec, t.ColdStart, rate}
			}
			if c.spec.onlyWhether {
				s.lateMost = s.tooLate()
			}
		}
	}
	return s, nil
}

func (s *simulation) station(name string) *station {
	return s.stations[slices.IndexFunc(s.stations, func(t *station) bool { return t.Name == name })]
}

// continues reports whether a user is there or will come, and there is time.
func (s *simulation) continues() bool {
	wrong := slices.ContainsFunc(s.stations, func(t *station) bool { return t.err != nil })
	if s.lateMost > 0 && s.meter.late > s.lateMost {
		return false
	}
	if wrong || s.clock.now >= s.Duration+s.Drain {
		return false
	}
	return slices.ContainsFunc(s.crowds, func(c *crowd) bool { return c.live > 0 || c.more })
}

// tooLate returns how many answers outside of the objectives are certainly too many: twice the share of the requests
// that are expected, because twice as many requests as expected do not come. It is 0 where that is not known.
func (s *simulation) tooLate() uint64 {
	expected, step := 0.0, s.Duration/tooLateLooks
	for _, c := range s.crowds {
		if c.talks.rate == nil {
			return 0
		}
	}
	for _, t := range s.stations {
		for at := time.Duration(0); at < s.Duration; at += max(1, step) {
			expected += float64(s.requestRate(t, at) * step.Seconds())
		}
	}
	return uint64(max(tooLateLeast, 2*(1-attained)*expected))
}

const (
	// attained is the share of requests within objectives that the clairvoyant scaler pays for.
	attained = 0.99
	// tooLateLooks is at how many times the rate is looked at.
	tooLateLooks = 1000
	// tooLateLeast is enough that chance does not double the number of requests.
	tooLateLeast = 50
)

// happen loses and starts workers.
func (s *simulation) happen(e Incident) {
	t := s.station(e.Pool)
	lost := t.lose(e.Lose)
	if e.After > 0 && lost > 0 {
		s.clock.after(e.After, func() {
			for range lost {
				t.start(&t.kind, t.ColdStart)
			}
		})
	}
	for range e.Start {
		t.start(&t.kind, t.ColdStart)
	}
	t.dispatch()
}
