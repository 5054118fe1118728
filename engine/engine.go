// Package engine turns requests into tokens: plan, compute, choose, commit.
//
// One goroutine owns the device and runs a loop: it asks the scheduler what the
// next pass computes, runs the pass, chooses a token for every sequence that is
// ready for one, and delivers it. Requests join and leave between passes. The
// engine handles only token ids; for stop strings it also knows the bytes of each
// token.
//
// A panic during a pass fails the requests of that pass and nothing else.
package engine

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/grammar"
	"parley/engine/kv"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/engine/spec"
)

// An Engine serves one model. It implements [parley.Worker].
type Engine struct {
	cfg     Config
	inbox   *inbox
	stats   counters
	loop    *loop
	stopped chan struct{}

	// vocabulary arranges the tokens for grammars, when the first one comes.
	vocabulary func() *grammar.Vocabulary
	programs   *programs
}

var _ parley.Worker = (*Engine)(nil)

// New starts an engine. Close ends it.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e, err := assembleEngine(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	go e.run()
	return e, nil
}

// assembleEngine returns an engine whose loop does not run yet.
func assembleEngine(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, inbox: newInbox(), stopped: make(chan struct{}), programs: newPrograms()}
	e.vocabulary = sync.OnceValue(func() *grammar.Vocabulary {
		return grammar.NewVocabulary(cfg.Vocab, cfg.Bytes, cfg.Ends)
	})
	loop, err := newLoop(&e.cfg, e.inbox, &e.stats, e.vocabulary)
	e.loop = loop
	return e, err
}

// run goes round until the engine is closed.
func (e *Engine) run() {
	defer close(e.stopped)
	debug.SetPanicOnFault(true) // a model file cut short fails the step, not the process
	for !e.loop.round() {
	}
	e.loop.learned(true)
}

// Models returns the one model the engine serves.
func (e *Engine) Models() []parley.Model { return []parley.Model{e.cfg.Model} }

// Stats returns the present counts.
func (e *Engine) Stats() Stats { return e.stats.read() }

// Generate answers r; see [parley.Worker].
func (e *Engine) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		j, err := e.newJob(ctx, r)
		if err == nil && !e.inbox.submit(j) {
			err = e.cfg.closing()
		}
		if err != nil {
			yield(parley.Delta{}, err)
			return
		}
		defer e.inbox.leave(j)
		if w := parley.WithdrawalOf(ctx); w != nil {
			w.OnAsk(func() { e.inbox.withdraw(j) })
			defer w.OnAsk(nil)
		}
		j.mail.each(ctx, yield)
	}
}

// newJob checks the request and prepares its choices.
func (e *Engine) newJob(ctx context.Context, r *parley.Request) (*job, error) {
	if err := e.check(r); err != nil {
		return nil, err
	}
	program, err := e.compile(ctx, r)
	if err != nil {
		return nil, err
	}
	j := &job{req: r, program: program, times: times{arrived: e.cfg.Now()}, mail: newMailbox()}
	prompt := j.fitPrompt(e.cfg.Model.ContextTokens)
	most := e.cfg.Model.ContextTokens
	if r.MaxTokens > 0 {
		most = min(most, len(prompt)+r.MaxTokens)
	}
	j.mail.emptied = func() { e.inbox.resume(j) }
	for i := range max(1, r.Choices) {
		j.choices = append(j.choices, e.newChoice(j, i, prompt))
	}
	q := &j.choices[0].seq
	q.Prompt, q.Most, q.Forks, q.EveryRow, q.Whole = len(prompt), most, len(j.choices)-1, r.PromptLogprobs, r.Embed
	q.Background, q.Objective, q.Waited = r.Background, firstTokenWithin(&r.Objective), r.Waited
	q.Class, q.Tenant, q.Salt, q.PublicTokens = r.Class, r.Tenant, r.Salt, r.PublicTokens
	q.Retain, q.Deadline = r.Retain, r.Deadline
	if !e.cfg.Sched.Fit(q) {
		return nil, e.tooBig(q)
	}
	q.Prepare()
	return j, nil
}

// compile turns a request's grammar into a program, on the caller's goroutine:
// however large it is, no step waits for it.
func (e *Engine) compile(ctx context.Context, r *parley.Request) (*grammar.Program, error) {
	if r.Grammar == nil {
		return nil, nil
	}
	e.vocabulary()
	program, err := e.programs.get(ctx, r.Grammar)
	if err == nil && r.FinishGrammar {
		program = program.Measured()
	}
	return program, err
}

// firstTokenWithin returns when the first token should come by an objective: before
// admission it is not known how much of the prompt is cached.
func firstTokenWithin(o *parley.SLO) time.Duration {
	if o.CachedTTFT > 0 && o.TTFT > 0 {
		return min(o.TTFT, o.CachedTTFT)
	}
	return max(o.TTFT, o.CachedTTFT)
}

func (e *Engine) newChoice(j *job, index int, prompt []parley.Token) *choice {
	r := j.req
	c := &choice{
		job:     j,
		index:   index,
		seq:     sched.Seq{Tokens: append(make([]parley.Token, 0, len(prompt)+64), prompt...)},
		sampler: sample.New(r.Sampling, r.Prompt, e.cfg.Vocab, index),
		stopper: sample.NewStopper(r.Stop, e.cfg.Ends, e.cfg.Bytes),
	}
	if e.cfg.Speculate {
		c.spec.lookup = spec.NewLookup(r.Prompt)
	}
	return c
}

// tooBig says what of the sequence would fit.
func (e *Engine) tooBig(q *sched.Seq) error {
	if seats := e.cfg.Sched.Seats(q.Class); 1+q.Forks > seats {
		return parley.Invalid("n", "%d choices were asked for; this server computes at most %d at once", 1+q.Forks,
			seats)
	}
	return &parley.Error{
		Code: parley.ContextTooLong, Param: "max_tokens",
		Message: fmt.Sprintf(
			"%d tokens of prompt and answer need more memory than the server has for them: its pool holds %d tokens",
			q.Most, e.cfg.Sched.Blocks*compute.BlockTokens),
	}
}

func (e *Engine) check(r *parley.Request) error {
	if len(r.Prompt) == 0 {
		return parley.Invalid("prompt", "the prompt is empty: send at least one token")
	}
	for i, t := range r.Prompt {
		if t < 0 || int(t) >= e.cfg.Vocab {
			return parley.Invalid("prompt", "token %d of the prompt is %d: this model has tokens 0 to %d", i, t,
				e.cfg.Vocab-1)
		}
	}
	if err := e.cfg.checkEmbed(r); err != nil {
		return err
	}
	if err := e.cfg.checkResume(r); err != nil {
		return err
	}
	if err := checkSinks(r, e.cfg.Model.ContextTokens); err != nil {
		return err
	}
	if room := e.cfg.Model.ContextTokens - len(r.Prompt); room < 1 && r.SinkTokens == 0 {
		return parley.Errorf(parley.ContextTooLong,
			"the prompt has %d tokens, which leaves no room for an answer in a context of %d", len(r.Prompt),
			e.cfg.Model.ContextTokens)
	}
	if int(r.Class) >= parley.Classes {
		return fmt.Errorf("engine: class %d does not exist", r.Class)
	}
	return sample.Check(r.Sampling, e.cfg.Vocab)
}

// Close ends the engine after the pass that is running. Requests that are not
// complete fail.
func (e *Engine) Close() error {
	e.inbox.close()
	<-e.stopped
	return nil
}

// LearnFrom has the cache learn from what those of other workers have observed of how soon blocks
// are used again, in place of what it was given before, and returns what it has observed itself.
func (e *Engine) LearnFrom(ctx context.Context, others []*kv.Reuse) (own *kv.Reuse, err error) {
	err = e.visit(ctx, func(l *loop) {
		l.sched.LearnFrom(others)
		own = l.sched.Reuse()
	})
	return own, err
}

// Snapshot has take see every block that can be found, parents before children,
// on the loop's own goroutine: the pass that follows waits for it. All events
// until then were told before.
func (e *Engine) Snapshot(ctx context.Context, take func(iter.Seq[kv.Event])) error {
	return e.visit(ctx, func(l *loop) {
		_, all := l.sched.Snapshot()
		take(all)
	})
}
