package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"

	"parley"
	"parley/sim/traffic"
)

// Further bounds of a scenario.
const (
	workersMax = 1 << 16 // of which one router takes kvindex.WorkersMax
	windowsMax = 100_000
)

// Read reads a scenario.
func Read(text []byte) (*Scenario, error) {
	var s Scenario
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("not a scenario: %w", err)
	}
	s.setDefaults()
	return &s, s.Validate()
}

func (s *Scenario) setDefaults() {
	setDefault(&s.Seed, 1)
	setDefault(&s.Drain, 10*time.Minute)
	setDefault(&s.Window, max(time.Second, (s.Duration/60).Round(time.Second)))
	setDefault(&s.TTFT, time.Second)
	setDefault(&s.TPOT, 50*time.Millisecond)
	for i := range s.Pools {
		p := &s.Pools[i]
		setDefault(&p.Name, "default")
		setDefault(&p.Overhead, time.Millisecond)
		setDefault(&p.Seqs, 256)
		setDefault(&p.StepTokens, 8192)
		setDefault(&p.Target, 50*time.Millisecond)
		setDefault(&p.Network, 25e9)
		for _, scale := range p.scales() {
			setDefault(&scale.Every, 10*time.Second)
		}
	}
	for i := range s.Traffic {
		t := &s.Traffic[i]
		setDefault(&t.Class, parley.Pro.String())
		setDefault(&t.Tenants, 1)
		setDefault(&t.Workload, string(traffic.Independent))
		setDefault(&t.Turns, "1")
		setDefault(&t.Backoff, time.Second)
		if len(s.Pools) > 0 {
			setDefault(&t.Pool, s.Pools[0].Name)
		}
		if t.RateFile != nil {
			setDefault(&t.RateFile.Scale, 1)
			setDefault(&t.RateFile.Speed, 1)
		}
		if t.Day != nil {
			setDefault(&t.Day.Length, 24*time.Hour)
			setDefault(&t.Day.Mean, (t.Day.Trough+t.Day.Peak)/2)
		}
	}
	for i := range s.Events {
		if s.Events[i].Pool == "" && len(s.Pools) > 0 {
			s.Events[i].Pool = s.Pools[0].Name
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong with the scenario.
func (s *Scenario) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.Duration <= 0 || s.Duration > durationMax {
		wrong("duration is %v: want more than 0 and at most %v", s.Duration, durationMax)
	}
	if s.Window <= 0 || s.Duration/max(1, s.Window) > windowsMax {
		wrong("window is %v: want more than 0, and at most %d windows in the duration of %v", s.Window, windowsMax,
			s.Duration)
	}
	if min(s.Drain, s.TTFT, s.TPOT) < 0 {
		wrong("drain is %v, ttft %v and tpot %v: none may be negative", s.Drain, s.TTFT, s.TPOT)
	}
	if len(s.Pools) == 0 || len(s.Traffic) == 0 {
		wrong("%d pools and %d kinds of traffic: want at least one of each", len(s.Pools), len(s.Traffic))
	}
	seen := map[string]bool{}
	for i := range s.Pools {
		p := &s.Pools[i]
		if seen[p.Name] {
			wrong("two pools are named %q", p.Name)
		}
		seen[p.Name] = true
		if err := p.validate(); err != nil {
			wrong("pool %s: %w", p.Name, err)
		}
	}
	for i := range s.Traffic {
		t := &s.Traffic[i]
		if !seen[t.Pool] {
			wrong("traffic %s: no pool is named %q", t.Name, t.Pool)
		}
		if err := t.validate(); err != nil {
			wrong("traffic %s: %w", t.Name, err)
		}
	}
	for _, e := range s.Events {
		if !seen[e.Pool] || e.At < 0 || e.Lose < 0 || e.Start < 0 || e.After < 0 || e.Lose+e.Start == 0 {
			wrong("an event at %v in pool %q loses %d workers for %v and starts %d: want a pool, nothing negative, "+
				"and one worker at least", e.At, e.Pool, e.Lose, e.After, e.Start)
		}
	}
	return errors.Join(problems...)
}

func (p *PoolSpec) validate() error {
	var problems []error
	for _, n := range []int{p.Workers, p.prefill().Workers} {
		if n < 0 || n > workersMax {
			problems = append(problems, fmt.Errorf("%d workers: want 0 to %d", n, workersMax))
		}
	}
	if !(p.Network > 0) || p.BlockBytes < 0 || p.Prefill != nil && p.RoundRobin {
		problems = append(problems, fmt.Errorf("network is %g, block_bytes %d and round_robin %v: want more than 0, "+
			"at least 0, and workers for prompts only where the router picks", p.Network, p.BlockBytes, p.RoundRobin))
	}
	if p.Seqs < 1 || p.StepTokens < p.Seqs {
		problems = append(problems, fmt.Errorf("seqs is %d and step_tokens %d: want at least 1, and no fewer tokens "+
			"than sequences", p.Seqs, p.StepTokens))
	}
	if min(p.Overhead, p.Target, p.ColdStart, p.QueueWait, p.HostCopy, p.TokenMax) < 0 ||
		min(p.Blocks, p.HostBlocks, p.Ghosts, p.QueueDepth) < 0 || !(p.Price >= 0) {
		problems = append(problems, errors.New("a negative number: no time, size or price may be"))
	}
	_, err := p.reserve()
	problems = append(problems, err)
	if _, err := p.queueConfig(); err != nil {
		problems = append(problems, err)
	}
	if p.Speculation != nil {
		problems = append(problems, p.Speculation.validate())
	}
	if p.Cost != nil {
		problems = append(problems, p.Cost.Validate())
	}
	for _, scale := range p.scales() {
		config := scale.config(p.ColdStart, p.Price)
		problems = append(problems, config.Validate())
		if scale.Every < time.Second || scale.Max > workersMax {
			problems = append(problems, fmt.Errorf("scale: every is %v and max %d: want at least 1s, and at most %d",
				scale.Every, scale.Max, workersMax))
		}
	}
	_, err = p.machine()
	return errors.Join(append(problems, err)...)
}

func (t *TrafficSpec) validate() error {
	_, err := classOf(t.Class)
	problems := []error{err}
	if t.Tenants < 1 || t.Tenants > 1<<20 {
		problems = append(problems, fmt.Errorf("%d tenants: want 1 to %d", t.Tenants, 1<<20))
	}
	if min(t.Think, t.Patience, t.Backoff, t.Stamped, t.StampedUntil) < 0 || t.Retries < 0 || t.Retries > 100 {
		problems = append(problems, fmt.Errorf("think is %v, patience %v, backoff %v, stamped %v, retries %d: "+
			"want nothing negative, and at most 100 retries", t.Think, t.Patience, t.Backoff, t.Stamped, t.Retries))
	}
	if t.Limits != nil {
		problems = append(problems, t.Limits.Validate())
	}
	if t.Replay != nil {
		return errors.Join(append(problems, t.Replay.settings().Validate())...)
	}
	problems = append(problems, t.validateRate())
	if cv := t.cv(); !(cv >= 0 && cv <= 100) {
		problems = append(problems, fmt.Errorf("cv is %g: want 0 to 100", cv))
	}
	w, err := t.workload(0)
	if problems = append(problems, err); err == nil {
		problems = append(problems, w.Validate())
	}
	return errors.Join(problems...)
}

// validateRate reports what is wrong with how many users come. The rates of a file are looked at when
// they have been given.
func (t *TrafficSpec) validateRate() error {
	sources := 0
	for _, given := range []bool{t.Day != nil, t.RateFile != nil, len(t.Rate) > 0} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1:
		return errors.New("want one of rate, rate_file, day and replay")
	case t.Day != nil && t.Day.validate() != nil:
		return t.Day.validate()
	case t.RateFile != nil && (t.RateFile.validate() != nil || t.RateFile.rates == nil):
		return t.RateFile.validate()
	}
	return t.rate().Validate()
}
