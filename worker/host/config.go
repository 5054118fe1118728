package host

import (
	"cmp"
	"iter"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/model/weights"
	"parley/worker/kvstore"
)

// Config says how one model is hosted. The zero value works.
type Config struct {
	// Name is what clients call the model; default: the file's name.
	Name string
	// KVTokens is the size of the key/value pool, in tokens; 0 chooses what
	// serves several full contexts and fits the memory.
	KVTokens int
	// KVType is how the pool keeps keys and values. Smaller types hold more
	// tokens in the same memory; the zero value, float32, loses nothing.
	KVType compute.KVType
	// KVHostBytes and KVDiskBytes are how much host memory, and how much of the
	// disk under DataDir, keep what the pool has no room for. 0 means none.
	KVHostBytes, KVDiskBytes int64
	DataDir                  string
	// KVStore is behind them all and shared with other workers; nil means none.
	KVStore *kvstore.Store
	// ContextTokens bounds prompt and answer together; 0 means what the model
	// was made for, or the whole pool if that is smaller.
	ContextTokens int
	// StepTokens is the most tokens in one forward pass; 0 means 512, on a GPU 8192.
	StepTokens int
	// Seqs is the most sequences computed at once; 0 means 128, the most
	// choices that one request may ask for, and 256 on a GPU.
	Seqs int
	// Target is how long a step in which answers are being written should
	// take: what prompts may add to it is bounded by this. 0 means 50 ms,
	// negative means no target.
	Target time.Duration
	// BackgroundWait is how long background work goes without a turn, because
	// others always have some, before one request of it is admitted; 0 means a
	// minute, less than 0 for ever.
	BackgroundWait time.Duration
	// Classes say what each class of requests gets beside others; the zero value
	// is the scheduler's default.
	Classes [parley.Classes]ClassShare
	// NoSpeculation turns guessing tokens ahead off. The answers are the same.
	NoSpeculation bool
	// Draft is a smaller model with the same vocabulary that guesses ahead; nil
	// means none. NoSpeculation leaves it unused and unloaded. DraftName is what
	// people call it; default: its file's name.
	Draft     *weights.Checkpoint
	DraftName string
	// Baseline turns mechanisms of the scheduler off, and Eviction chooses what
	// leaves the cache first: for measurements alone.
	Baseline sched.Baseline
	Eviction kv.Policy
	// SLO is what is promised; metrics count how often it was kept. The zero
	// value promises nothing.
	SLO parley.SLO
	// DeviceName is what should compute, as [ChooseDevice] takes it, and Device
	// what does: [PlanDevice] sets it. The zero value is the processor.
	DeviceName string
	Device     Device
	// RoundF8 rounds matrices of 16 and 32 bits to FP8 when they are loaded, for
	// devices that compute with it; see [Device.CheckF8].
	RoundF8 bool
	// Threads is how many processors compute; 0 means all.
	Threads int
	// Numerics say how exactly is computed.
	Numerics cpu.Numerics
	// Path forces a set of processor instructions; empty chooses the best.
	Path string
	// Registry takes the engine's metrics; nil keeps none.
	Registry prometheus.Registerer
	// Events is told what the cache holds, as [engine.Config.Events] is; nil
	// means no listener. Followed lets others in this process know, through
	// [Host.Follow], and is used without Events.
	Events   func(iter.Seq[kv.Event])
	Followed bool
	// Log receives faults; nil means none.
	Log *slog.Logger

	// wrap changes what computes, for tests of devices that fail; nil changes nothing.
	wrap func(compute.Backend) compute.Backend
}

// A ClassShare is what a class of requests gets.
type ClassShare struct {
	// Weight is its share of turns beside other classes; 0 is the default.
	Weight float64
	// KVShare is the part of the pool that it may keep cached before it is evicted
	// ahead of others, 0 for all of it; KVReserve the part that others use only
	// while it does not.
	KVShare, KVReserve float64
	// TenantKVShare is the part of the pool that each of its tenants may keep cached
	// before it is evicted ahead of others; 0 is one half.
	TenantKVShare float64
}

// shared sets what classes get in the config of the scheduler.
func (c *Config) shared(to sched.Config) sched.Config {
	for class, share := range c.Classes {
		to.Weights[class], to.CacheShares[class], to.Reserve[class] = share.Weight, share.KVShare, share.KVReserve
		to.TenantShares[class] = share.TenantKVShare
	}
	return to
}

const (
	stepTokensDefault = 512
	seqsDefault       = 128
	targetDefault     = 50 * time.Millisecond

	// A GPU is idle with less.
	stepTokensGPU = 8192
	seqsGPU       = 256
)

// inRole sets what follows from what a worker does of requests, and was not set.
func (c Config) inRole(role parley.WorkerRole) Config {
	if role == parley.RoleDecode && c.Threads == 0 {
		c.Threads = decodeThreads(runtime.GOMAXPROCS(0))
	}
	return c
}

// decodeThreads returns how many of the processors compute in a worker that decodes. Blocks come to it all the time:
// where all processors compute, each thread that makes room for them delays the others of its pass.
func decodeThreads(processors int) int {
	if processors < 4 {
		return processors
	}
	return processors - 1
}

// registering returns the configuration with a registry for its metrics.
func (c Config) registering(r prometheus.Registerer) Config {
	c.Registry = r
	return c
}

// reporting returns the configuration with a listener for what the cache holds.
func (c Config) reporting(events func(iter.Seq[kv.Event])) Config {
	c.Events = events
	return c
}

// on returns the configuration for a device.
func (c Config) on(d Device) Config {
	c.Device = d
	return c
}

// sized returns the configuration with a context of contextTokens, and a pool for one
// context unless it says otherwise.
func (c Config) sized(contextTokens int) Config {
	c.ContextTokens = contextTokens
	c.KVTokens = wholeBlocks(cmp.Or(c.KVTokens, contextTokens))
	return c
}

// wholeBlocks rounds a number of tokens up to whole blocks.
func wholeBlocks(tokens int) int {
	return (tokens + compute.BlockTokens - 1) / compute.BlockTokens * compute.BlockTokens
}

func (c Config) withDefaults(ck *weights.Checkpoint) Config {
	if c.Name == "" {
		c.Name = nameOf(ck)
	}
	stepTokens, seqs := stepTokensDefault, seqsDefault
	if c.Device.GPU {
		stepTokens, seqs = stepTokensGPU, seqsGPU
	}
	if c.StepTokens == 0 {
		c.StepTokens = stepTokens
	}
	if c.Seqs == 0 {
		c.Seqs = seqs
	}
	c.StepTokens = max(c.StepTokens, c.Seqs)
	if c.Target == 0 {
		c.Target = targetDefault
	}
	return c
}

// nameOf derives a model's name from its file.
func nameOf(ck *weights.Checkpoint) string {
	base := filepath.Base(ck.Path)
	if ck.Format == weights.FormatGGUF {
		return base[:len(base)-len(filepath.Ext(base))]
	}
	return base
}

// forDraft returns how the draft model of a model is hosted.
func (c Config) forDraft() Config {
	c.Name, c.Draft, c.DraftName = c.DraftName, nil, ""
	c.KVHostBytes, c.KVDiskBytes, c.KVStore = 0, 0, nil // what it has not, it computes again
	return c
}
