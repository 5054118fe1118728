package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"parley"
	"parley/fleet/scale"
	"parley/queue"
	"parley/sim/cost"
	"parley/sim/traffic"
)

// A Scenario says what is simulated. It is written as YAML; see examples/sim.
type Scenario struct {
	Name string `yaml:"name"`
	// About says what the scenario shows.
	About string `yaml:"about"`
	Seed  uint64 `yaml:"seed"`
	// Duration is how long new users come. The run continues until all that came is
	// answered, for at most Drain longer; default 10 minutes.
	Duration time.Duration `yaml:"duration"`
	Drain    time.Duration `yaml:"drain"`
	// Window is the distance of two rows of the report; default a sixtieth of the duration.
	Window time.Duration `yaml:"window"`
	// TTFT and TPOT are the objectives; default 1 s and 50 ms.
	TTFT    time.Duration `yaml:"ttft"`
	TPOT    time.Duration `yaml:"tpot"`
	Pools   []PoolSpec    `yaml:"pools"`
	Traffic []TrafficSpec `yaml:"traffic"`
	Events  []Incident    `yaml:"events"`
}

// A PoolSpec is workers of one kind, with one queue.
type PoolSpec struct {
	Name    string `yaml:"name"`
	Workers int    `yaml:"workers"`
	// Replica are the settings of parley plan that say what one worker is: model,
	// device, tp, weights, kv and so on.
	Replica map[string]any `yaml:"replica"`
	// Cost takes the place of the roofline of the replica; Price of its price per hour.
	Cost  *cost.Model `yaml:"cost"`
	Price float64     `yaml:"price"`
	// Calibration is a file with the cost, as parley bench calibrate writes it. The caller
	// of Read puts it into Cost.
	Calibration string `yaml:"calibration"`
	// Overhead is what a pass takes besides arithmetic and memory, with a roofline;
	// default 1 ms.
	Overhead time.Duration `yaml:"overhead"`
	// Blocks is the size of a worker's pool of keys and values; default what fits the
	// replica's memory. HostBlocks is the size of the tier below it, and HostCopy how
	// long a block takes between the two.
	Blocks     int           `yaml:"blocks"`
	HostBlocks int           `yaml:"host_blocks"`
	HostCopy   time.Duration `yaml:"host_copy"`
	// Ghosts is how many evicted blocks each cache remembers; default as in production.
	Ghosts int `yaml:"ghosts"`
	// Seqs and StepTokens bound a pass; default 256 and 8192. Target is how long a pass
	// with sequences that decode should take; default 50 ms.
	Seqs       int           `yaml:"seqs"`
	StepTokens int           `yaml:"step_tokens"`
	Target     time.Duration `yaml:"target"`
	// Reserve is the share of blocks and seats that only a class itself uses.
	Reserve map[string]float64 `yaml:"reserve"`
	// ColdStart is how long a worker takes from its start until it is ready.
	ColdStart time.Duration `yaml:"cold_start"`
	// Scale lets the number of workers follow the load; Workers is that of the start.
	Scale *ScaleSpec `yaml:"scale"`
	// Prefill are workers for prompts: those of the pool decode then, and fetch the blocks of
	// prompts over a network that carries Network bytes in a second from and to each worker;
	// default 25 GB, 200 Gb/s. BlockBytes is the size of a block; default as the replica has.
	Prefill    *PrefillSpec `yaml:"prefill"`
	Network    float64      `yaml:"network"`
	BlockBytes int          `yaml:"block_bytes"`
	// QueueDepth and QueueWait bound the queue; default as in production.
	QueueDepth int           `yaml:"queue_depth"`
	QueueWait  time.Duration `yaml:"queue_wait"`
	// RoundRobin sends requests to the workers in turn, NoCache shares no prefixes,
	// NoQueue hands every request to a worker at once, and OneTier takes all requests
	// for the same class: to see what the mechanisms are worth.
	RoundRobin bool `yaml:"round_robin"`
	NoCache    bool `yaml:"no_cache"`
	NoQueue    bool `yaml:"no_queue"`
	OneTier    bool `yaml:"one_tier"`
	// TokenMax is what running answers may be slowed to; default as in production.
	TokenMax time.Duration `yaml:"token_max"`
}

// A ScaleSpec lets the scaler of production decide how many workers a pool has. Its fields are
// those of [scale.Config].
type ScaleSpec struct {
	Min    int           `yaml:"min"`
	Max    int           `yaml:"max"`
	Idle   time.Duration `yaml:"idle"`
	Wait   time.Duration `yaml:"wait"`
	KV     float64       `yaml:"kv"`
	Spare  float64       `yaml:"spare"`
	Steady time.Duration `yaml:"steady"`
	Budget float64       `yaml:"budget"`
	Rate   float64       `yaml:"rate"`
	Day    time.Duration `yaml:"day"`
	// Every is how often it decides; default 10 s.
	Every time.Duration `yaml:"every"`
	// NoForecast, NoWarmPool and Utilisation turn mechanisms off.
	NoForecast  bool `yaml:"no_forecast"`
	NoWarmPool  bool `yaml:"no_warm_pool"`
	Utilisation bool `yaml:"utilisation"`
	// Clairvoyant puts a scaler in place that knows every rate to come, and that a worker
	// serves this many requests in a second: what no real one can do better than.
	Clairvoyant float64 `yaml:"clairvoyant"`
}

// config returns the scaler's settings for workers that start in coldStart.
func (s *ScaleSpec) config(coldStart time.Duration, price float64) scale.Config {
	return scale.Config{
		Min:       s.Min,
		Max:       s.Max,
		Idle:      s.Idle,
		Wait:      s.Wait,
		KV:        s.KV,
		Spare:     s.Spare,
		ColdStart: coldStart,
		Steady:    s.Steady,
		Price:     price,
		Budget:    s.Budget,
		Rate:      s.Rate,
		Day:       s.Day,
		Baseline: scale.Baseline{
			NoForecast:  s.NoForecast,
			NoWarmPool:  s.NoWarmPool,
			Utilisation: s.Utilisation,
		},
	}
}

// TrafficSpec is one kind of users.
type TrafficSpec struct {
	Name string `yaml:"name"`
	// Pool is the name of the pool that answers; default the first.
	Pool  string `yaml:"pool"`
	Class string `yaml:"class"`
	// Tenants is how many tenants these users belong to; default 1.
	Tenants int `yaml:"tenants"`
	// Rate is how many users come in a second, over time. CV is the coefficient of
	// variation of the gaps between them; default 1, a Poisson process.
	Rate []RatePoint `yaml:"rate"`
	Day  *Day        `yaml:"day"`
	CV   *float64    `yaml:"cv"`
	// Workload is independent, shared-prefix or conversation.
	Workload string `yaml:"workload"`
	// Prompt and Output are lengths, such as 128, 64-512 or lognormal:300:1.
	Prompt string `yaml:"prompt"`
	Output string `yaml:"output"`
	// MaxOutput is what clients say that an answer may have at most; default the
	// longest answer that Output can draw, at most 4096.
	MaxOutput     int    `yaml:"max_output"`
	SharedTokens  int    `yaml:"shared_tokens"`
	HistoryTokens int    `yaml:"history_tokens"`
	Groups        int    `yaml:"groups"`
	GroupUsers    int    `yaml:"group_users"`
	Turns         string `yaml:"turns"`
	// Think is the mean time from an answer to the next turn: a person reads and
	// writes, an agent runs a tool. Its gaps are exponential.
	Think time.Duration `yaml:"think"`
	// Patience is how long a client waits for the first token before it hangs up; 0
	// means for ever.
	Patience time.Duration `yaml:"patience"`
	// Retries is how often a client comes again after it was rejected or hung up,
	// after Backoff, twice that, and so on, each drawn from half of it to all of it.
	// With Obey it waits at least for as long as the server said.
	Retries int           `yaml:"retries"`
	Backoff time.Duration `yaml:"backoff"`
	Obey    bool          `yaml:"obey"`
	// Stamped is when clients begin to put the time of day at the head of each prompt,
	// so that no two begin alike, and StampedUntil when they stop; 0 means never.
	Stamped      time.Duration `yaml:"stamped"`
	StampedUntil time.Duration `yaml:"stamped_until"`
	// Replay takes requests from a recorded trace in place of Rate and Workload.
	Replay *Replay `yaml:"replay"`
}

// A RatePoint is a rate at a time; between points it follows a straight line.
type RatePoint struct {
	At        time.Duration `yaml:"at"`
	PerSecond float64       `yaml:"per_second"`
}

// A Day is a rate that swings between a trough and a peak once a day.
type Day struct {
	Trough float64       `yaml:"trough"`
	Peak   float64       `yaml:"peak"`
	PeakAt time.Duration `yaml:"peak_at"`
	// Mean is the rate over the whole day; default the middle of trough and peak, as a
	// cosine has. Less is a day with a narrow peak.
	Mean float64 `yaml:"mean"`
	// Length is how long the day is; default 24 h. A shorter one is a day in a hurry.
	Length time.Duration `yaml:"length"`
}

// validate reports whether the mean of a day is what days can have.
func (d *Day) validate() error {
	// The narrowest peak that is drawn has a mean of about a fiftieth of the swing.
	least := d.Trough + 0.02*(d.Peak-d.Trough)
	if !(d.Trough >= 0 && d.Peak >= d.Trough && d.Mean >= least && d.Mean <= d.Peak) {
		return fmt.Errorf("a day from %g to %g with a mean of %g: want a peak that is not less than the trough, and "+
			"a mean from %g on", d.Trough, d.Peak, d.Mean, least)
	}
	return nil
}

// A Replay is a recorded trace.
type Replay struct {
	File   string        `yaml:"file"`
	Format string        `yaml:"format"`
	Limit  int           `yaml:"limit"`
	Speed  float64       `yaml:"speed"`
	Scale  float64       `yaml:"scale"`
	Spread time.Duration `yaml:"spread"`

	rows []traffic.Row
}

// An Incident happens to workers.
type Incident struct {
	At   time.Duration `yaml:"at"`
	Pool string        `yaml:"pool"`
	// Lose is how many workers are lost, the first ones; they start again After, and
	// are ready after their cold start. Start begins more workers.
	Lose  int           `yaml:"lose"`
	After time.Duration `yaml:"after"`
	Start int           `yaml:"start"`
}

// The bounds of a scenario.
const (
	durationMax = 31 * 24 * time.Hour
	workersMax  = 1 << 16 // of which one router takes kvindex.WorkersMax
	windowsMax  = 100_000
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

func (p *PoolSpec) reserve() (shares [parley.Classes]float64, err error) {
	sum := 0.0
	for name, share := range p.Reserve {
		class, err := classOf(name)
		if err != nil {
			return shares, err
		}
		shares[class] = share
	}
	for _, share := range shares {
		if !(share >= 0) {
			return shares, fmt.Errorf("a reserved share of %g: want 0 to 1", share)
		}
		sum += share
	}
	if sum >= 1 {
		return shares, fmt.Errorf("classes reserve %g of the workers: want less than 1 together", sum)
	}
	return shares, nil
}

func (p *PoolSpec) queueConfig() (queue.Config, error) {
	c := queue.Config{DepthMax: p.QueueDepth, TokenMax: p.TokenMax}
	for class := range c.Tiers {
		c.Tiers[class].WaitMax = p.QueueWait
	}
	return c, c.Validate()
}

func classOf(name string) (parley.Class, error) {
	var names []string
	for c := range parley.Class(parley.Classes) {
		if c.String() == name {
			return c, nil
		}
		names = append(names, c.String())
	}
	return 0, fmt.Errorf("class %q: want one of %s", name, strings.Join(names, ", "))
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
	if t.Replay != nil {
		return errors.Join(append(problems, t.Replay.settings().Validate())...)
	}
	if (t.Day != nil) == (len(t.Rate) > 0) {
		problems = append(problems, errors.New("want one of rate, day and replay"))
	} else if t.Day != nil && t.Day.validate() != nil {
		problems = append(problems, t.Day.validate())
	} else {
		problems = append(problems, t.rate().Validate())
	}
	if cv := t.cv(); !(cv >= 0 && cv <= 100) {
		problems = append(problems, fmt.Errorf("cv is %g: want 0 to 100", cv))
	}
	w, err := t.workload(0)
	if problems = append(problems, err); err == nil {
		problems = append(problems, w.Validate())
	}
	return errors.Join(problems...)
}

func (t *TrafficSpec) cv() float64 {
	if t.CV == nil {
		return 1
	}
	return *t.CV
}

// rate returns the rate of users over time.
func (t *TrafficSpec) rate() (r traffic.Rate) {
	if t.Day == nil {
		for _, p := range t.Rate {
			r = append(r, traffic.RatePoint{At: p.At, PerSecond: p.PerSecond})
		}
		return r
	}
	const day = 24 * time.Hour
	pace := float64(t.Day.Length) / float64(day)
	days := 1 + int(durationMax/day)
	d := t.Day
	if d.Length < time.Minute || d.Length > durationMax || d.validate() != nil {
		return nil
	}
	power := 1.0
	if d.Peak > d.Trough {
		power = traffic.DayPower((d.Mean - d.Trough) / (d.Peak - d.Trough))
	}
	for _, p := range traffic.Days(d.Trough, d.Peak, power, time.Duration(float64(d.PeakAt)/pace), days) {
		r = append(r, traffic.RatePoint{At: time.Duration(float64(p.At) * pace), PerSecond: p.PerSecond})
	}
	return r
}

// outputMax bounds the answers for which clients set no limit of their own.
const outputMax = 4096

// workload returns the requests of these users.
func (t *TrafficSpec) workload(seed uint64) (*traffic.Workload, error) {
	w := &traffic.Workload{
		Kind:          traffic.Kind(t.Workload),
		Seed:          seed,
		SharedTokens:  t.SharedTokens,
		HistoryTokens: t.HistoryTokens,
		Groups:        t.Groups,
		GroupUsers:    max(1, t.GroupUsers),
		Open:          1,
	}
	var err1, err2, err3 error
	w.Prompt, err1 = traffic.ParseLength(t.Prompt)
	w.Output, err2 = traffic.ParseLength(t.Output)
	w.Turns, err3 = traffic.ParseLength(t.Turns)
	w.Output.Most = min(w.Output.Most, max(t.MaxOutput, outputMax))
	return w, errors.Join(err1, err2, err3)
}

func (r *Replay) settings() traffic.Replay {
	return traffic.Replay{Scale: r.Scale, Speed: r.Speed, Spread: r.Spread}
}

// Give gives a replay the rows of its file, which a scenario names and does not read.
func (r *Replay) Give(rows []traffic.Row) { r.rows = rows }
