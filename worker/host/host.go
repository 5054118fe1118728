// Package host puts a model to work in this process: it opens the files, plans
// the memory, and starts an engine around the network.
//
// A host is the whole lower half of the platform behind one [parley.Worker].
// Only the program's main package imports it.
package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"parley"
	"parley/compute"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/tier"
	"parley/model"
	"parley/model/weights"
	"parley/token"
	"parley/worker"
	"parley/worker/kvstore"
)

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
	store   *kvstore.Backing // nil without
	journal *worker.Journal  // nil unless followed
	blocks  int
	draft   *draft // nil without
	ck      *weights.Checkpoint

	measured measure
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
	if _, isGPU := gpuOf(backend); isGPU {
		if err := plan.firstPass(network); err != nil {
			return nil, errors.Join(fmt.Errorf("model %s: %w", cfg.Name, err), backend.Close())
		}
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
		cfg = cfg.reporting(told(followed))
	}
	memory := plan.paceMemory(backend)
	hostBlocks, diskBlocks := plan.tierBlocks()
	metrics := newMetrics(cfg.Registry, cfg.Name, ck.Config.Context, cfg.SLO)
	summary := weights.Describe(ck)
	measured := measure{network, plan.startMeter(backend, &summary)}
	e, err := engine.New(engine.Config{
		Observe:    measured.observer(loggedPasses(metrics.observer(), cfg.Log)),
		Events:     cfg.Events,
		Learned:    memory.keep,
		Model:      parley.Model{ID: cfg.Name, ContextTokens: plan.ContextTokens},
		Vocab:      network.Vocab(),
		Width:      network.Width(),
		Ends:       ends(&ck.Config, tokenizer),
		Bytes:      textBytes(tokenizer),
		Forward:    measured.forward(),
		Ahead:      measured.ahead(),
		Move:       tiers.Move,
		Settle:     tiers.Settle,
		Background: tiers.Background(),
		Found:      found,
		Content:    plan.content(tiers),
		Sched: cfg.shared(sched.Config{
			Blocks:         plan.blocks(),
			StepTokens:     cfg.StepTokens,
			StepOutputs:    plan.outputs(),
			Seqs:           cfg.Seqs,
			Target:         max(cfg.Target, 0),
			BackgroundWait: cfg.BackgroundWait,
			Window:         d.window(&ck.Config),
			Pace:           memory.recall(),
			Baseline:       cfg.Baseline,
			Cache: kv.Config{Policy: cfg.Eviction, HostBlocks: hostBlocks, DiskBlocks: diskBlocks,
				Events: eventsWanted(cfg.Events)},
		}),
		Speculate: !cfg.NoSpeculation,
		Draft:     d.engine(),
		Log:       cfg.Log,
	})
	if err != nil {
		measured.close()
		return nil, errors.Join(err, d.close(), backend.Close(), tiers.Close())
	}
	metrics.readings(e, plan.blockBytes())
	metrics.device(measured.meter)
	h := &Host{
		Engine:    e,
		Tokenizer: tokenizer,
		Template:  template,
		Device:    backend.Name(),
		Summary:   summary,
		backend:   backend,
		tiers:     tiers,
		journal:   followed,
		blocks:    plan.blocks(),
		draft:     d,
		measured:  measured,
		ck:        ck,
	}
	if cfg.KVStore != nil {
		h.store = cfg.KVStore.Behind(e, plan.format(h))
	}
	return h, nil
}

// Generate answers r; see [parley.Worker]. What a store behind the engine has of it is not
// computed.
func (h *Host) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	if h.store == nil {
		return h.Engine.Generate(ctx, r)
	}
	return h.store.Generate(ctx, r)
}

// loggedPasses has every pass written to a log that takes debug messages: parley bench
// calibrate reads them.
func loggedPasses(o engine.Observer, log *slog.Logger) engine.Observer {
	if log == nil || !log.Enabled(context.Background(), slog.LevelDebug) {
		return o
	}
	count := o.Step
	o.Step = func(p engine.StepReport) {
		count(p)
		log.LogAttrs(context.Background(), slog.LevelDebug, "pass computed", slog.Int("rows", p.Rows),
			slog.Int("sequences", p.Sequences), slog.Int("read", p.Read), slog.Int("lookback", p.Lookback),
			slog.Int64("took_ns", int64(p.Took)), slog.Int64("gap_ns", int64(p.Gap)))
	}
	return o
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
	h.measured.close()
	if h.store != nil {
		h.store.Close()
	}
	return errors.Join(h.Engine.Close(), h.draft.close(), h.backend.Close(), h.tiers.Close(), h.ck.Close())
}

// Err returns what keeps the device from computing, nil while it works. After
// a failure of a GPU nothing can be computed until the process starts again.
func (h *Host) Err() error {
	if d, ok := h.backend.(interface{ Err() error }); ok {
		return d.Err()
	}
	return nil
}
