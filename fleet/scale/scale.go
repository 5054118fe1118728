package scale

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"parley/internal/exactmath"
)

// A Config says what a pool may have and should keep.
type Config struct {
	// Min and Max bound the workers. A Min of 0 lets the pool go to zero after Idle
	// without requests; default 10 minutes.
	Min, Max int
	Idle     time.Duration
	// Wait is the longest that requests should wait in the queue; default 500 ms.
	Wait time.Duration
	// KV is the share of blocks that sequences should use at most; default 0.9.
	KV float64
	// Spare is the share of workers beyond what is expected to be needed; default 0.03.
	Spare float64
	// ColdStart is how long a worker takes from its start until it is ready, as measured.
	ColdStart time.Duration
	// Steady is for how long fewer workers must be enough before one leaves; default 5
	// minutes.
	Steady time.Duration
	// Price is what a worker costs in an hour, Budget the most that all may; 0 is any.
	Price, Budget float64
	// Rate is how many requests a worker serves in a second, as long as that was not seen. If
	// it is 0, a worker serves what it was seen to serve, until requests wait.
	Rate float64
	// Day is how long a day is, after which the load repeats itself, as it may after seven; default
	// 24 hours.
	Day time.Duration
	// Baseline turns mechanisms off, for measurements alone.
	Baseline Baseline
}

// A Baseline turns mechanisms off.
type Baseline struct {
	// NoForecast expects the present rate to stay, NoWarmPool keeps no worker for rises.
	NoForecast, NoWarmPool bool
	// Utilisation looks at nothing but the share of their arithmetic that workers use, and
	// keeps that at 70 %.
	Utilisation bool
}

// Validate reports everything that is wrong with the config.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Min < 0 || c.Max < max(1, c.Min) {
		wrong("from %d to %d workers: want at least 0, and a maximum of 1 or more that is not less", c.Min, c.Max)
	}
	if min(c.Idle, c.Wait, c.ColdStart, c.Steady, c.Day) < 0 {
		wrong("Idle is %v, Wait %v, ColdStart %v, Steady %v and Day %v: none may be negative", c.Idle, c.Wait,
			c.ColdStart, c.Steady, c.Day)
	}
	if c.Day > 0 && c.Day < dayLeast {
		wrong("Day is %v: want at least %v", c.Day, dayLeast)
	}
	if !(c.KV >= 0 && c.KV <= 1) || !(c.Spare >= 0 && c.Spare <= 10) {
		wrong("KV is %g and Spare %g: want shares from 0 to 1, and to 10", c.KV, c.Spare)
	}
	if !(c.Price >= 0) || !(c.Budget >= 0) || !(c.Rate >= 0) {
		wrong("Price is %g, Budget %g and Rate %g: none may be negative", c.Price, c.Budget, c.Rate)
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	c.Idle = cmp.Or(c.Idle, 10*time.Minute)
	c.Wait = cmp.Or(c.Wait, 500*time.Millisecond)
	c.KV = cmp.Or(c.KV, 0.9)
	c.Spare = cmp.Or(c.Spare, 0.03)
	c.Steady = cmp.Or(c.Steady, 5*time.Minute)
	c.Day = cmp.Or(c.Day, 24*time.Hour)
	return c
}

// within returns d, or a part of the day where that is shorter: an average over longer would be
// about another time of a short day.
func (c *Config) within(d time.Duration) time.Duration { return min(d, c.Day/dayParts) }

// A State is what is seen of a pool.
type State struct {
	// Ready workers take requests, Starting ones will.
	Ready, Starting int
	// Arrived and Begun count requests since the start: those that came, also if they
	// were rejected, and those whose first token came.
	Arrived, Begun uint64
	// Queued requests wait for a worker, and Streams are being written.
	Queued, Streams int
	// Wait is how long a request that came now would wait in the queue.
	Wait time.Duration
	// KV is the share of the ready workers' blocks that sequences use, Busy the share of
	// their arithmetic that is used. The latter is for [Baseline.Utilisation] alone.
	KV, Busy float64
}

// A Sizing is how many workers a pool should have.
type Sizing struct {
	Workers int
	// Why is a sentence.
	Why string
	// Expected is the rate of requests that it is made for.
	Expected float64
}

// A Scaler remembers what it needs to plan.
type Scaler struct {
	cfg  Config
	last State
	at   time.Time
	// rate and begun are the rates of arrivals and of beginnings, lately; seen is for how many
	// seconds they were counted.
	rate, begun, seen float64
	serve             capacity
	days              forecast
	short             shortfall
	busy              time.Time // when there was last a request
	// demands are the most workers that were wanted in each part of the steady time.
	demands [steadyParts]demand
}

type demand struct {
	at      time.Time
	workers int
}

const (
	// steadyParts is how finely the steady time is remembered.
	steadyParts = 8
	// memory is how long the rate of arrivals is averaged over, or less if more requests
	// than counted come in that time.
	memory  = time.Minute
	counted = 3000.0
	// kvMost is the share of blocks that the workers left after others have gone may have
	// in use.
	kvMost = 0.9
	// clearing is in which time a queue should be as short as it should, and growthMost
	// bounds how many times the ready workers are wanted for that.
	clearing   = time.Minute
	growthMost = 2.0
	// forgetParts is in which part of a day the worst shortfall is half forgotten.
	forgetParts = 8
	// rateAtFirst is how many requests in a second are believed of a worker that has served none.
	rateAtFirst = 1
	// utilisationTarget is what [Baseline.Utilisation] aims at.
	utilisationTarget = 0.7
)

// New returns a scaler that knows nothing yet, or says what is wrong with the config.
func New(cfg Config) (*Scaler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	serve := capacity{each: cmp.Or(cfg.Rate, rateAtFirst), unknown: cfg.Rate == 0}
	cfg = cfg.withDefaults()
	return &Scaler{cfg: cfg, serve: serve, days: newForecast(cfg.Day)}, nil
}

// Ready takes in how long a worker took from its start until it was ready, in place of
// [Config.ColdStart].
func (s *Scaler) Ready(took time.Duration) { s.cfg.ColdStart = max(0, took) }

// Plan takes in what is seen now and returns how many workers there should be. It should
// be called every few seconds.
func (s *Scaler) Plan(state State, now time.Time) Sizing {
	s.learn(&state, now)
	p := s.wanted(&state, now)
	p = s.holdStill(p, &state, now)
	return s.bound(p, &state, now)
}

// learn takes in how many requests came and were served.
func (s *Scaler) learn(state *State, now time.Time) {
	since := now.Sub(s.at).Seconds()
	if s.at.IsZero() {
		s.last, s.at, s.busy = *state, now, now
		return
	}
	if since <= 0 {
		return
	}
	arrived := float64(state.Arrived-s.last.Arrived) / since
	begun := float64(state.Begun-s.last.Begun) / since
	s.seen += since
	over := min(s.cfg.within(memory).Seconds(), counted/max(1, s.rate))
	// At first it is the mean of all that was seen: with nothing before, there is nothing to average with.
	gain := max(1-exactmath.Exp(-since/over), since/s.seen)
	s.rate += float64((arrived - s.rate) * gain)
	s.begun += float64((begun - s.begun) * gain)
	s.days.learn(arrived, now)
	// Twice the deviation of the difference of two such means.
	chance := 2 * math.Sqrt(s.rate/min(over, s.seen))
	s.short.see(s.rate-chance, now, s.cfg.Day/forgetParts)
	if state.Arrived > s.last.Arrived || state.Queued+state.Streams > 0 {
		s.busy = now
	} else if now.Sub(s.busy) >= s.cfg.Idle {
		s.rate, s.begun = 0, 0 // else an average of what came long ago would keep a worker for as long again
	}
	// Of workers that came or went meanwhile all are counted: better too little is believed of each.
	if ready := float64(max(state.Ready, s.last.Ready)); ready > 0 {
		served := max(0, min(s.rate, s.begun)-chance)
		s.serve.learn(begun/ready, s.rate/ready, served/ready, &s.cfg, state, since)
	}
	s.last, s.at = *state, now
}

// wanted returns how many workers the load asks for, now and until a worker that starts
// now is ready.
func (s *Scaler) wanted(state *State, now time.Time) Sizing {
	ready := float64(max(1, state.Ready))
	if s.cfg.Baseline.Utilisation {
		n := ready * state.Busy / utilisationTarget
		why := fmt.Sprintf("%d workers use %.0f %% of their arithmetic", state.Ready, 100*state.Busy)
		return Sizing{up(n), why, s.rate}
	}
	expected := s.rate
	if most, known := s.days.most(now, s.cfg.ColdStart); known && !s.cfg.Baseline.NoForecast {
		expected = max(expected, most)
	}
	s.short.expect(expected, now, s.cfg.ColdStart)
	p := Sizing{Workers: s.workers(expected), Expected: expected}
	p.Why = fmt.Sprintf("%.2f requests/s are expected within %v, and one worker serves %.2f", expected,
		s.cfg.ColdStart.Round(100*time.Millisecond), s.serve.each)
	n := s.workers(expected+s.short.worst) - p.Workers
	if n > 0 && s.short.worst > s.serve.each/2 && !s.serve.unknown && !s.cfg.Baseline.NoWarmPool {
		p.Workers += n
		p.Why += fmt.Sprintf("; %d more are warm, because up to %.2f more came than expected", n, s.short.worst)
	}
	if n := up(ready * state.KV / s.cfg.KV); n > p.Workers {
		p.Workers, p.Why = n, fmt.Sprintf("sequences use %.0f %% of the blocks of %d workers, and %.0f %% is the aim",
			100*state.KV, state.Ready, 100*s.cfg.KV)
	}
	if over := state.Wait - s.cfg.Wait; state.Queued > 0 && over > 0 {
		// As many as serve what waits too long beside what comes, in the time clearing.
		if n := up(ready * min(1+float64(over)/float64(clearing), growthMost)); n > p.Workers {
			p.Workers, p.Why = n, fmt.Sprintf("a request would wait for %v, and %v is the aim",
				state.Wait.Round(time.Millisecond), s.cfg.Wait)
		}
	}
	return p
}

// workers returns how many serve a rate, with those to spare.
func (s *Scaler) workers(rate float64) int { return up(rate * (1 + s.cfg.Spare) / s.serve.each) }

// holdStill keeps workers until fewer were enough for the steady time.
func (s *Scaler) holdStill(p Sizing, state *State, now time.Time) Sizing {
	part := s.cfg.Steady / steadyParts
	oldest := 0
	for i := range s.demands {
		if s.demands[i].at.Before(s.demands[oldest].at) {
			oldest = i
		}
		if !s.demands[i].at.IsZero() && now.Sub(s.demands[i].at) < part && p.Workers <= s.demands[i].workers {
			oldest = -1
			break
		}
	}
	if oldest >= 0 {
		s.demands[oldest] = demand{now, p.Workers}
	}
	most := p.Workers
	for _, w := range s.demands {
		if !w.at.IsZero() && now.Sub(w.at) < s.cfg.Steady {
			most = max(most, w.workers)
		}
	}
	have := state.Ready + state.Starting
	if keep := min(most, have); keep > p.Workers {
		p.Why = fmt.Sprintf("%d would be enough (%s), but %d were wanted within the last %v", p.Workers, p.Why, most,
			s.cfg.Steady)
		p.Workers = keep
	}
	return p
}

// bound keeps a plan within what may be.
func (s *Scaler) bound(p Sizing, state *State, now time.Time) Sizing {
	held := up(float64(state.Ready) * state.KV / kvMost)
	if state.Streams > 0 && max(1, held) > p.Workers && !s.cfg.Baseline.Utilisation {
		p.Workers, p.Why = max(1, held), fmt.Sprintf("%d answers are under way and need the blocks of %d workers",
			state.Streams, max(1, held))
	}
	if p.Workers == 0 && now.Sub(s.busy) < s.cfg.Idle {
		p.Workers, p.Why = 1, fmt.Sprintf("a request came within the last %v", s.cfg.Idle)
	}
	if p.Workers < s.cfg.Min {
		p.Workers, p.Why = s.cfg.Min, fmt.Sprintf("%d is the minimum; %s", s.cfg.Min, p.Why)
	}
	most, limit := s.cfg.Max, "the maximum"
	if s.cfg.Budget > 0 && s.cfg.Price > 0 {
		if paid := int(s.cfg.Budget / s.cfg.Price); paid < most {
			most, limit = paid, fmt.Sprintf("what %g an hour pays for", s.cfg.Budget)
		}
	}
	if p.Workers > most {
		p.Why = fmt.Sprintf("%d is %s; %d are wanted: %s", most, limit, p.Workers, p.Why)
		p.Workers = most
	}
	return p
}

// up rounds up, but for what arithmetic may have added.
func up(x float64) int { return int(math.Ceil(float64(x) - 1e-9)) }
