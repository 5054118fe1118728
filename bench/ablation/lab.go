package ablation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/compute"
	"parley/internal/builtin"
	"parley/model/weights"
	"parley/sim/traffic"
	"parley/worker/host"
)

// Options say what is measured, and how thoroughly.
type Options struct {
	// Mechanisms are rows of [Table], as [Select] returns them.
	Mechanisms []Mechanism
	// Quick makes fewer and shorter rounds: enough to see that all works, not
	// enough to judge a mechanism near its floor.
	Quick bool
	// Trace is what the caches are compared on; nil means generated conversations.
	Trace []traffic.Row
	// Dir is where a model of some 150 MB is written for the time of the run;
	// empty means the system's directory for such files.
	Dir string
	// Progress is told how far the run is; nil discards it.
	Progress func(done, total int)
}

// Run measures the mechanisms one after the other. If ctx ends it returns the
// results so far, and an error that says so.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	if o.Trace != nil && !slices.ContainsFunc(o.Trace, func(r traffic.Row) bool { return len(r.Blocks) > 0 }) {
		return nil, errors.New("the trace does not say which prompts begin alike: expected one with block hashes")
	}
	dir, err := os.MkdirTemp(o.Dir, "parley-mechanisms-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := &lab{Options: o, dir: dir}
	for _, m := range o.Mechanisms {
		l.total += 2 * l.rounds(experiments[m.Name])
	}
	for _, m := range o.Mechanisms {
		r, err := l.measure(ctx, m)
		if err != nil {
			return results, fmt.Errorf("%s: %w", m.Name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// An experiment is how a mechanism is measured.
type experiment struct {
	// rounds is how often, and quick how often in a quick run.
	rounds, quick int
	run           func(ctx context.Context, l *lab, rounds int) (Sample, error)
}

// experiments has one for each row of the table, by its name.
var experiments = map[string]experiment{
	"batching":        {5, 1, runBatching},
	"paging":          {4, 1, runPaging},
	"prefix-cache":    {3, 1, runPrefixCache},
	"chunked-prefill": {4, 1, runChunkedPrefill},
	"int8-kv":         {2, 1, runInt8KV},
	"lookup":          {9, 3, runLookup},
	"draft":           {9, 3, runDraft},
	"full-load":       {80, 3, runFullLoad},
	"eviction":        {12, 12, runEviction},
	"gap":             {1, 1, runGap},
}

// A lab is one run: the models and the engines that stand ready.
type lab struct {
	Options
	dir         string
	long        string // the file of the random model, once written
	open        []*host.Host
	done, total int
}

func (l *lab) rounds(e experiment) int {
	if l.Quick {
		return e.quick
	}
	return e.rounds
}

// measure carries out the experiment of one mechanism.
func (l *lab) measure(ctx context.Context, m Mechanism) (r Result, err error) {
	defer func() { err = errors.Join(err, l.close()) }()
	began := time.Now()
	e := experiments[m.Name]
	s, err := e.run(ctx, l, l.rounds(e))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Result{}, err
	}
	return judge(m, s, time.Since(began))
}

// A side measures one side of a round.
type side func(ctx context.Context, round int) (float64, error)

// alternate measures both sides in turn, and changes who is first from round to
// round.
func (l *lab) alternate(ctx context.Context, rounds int, off, on side) (s Sample, err error) {
	for round := range rounds {
		var x, y float64
		if round%2 == 0 {
			x, err = l.one(ctx, round, off, err)
			y, err = l.one(ctx, round, on, err)
		} else {
			y, err = l.one(ctx, round, on, err)
			x, err = l.one(ctx, round, off, err)
		}
		if err != nil {
			return s, err
		}
		s.Off, s.On = append(s.Off, x), append(s.On, y)
	}
	return s, nil
}

// one measures a side, unless something went wrong before.
func (l *lab) one(ctx context.Context, round int, measure side, before error) (float64, error) {
	if err := errors.Join(before, ctx.Err()); err != nil {
		return 0, err
	}
	v, err := measure(ctx, round)
	l.step(1)
	return v, err
}

func (l *lab) step(n int) {
	l.done += n
	if l.Progress != nil {
		l.Progress(l.done, l.total)
	}
}

// The models of the lab. Those that come with the program write text; the
// random one has a context long enough for what prompts are like elsewhere.
const (
	polly     = "polly"
	pollyMini = "polly-mini"
	random    = "random"

	randomShape  = "llama-135m"
	randomTokens = 8192 // its context
)

// start puts a model to work until the experiment ends.
func (l *lab) start(model string, cfg host.Config) (*host.Host, error) {
	ck, err := l.checkpoint(model)
	if err != nil {
		return nil, err
	}
	available, err := host.AvailableBytes()
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	cfg.Name, cfg.KVType = model, cmp.Or(cfg.KVType, compute.KVBF16) // as served
	plans, err := host.PlanMemory([]host.Candidate{{Checkpoint: ck, Config: cfg}}, available)
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	h, err := host.Start(plans[0])
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	l.open = append(l.open, h)
	return h, nil
}

// startBoth puts a model to work twice: with a mechanism off, and on.
func (l *lab) startBoth(model string, off, on host.Config) (a, b *host.Host, err error) {
	if a, err = l.start(model, off); err != nil {
		return nil, nil, err
	}
	b, err = l.start(model, on)
	return a, b, err
}

// close ends the engines of an experiment.
func (l *lab) close() error {
	var errs []error
	for _, h := range l.open {
		errs = append(errs, h.Close())
	}
	l.open = nil
	return errors.Join(errs...)
}

func (l *lab) checkpoint(model string) (*weights.Checkpoint, error) {
	if m, ok := builtin.Find(model); ok {
		return m.Open()
	}
	if l.long == "" {
		path := filepath.Join(l.dir, randomShape+".gguf")
		if err := writeRandom(path); err != nil {
			return nil, err
		}
		l.long = path
	}
	return weights.Open(l.long)
}

// writeRandom writes a model with random weights: it answers nonsense, and takes
// as long as a trained one.
func writeRandom(path string) (err error) {
	shape, err := weights.ShapeNamed(randomShape)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = weights.WriteRandom(f, shape, weights.Q8_0, 1, nil)
	return err
}
