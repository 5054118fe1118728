// Package host puts a model to work in this process: it opens the files, plans
// the memory, and starts an engine around the network.
//
// A host is the whole lower half of the platform behind one [parley.Worker].
// Only the program's main package imports it.
package host

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/tier"
	"parley/model"
	"parley/model/weights"
	"parley/token"
	"parley/worker"
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
	// others always have some, before one request of it is let in; 0 means a
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

// eventsKept is how many events of the cache one pass may cause: it seals and
// evicts a few dozen blocks, and copies move some hundreds.
const eventsKept = 8192

// eventsWanted returns how many events the cache keeps.
func (c *Config) eventsWanted() int {
	if c.Events == nil {
		return 0
	}
	return eventsKept
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

// registering returns the configuration with a registry for its metrics.
func (c Config) registering(r prometheus.Registerer) Config {
	c.Registry = r
	return c
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

// A Host serves one model. It implements [parley.Worker].
type Host struct {
	*engine.Engine
	// Tokenizer belongs to the model's vocabulary.
	Tokenizer *token.Tokenizer
	// Template renders conversations; nil if the model has none.
	Template *token.ChatTemplate
	// Device says what computes, Summary what.
	Device  string
	Summary weights.Summary

	backend compute.Backend
	tiers   *tier.Store
	journal *worker.Journal // nil unless followed
	blocks  int
	draft   *draft // nil without
	ck      *weights.Checkpoint
}

var _ parley.Worker = (*Host)(nil)

// Start loads the planned model and starts its engine. On success the host
// owns the checkpoint and closes it.
func Start(plan *Plan) (*Host, error) {
	ck, cfg := plan.ck, plan.cfg
	tokenizer, template, err := readTokenizer(ck)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", cfg.Name, err)
	}
	if tokenizer.Size() > ck.Config.Vocab {
		return nil, fmt.Errorf("model %s: the tokenizer has %d tokens, but the network scores %d", cfg.Name,
			tokenizer.Size(), ck.Config.Vocab)
	}
	backend, err := plan.newBackend(nil)
	if err != nil {
		return nil, err
	}
	var network *model.Model
	err = weights.CatchFault(func() (err error) {
		network, err = model.Load(ck, backend, plan.limits())
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", cfg.Name, err), backend.Close())
	}
	d, err := plan.loadDraft(backend, tokenizer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", cfg.Name, err), backend.Close())
	}
	tiers, found, err := plan.openTiers(backend)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", cfg.Name, err), d.close(), backend.Close())
	}
	var followed *worker.Journal
	if cfg.Followed {
		followed = worker.NewJournal(followedKept)
		cfg.Events = told(followed)
	}
	memory := plan.paceMemory(backend)
	hostBlocks, diskBlocks := plan.tierBlocks()
	metrics := newMetrics(cfg.Registry, cfg.Name, ck.Config.Context, cfg.SLO)
	e, err := engine.New(engine.Config{
		Observe: metrics.observer(),
		Events:  cfg.Events,
		Learned: memory.keep,
		Model:   parley.Model{ID: cfg.Name, ContextTokens: plan.ContextTokens},
		Vocab:   network.Vocab(),
		Width:   network.Width(),
		Ends:    ends(&ck.Config, tokenizer),
		Bytes:   textBytes(tokenizer),
		Forward: network.Forward,
		Ahead:   aheadOf(network),
		Move:    tiers.Move,
		Settle:  tiers.Settle,
		Found:   found,
		Sched: cfg.shared(sched.Config{
			Blocks:         plan.blocks(),
			StepTokens:     cfg.StepTokens,
			StepOutputs:    plan.outputs(),
			Seqs:           cfg.Seqs,
			Target:         max(cfg.Target, 0),
			BackgroundWait: cfg.BackgroundWait,
			Pace:           memory.recall(),
			Baseline:       cfg.Baseline,
			Cache: kv.Config{Policy: cfg.Eviction, HostBlocks: hostBlocks, DiskBlocks: diskBlocks,
				Events: cfg.eventsWanted()},
		}),
		Speculate: !cfg.NoSpeculation,
		Draft:     d.engine(),
		Log:       cfg.Log,
	})
	if err != nil {
		return nil, errors.Join(err, d.close(), backend.Close(), tiers.Close())
	}
	metrics.readings(e, plan.blockBytes())
	return &Host{
		Engine:    e,
		Tokenizer: tokenizer,
		Template:  template,
		Device:    backend.Name(),
		Summary:   weights.Describe(ck),
		backend:   backend,
		tiers:     tiers,
		journal:   followed,
		blocks:    plan.blocks(),
		draft:     d,
		ck:        ck,
	}, nil
}

// aheadOf returns how steps are computed ahead, nil if the device cannot.
func aheadOf(network *model.Model) *engine.Ahead {
	if !network.Chooses() {
		return nil
	}
	return &engine.Ahead{Launch: network.Launch, Wait: network.AwaitChosen}
}

// textBytes returns what each token adds to the text, which for special
// tokens is nothing: they cannot be part of a stop string, nor of a grammar. The
// marks of calls and thoughts are text even where they are special.
func textBytes(t *token.Tokenizer) func(parley.Token) []byte {
	return func(id parley.Token) []byte {
		if !t.IsSaid(id) {
			return nil
		}
		return t.Bytes(id)
	}
}

// ends lists the tokens that end a text: those the model's configuration
// names and those the tokenizer knows.
func ends(cfg *weights.Config, t *token.Tokenizer) []parley.Token {
	out := append([]parley.Token(nil), t.Special().EOS...)
	for _, id := range cfg.EOS {
		out = append(out, parley.Token(id))
	}
	return out
}

// Close ends the engine and gives all memory back.
func (h *Host) Close() error {
	return errors.Join(h.Engine.Close(), h.draft.close(), h.backend.Close(), h.tiers.Close(), h.ck.Close())
}
