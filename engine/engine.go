// Package engine turns requests into tokens: plan, compute, choose, commit.
//
// One goroutine owns the device and goes round: it asks the scheduler what the
// next pass computes, runs the pass, chooses a token for every sequence that
// has caught up, and delivers it. Requests join and leave between passes. The
// engine sees token ids only; of text it knows the bytes that each token
// stands for, which is what stop strings need.
//
// A panic during a pass fails the requests of that pass and nothing else.
package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
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

// Config says what an engine drives and how far it may go.
type Config struct {
	// Model is the name and context of the model.
	Model parley.Model
	// Vocab is the number of scores in a row of logits, Width that of numbers
	// in a hidden state; without Width nothing can be embedded.
	Vocab, Width int
	// Ends are the tokens with which the model ends its text.
	Ends []parley.Token
	// Bytes returns what a token adds to the text, nil for a control token.
	Bytes func(parley.Token) []byte

	// Forward computes a step and writes the logits of its output rows.
	Forward func(step *compute.Step, logits []float32)
	// Ahead, if not nil, computes steps for which the tokens can be chosen on the
	// device; Forward computes the others.
	Ahead *Ahead
	// Move copies a whole block within the pool or between tiers. It returns
	// [tier.ErrDamaged] when the block's content is lost.
	Move func(m kv.Move) error
	// Found are the blocks that an earlier process left on the disk.
	Found []kv.DiskBlock

	// Sched bounds the passes and the pool.
	Sched sched.Config
	// Speculate guesses tokens ahead where that is worth it, with Draft too if
	// there is one. The answers are the same with and without.
	Speculate bool
	Draft     *Draft

	// Events is told what blocks the cache holds and no longer holds, between
	// passes and on the loop's own goroutine: it must return at once and keep
	// nothing. Sched.Cache.Events must say how many may come at once. Nil
	// reports nothing.
	Events func(iter.Seq[kv.Event])

	// Learned is told how long passes take, when the loop has nothing to compute after
	// it had, and for the last time at the end, so that the next process begins with it
	// as Sched.Pace. It runs on the loop's own goroutine. Nil means that it is forgotten.
	Learned func(p sched.Pace, last bool)

	// Observe is told what happens, for metrics. All of it may be nil.
	Observe Observer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives faults; nil means none.
	Log *slog.Logger
}

// An Observer is told what happens in the loop. Its functions run on the
// loop's own goroutine and must return at once.
type Observer struct {
	// Step: a pass of sequences and tokens was computed.
	Step func(sequences, tokens int, took time.Duration)
	// Token: a token was chosen; after is the time since the request came for
	// the first token of a choice, and since the token before for the others.
	Token func(first bool, after time.Duration)
	// Finish: a choice has ended, for a [parley.Finish] or [FinishAbort].
	Finish func(reason string)
	// Done: a request is complete. The usage is final.
	Done func(r *parley.Request, u *parley.Usage)
}

func (o *Observer) step(sequences, tokens int, took time.Duration) {
	if o.Step != nil {
		o.Step(sequences, tokens, took)
	}
}

func (o *Observer) token(first bool, after time.Duration) {
	if o.Token != nil {
		o.Token(first, after)
	}
}

func (o *Observer) finish(reason string) {
	if o.Finish != nil {
		o.Finish(reason)
	}
}

func (o *Observer) done(r *parley.Request, u *parley.Usage) {
	if o.Done != nil {
		o.Done(r, u)
	}
}

// FinishAbort is why a choice ended that failed or was cancelled.
const FinishAbort = "abort"

// An Engine serves one model. It implements [parley.Worker].
type Engine struct {
	cfg Config

	mu      sync.Mutex
	joining []*job // submitted, not yet seen by the loop
	leaving []*job // given up by their callers
	resumed []*job // read again after a pause
	asked   []*job // wanted back if they have not begun
	looks   []look // questions about the cache
	closed  bool
	stats   Stats

	wake    chan struct{} // one pending wake-up is enough
	stopped chan struct{}
	loop    loop

	// vocabulary arranges the tokens for grammars, when the first one comes.
	vocabulary func() *grammar.Vocabulary
	programs   *programs
}

var _ parley.Worker = (*Engine)(nil)

// Stats count what an engine has done and is doing.
type Stats struct {
	sched.Load
	// Steps counts passes, StepTokens the tokens computed in them, StepTime
	// how long they took together.
	Steps, StepTokens uint64
	StepTime          time.Duration
	// Ahead counts the passes that were launched before it was known what the pass
	// before has chosen, and Exposed is how long the device waited for the host to plan.
	Ahead   uint64
	Exposed time.Duration
	// Copied counts copies by the tiers they went from and to, Damaged those
	// that could not be made, Repairs how often blocks were not accounted for.
	Copied           [kv.Tiers][kv.Tiers]Copies
	Damaged, Repairs uint64
	// Failures counts passes that went wrong, Pauses how often a request was
	// paused because its client did not read.
	Failures, Pauses uint64
	// Guesses count the tokens that each drafter guessed ahead, DraftTime is how
	// long the draft network took, DraftFailures how often it went wrong.
	Guesses       [spec.Drafters]Guesses
	DraftTime     time.Duration
	DraftFailures uint64
}

// Guesses count what one drafter did.
type Guesses struct {
	// Rounds counts the passes with its guesses in them, for each sequence;
	// Guessed the tokens guessed, and Right those that came true.
	Rounds, Guessed, Right uint64
}

// New starts an engine. Close ends it.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{cfg: cfg, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	e.programs = newPrograms()
	e.vocabulary = sync.OnceValue(func() *grammar.Vocabulary {
		return grammar.NewVocabulary(cfg.Vocab, cfg.Bytes, cfg.Ends)
	})
	if err := e.loop.init(e); err != nil {
		return nil, err
	}
	go e.run()
	return e, nil
}

func (c *Config) validate() error {
	s := &c.Sched
	return errors.Join(
		positive("blocks", s.Blocks), positive("tokens per step", s.StepTokens),
		positive("outputs per step", s.StepOutputs),
		positive("sequences", s.Seqs), positive("vocabulary", c.Vocab), positive("context", c.Model.ContextTokens),
		atMost("sequences", s.Seqs, "tokens per step", s.StepTokens),
		atMost("sequences", s.Seqs, "outputs per step", s.StepOutputs),
	)
}

func positive(name string, n int) error {
	if n < 1 {
		return fmt.Errorf("engine: %s is %d, wanted at least 1", name, n)
	}
	return nil
}

func atMost(name string, n int, bound string, most int) error {
	if n > most {
		return fmt.Errorf("engine: %s is %d, more than %s, %d", name, n, bound, most)
	}
	return nil
}

// Models returns the one model the engine serves.
func (e *Engine) Models() []parley.Model { return []parley.Model{e.cfg.Model} }

// Stats returns the present counts.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Generate answers r; see [parley.Worker].
func (e *Engine) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		j, err := e.newJob(ctx, r)
		if err == nil {
			err = e.submit(j)
		}
		if err != nil {
			yield(parley.Delta{}, err)
			return
		}
		defer e.leave(j)
		if w := parley.WithdrawalOf(ctx); w != nil {
			w.Heed(func() { e.withdraw(j) })
			defer w.Heed(nil)
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
	j := &job{req: r, program: program, arrived: e.cfg.Now(), mail: newMailbox()}
	prompt := j.fitPrompt(e.cfg.Model.ContextTokens)
	most := e.cfg.Model.ContextTokens
	if r.MaxTokens > 0 {
		most = min(most, len(prompt)+r.MaxTokens)
	}
	j.mail.emptied = func() { e.resume(j) }
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
		c.lookup = spec.NewLookup(r.Prompt)
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
	if err := e.checkEmbed(r); err != nil {
		return err
	}
	if err := e.checkResume(r); err != nil {
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

// submit hands a job to the loop.
func (e *Engine) submit(j *job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return parley.Errorf(parley.Unavailable, "model %s is shutting down", e.cfg.Model.ID)
	}
	e.joining = append(e.joining, j)
	e.rouse()
	return nil
}

// leave reports to the loop that the job's client has hung up.
func (e *Engine) leave(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaving = append(e.leaving, j)
	e.rouse()
}

// withdraw reports to the loop that the job's sender wants it back.
func (e *Engine) withdraw(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, j)
	e.rouse()
}

// resume reports to the loop that a paused job's client reads again.
func (e *Engine) resume(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resumed = append(e.resumed, j)
	e.rouse()
}

func (e *Engine) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close ends the engine after the pass that is running. Requests that are not
// complete fail.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.rouse()
	e.mu.Unlock()
	<-e.stopped
	return nil
}
