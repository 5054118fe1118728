package scale

import (
	"math"
	"strings"
	"testing"
	"time"
)

// A run plans every ten seconds.
type run struct {
	t     *testing.T
	s     *Scaler
	now   time.Time
	state State
}

func newRun(t *testing.T, cfg Config) *run {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, s: s, now: time.Unix(0, 0)}
}

// pass lets requests come at a rate for a while, with the workers that were planned, each
// of which serves as many as the config says, and returns the last plan.
func (r *run) pass(rate float64, d time.Duration) (p Sizing) {
	for range int(d / (10 * time.Second)) {
		r.now = r.now.Add(10 * time.Second)
		r.state.Arrived += uint64(math.Round(rate * 10))
		can := r.s.cfg.Rate * float64(r.state.Ready)
		r.state.Begun = min(r.state.Arrived, r.state.Begun+uint64(10*can))
		r.state.Queued = int(r.state.Arrived - r.state.Begun)
		r.state.Wait = time.Duration(float64(r.state.Queued) / max(can, 0.1) * float64(time.Second))
		p = r.s.Plan(r.state, r.now)
		r.state.Ready = p.Workers
	}
	return p
}

func (r *run) want(p Sizing, workers int, why string) {
	r.t.Helper()
	if p.Workers != workers || !strings.Contains(p.Why, why) {
		r.t.Errorf("planned %d workers because %s; want %d and %q", p.Workers, p.Why, workers, why)
	}
}

func TestFollowsTheRate(t *testing.T) {
	r := newRun(t, Config{Min: 1, Max: 50, Rate: 2, Baseline: Baseline{NoWarmPool: true}})
	r.state.Ready = 1
	r.want(r.pass(10, 10*time.Minute), 6, "10.00 requests/s are expected") // 10 / 2, and some to spare
	// Fewer are enough at once, and leave after the steady time.
	r.want(r.pass(1, 4*time.Minute), 6, "were wanted within the last 5m0s")
	r.want(r.pass(1, 10*time.Minute), 1, "1.00 requests/s are expected")
}

func TestQueueAndMemory(t *testing.T) {
	r := newRun(t, Config{Min: 1, Max: 50, Rate: 100, Baseline: Baseline{NoWarmPool: true}})
	r.state = State{Ready: 8, KV: 0.95}
	r.want(r.s.Plan(r.state, r.now), 9, "sequences use 95 % of the blocks of 8 workers")
	r = newRun(t, Config{Min: 1, Max: 50, Rate: 100, Wait: time.Second, Baseline: Baseline{NoWarmPool: true}})
	r.state = State{Ready: 40, Queued: 9, Wait: 4 * time.Second}
	r.want(r.s.Plan(r.state, r.now), 42, "a request would wait for 4s, and 1s is the aim") // 3 s of work in a minute
	r.state.Ready = 4
	r.state.Wait = time.Hour
	r.want(r.s.Plan(r.state, r.now.Add(time.Second)), 8, "would wait")
}

// TestLearnsWhatAWorkerServes fills the workers, and sees how much they serve.
func TestLearnsWhatAWorkerServes(t *testing.T) {
	r := newRun(t, Config{Min: 1, Max: 100, Rate: 50, Baseline: Baseline{NoWarmPool: true}})
	r.state.Ready = 4
	for range 60 {
		r.now = r.now.Add(10 * time.Second)
		r.state.Arrived += 120 // 12 a second, of which 2 for each worker are begun
		r.state.Begun += 80
		r.state.Queued, r.state.Wait = 100, 10*time.Second
		r.s.Plan(r.state, r.now)
	}
	r.state.Queued, r.state.Wait = 0, 0
	r.want(r.s.Plan(r.state, r.now.Add(10*time.Second)), 6, "one worker serves 2.0")
}

func TestBounds(t *testing.T) {
	r := newRun(t, Config{Min: 2, Max: 5, Rate: 1})
	r.want(r.s.Plan(State{}, r.now), 2, "2 is the minimum")
	r.want(r.pass(100, 10*time.Minute), 5, "5 is the maximum; 1")
	r = newRun(t, Config{Max: 50, Rate: 1, Price: 4, Budget: 13})
	r.want(r.pass(100, 10*time.Minute), 3, "3 is what 13 an hour pays for")
	// Answers under way keep what holds them, whatever else is wanted.
	r = newRun(t, Config{Max: 50, Rate: 100, KV: 1, Steady: time.Second})
	r.state = State{Ready: 10, Streams: 200, KV: 0.55}
	r.want(r.s.Plan(r.state, r.now), 7, "200 answers are under way and need the blocks of 7 workers")
}

func TestZero(t *testing.T) {
	r := newRun(t, Config{Max: 5, Rate: 1, Idle: 3 * time.Minute, Steady: time.Minute})
	r.pass(0.1, time.Minute)
	r.want(r.pass(0, 2*time.Minute), 1, "")
	r.want(r.pass(0, 2*time.Minute+20*time.Second), 0, "0.00 requests/s are expected")
	r.state.Queued, r.state.Arrived = 1, r.state.Arrived+1
	r.now = r.now.Add(10 * time.Second)
	if p := r.s.Plan(r.state, r.now); p.Workers < 1 {
		t.Errorf("a request waits, and %d workers are planned because %s", p.Workers, p.Why)
	}
}

// TestForecast has two equal days with a steep morning: on the second one the workers
// are there before it.
func TestForecast(t *testing.T) {
	const before = 7*time.Hour + 55*time.Minute
	morning := func(b Baseline) Sizing {
		r := newRun(t, Config{Min: 1, Max: 100, Rate: 1, ColdStart: 20 * time.Minute, Baseline: b})
		r.pass(1, 8*time.Hour)
		r.pass(20, 12*time.Hour)
		r.pass(1, 4*time.Hour+before)
		return r.s.Plan(r.state, r.now)
	}
	with := morning(Baseline{NoWarmPool: true})
	without := morning(Baseline{NoWarmPool: true, NoForecast: true})
	if with.Workers < 20 || without.Workers > 3 {
		t.Errorf("before the morning %d workers, without a forecast %d", with.Workers, without.Workers)
	}
}

// TestWarmPool has a rise that is not expected: for a while workers are kept for another.
func TestWarmPool(t *testing.T) {
	after := func(b Baseline) Sizing {
		b.NoForecast = true
		r := newRun(t, Config{Min: 1, Max: 100, Rate: 1, ColdStart: 10 * time.Minute, Baseline: b})
		r.state.Ready = 2
		r.pass(1, 3*time.Hour)
		r.pass(20, time.Hour)
		return r.pass(1, time.Hour)
	}
	with, without := after(Baseline{}), after(Baseline{NoWarmPool: true})
	if !strings.Contains(with.Why, "more are warm, because up to") || with.Workers < without.Workers+5 {
		t.Errorf("after a rise %d workers because %s; without a warm pool %d", with.Workers, with.Why, without.Workers)
	}
}

// TestTriesMore: workers that were said to serve little are given more as long as nothing
// waits, and what memory allows is not exceeded.
func TestTriesMore(t *testing.T) {
	r := newRun(t, Config{Min: 1, Max: 100, Rate: 1, Baseline: Baseline{NoWarmPool: true}})
	r.s.cfg.Rate = 4 // what they do serve
	r.state.Ready = 20
	for range 4 * 60 {
		r.pass(20, 5*time.Minute)
	}
	if p := r.pass(20, 10*time.Minute); p.Workers < 5 || p.Workers > 7 {
		t.Errorf("%d workers that serve 4 requests/s are planned for 20/s because %s", p.Workers, p.Why)
	}
	r = newRun(t, Config{Min: 1, Max: 100, Rate: 1, Baseline: Baseline{NoWarmPool: true}})
	r.s.cfg.Rate = 4
	r.state.Ready = 20
	for range 4 * 60 {
		r.pass(20, 5*time.Minute)
		r.state.KV = min(1, 8/float64(r.state.Ready)) // ten workers are at 0.8
	}
	if p := r.pass(20, 10*time.Minute); p.Workers < 8 || p.Workers > 10 {
		t.Errorf("%d workers are planned, of which 9 have 90 %% of their blocks in use, because %s", p.Workers, p.Why)
	}
}

func TestUtilisation(t *testing.T) {
	r := newRun(t, Config{Min: 1, Max: 10, Baseline: Baseline{Utilisation: true}})
	busy := State{Ready: 4, Busy: 0.35, KV: 1, Wait: time.Hour}
	r.want(r.s.Plan(busy, r.now), 2, "use 35 % of their arithmetic")
}

func TestBadConfigs(t *testing.T) {
	for text, cfg := range map[string]Config{
		"from 3 to 2 workers":    {Min: 3, Max: 2},
		"from 0 to 0 workers":    {},
		"ColdStart -1s":          {Max: 1, ColdStart: -time.Second},
		"KV is 2":                {Max: 1, KV: 2},
		"Spare NaN":              {Max: 1, Spare: math.NaN()},
		"Price is -1":            {Max: 1, Price: -1},
		"none may be negative":   {Max: 1, Rate: -1},
		"Day -1ns":               {Max: 1, Day: -1},
		"Day is 1ms":             {Max: 1, Day: time.Millisecond},
		"Budget -5 and Rate 0: ": {Max: 1, Budget: -5},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", cfg, err, text)
		}
	}
}
