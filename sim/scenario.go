package sim

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley"
	"parley/fleet/scale"
	"parley/limit"
	"parley/queue"
	"parley/sim/cost"
	"parley/sim/plan"
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
	// Speculation lets workers guess tokens ahead.
	Speculation *SpeculationSpec `yaml:"speculation"`
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

// A PrefillSpec is the workers of a pool that compute prompts. They are like its others.
type PrefillSpec struct {
	Workers int `yaml:"workers"`
	// Scale lets their number follow the load, apart from that of the others.
	Scale *ScaleSpec `yaml:"scale"`
}

// prefill returns the workers for prompts, none where there are none.
func (p *PoolSpec) prefill() PrefillSpec {
	if p.Prefill == nil {
		return PrefillSpec{}
	}
	return *p.Prefill
}

// role returns what the workers of a pool do that are not for prompts.
func (p *PoolSpec) role() parley.WorkerRole {
	if p.Prefill == nil {
		return ""
	}
	return parley.RoleDecode
}

// scales lists how the numbers of workers follow the load.
func (p *PoolSpec) scales() (out []*ScaleSpec) {
	for _, s := range []*ScaleSpec{p.Scale, p.prefill().Scale} {
		if s != nil {
			out = append(out, s)
		}
	}
	return out
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
	// History is for how long the scaler has seen requests come when the scenario begins, as many as its days have.
	// No worker serves them, so the scaler knows the time of day, and not what a worker serves.
	History time.Duration `yaml:"history"`
	// NoForecast, NoWarmPool and Utilisation turn mechanisms off.
	NoForecast  bool `yaml:"no_forecast"`
	NoWarmPool  bool `yaml:"no_warm_pool"`
	Utilisation bool `yaml:"utilisation"`
	// Clairvoyant puts a scaler in place that knows every rate to come, and that a worker
	// serves this many requests in a second: what no real one can do better than.
	Clairvoyant float64 `yaml:"clairvoyant"`
	// onlyWhether ends a run once it is certain that too few requests are within the objectives.
	onlyWhether bool
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
	// Limits are what each of these tenants may use; default no limits. TokenPrice is what a million tokens
	// cost them, for their budgets.
	Limits     *limit.Limits `yaml:"limits"`
	TokenPrice limit.Price   `yaml:"token_price"`
	// Rate is how many users come in a second, over time. CV is the coefficient of
	// variation of the gaps between them; default 1, a Poisson process.
	Rate     []RatePoint `yaml:"rate"`
	RateFile *RateFile   `yaml:"rate_file"` // in place of Rate
	Day      *Day        `yaml:"day"`
	CV       *float64    `yaml:"cv"`
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

// A RateFile has rates that were measured, in the columns t_seconds and rate_rps of a CSV file.
type RateFile struct {
	File string `yaml:"file"`
	// From is when in the file the scenario begins.
	From time.Duration `yaml:"from"`
	// Scale is what each rate is multiplied by, and Speed how many times as fast time passes in the
	// scenario; the default of both is 1.
	Scale float64 `yaml:"scale"`
	Speed float64 `yaml:"speed"`

	rates traffic.Rate
}

func (f *RateFile) validate() error {
	if f.File == "" || f.From < 0 || !(f.Scale > 0 && f.Scale <= 1e9) || !(f.Speed > 0 && f.Speed <= 1e9) {
		return fmt.Errorf("rate_file: file %q from %v on with scale %g and speed %g: want a name, a time that is not "+
			"negative, and numbers above 0", f.File, f.From, f.Scale, f.Speed)
	}
	return nil
}

// Give gives the rates of the file, which a scenario names and does not read.
func (f *RateFile) Give(rates traffic.Rate) { f.rates = rates }

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
	least := d.Trough + float64(0.02*(d.Peak-d.Trough))
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

// durationMax bounds how long a scenario is.
const durationMax = 31 * 24 * time.Hour

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

// A machine is what one worker of a pool can do.
type machine struct {
	cost   *cost.Model
	blocks int
	price  float64 // of an hour
	gpus   int
	// blockBytes is the size of a block; 0 if it is not known.
	blockBytes int
}

// machine works out what a worker is from the planner's sheet.
func (p *PoolSpec) machine() (machine, error) {
	settings := plan.Settings{}
	for name, value := range p.Replica {
		settings[name] = fmt.Sprint(value)
	}
	if p.Cost != nil && len(settings) == 0 {
		if p.Blocks == 0 {
			return machine{}, errors.New("blocks is 0: a pool with a cost and no replica must say how many it has")
		}
		if p.Prefill != nil && p.BlockBytes == 0 {
			return machine{}, errors.New("block_bytes is 0: a pool with prefill and no replica must say how large " +
				"blocks are")
		}
		return machine{
			cost:       p.Cost,
			blocks:     p.Blocks,
			price:      p.Price,
			gpus:       1,
			blockBytes: p.BlockBytes,
		}, nil
	}
	result, err := plan.New().Plan(settings)
	if err != nil {
		return machine{}, fmt.Errorf("replica: %w", err)
	}
	of := result.Values
	m := machine{
		cost:       p.Cost,
		blocks:     p.Blocks,
		price:      p.Price,
		gpus:       int(of["gpus"]),
		blockBytes: cmp.Or(p.BlockBytes, int(of["kv_token"]*blockTokens)),
	}
	if m.price == 0 {
		m.price = of["price"] * of["gpus"]
	}
	if m.blocks == 0 {
		m.blocks = int(of["kv_room"] / (of["kv_token"] * blockTokens))
	}
	if m.blocks < 1 {
		return machine{}, fmt.Errorf("replica: %s", result.Sentence)
	}
	if m.cost == nil {
		m.cost, err = cost.Roofline(cost.Device{
			PrefillRate: of["prefill_rate"],
			ReadRate:    of["read_rate"],
			WeightBytes: of["weights_total"],
			KVBytes:     of["kv_token"],
			Overhead:    p.Overhead,
		})
	}
	return m, err
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

func (t *TrafficSpec) cv() float64 {
	if t.CV == nil {
		return 1
	}
	return *t.CV
}

// rate returns the rate of users over time.
func (t *TrafficSpec) rate() (r traffic.Rate) {
	if f := t.RateFile; f != nil && len(f.rates) > 0 {
		return f.rates.Part(f.From, f.Scale, f.Speed)
	}
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
