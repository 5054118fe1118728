package engine

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/tier"
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
	// Background, if not nil, is how Move copies between the device and host memory while steps
	// are computed, and Settle returns when all such copies are done.
	Background *tier.Background
	Settle     func()
	// Content reads and writes the bytes of blocks, so that workers can exchange them; nil
	// if they cannot.
	Content *Content
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

// A Content is the bytes of blocks. Its functions are called by the loop's own goroutine.
type Content struct {
	// Bytes is the size of a block.
	Bytes int
	// Read copies bytes of a block, from an offset on, out of a tier; it returns [tier.ErrDamaged]
	// when the block's content is lost. Write copies bytes into a block of the device.
	Read  func(dst []byte, from kv.Tier, slot int32, at int, name parley.BlockHash) error
	Write func(slot int32, at int, src []byte)
}

// An Observer is told what happens in the loop. Its functions run on the
// loop's own goroutine and must return at once.
type Observer struct {
	// Step: a pass was computed.
	Step func(p StepReport)
	// Token: a token was chosen; after is the time since the request came for
	// the first token of a choice, and since the token before for the others.
	Token func(first bool, after time.Duration)
	// Finish: a choice has ended, for a [parley.Finish] or [FinishAbort].
	Finish func(reason string)
	// Done: a request is complete. The usage is final.
	Done func(r *parley.Request, u *parley.Usage)
}

func (o *Observer) step(p StepReport) {
	if o.Step != nil {
		o.Step(p)
	}
}

// A StepReport is what was computed at once, and how long it took.
type StepReport struct {
	// Sequences have a part in it. Read counts their earlier positions, each once.
	Sequences, Read int
	sched.Work
	// Took is its own time. Gap is that since the end of the pass before it, in which the
	// loop delivered tokens and planned; 0 if the loop had nothing to do meanwhile.
	Took, Gap time.Duration
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

// withDefaults returns the configuration with what is used where it says nothing.
func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// restarted returns the configuration of a loop that begins anew: what the disk holds
// by now is not known, and how long passes take is.
func (c Config) restarted(pace sched.Pace) *Config {
	c.Found, c.Sched.Pace = nil, pace
	return &c
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

// closing is the error for what comes too late.
func (c *Config) closing() error {
	return parley.Errorf(parley.Unavailable, "model %s is shutting down", c.Model.ID)
}

// A Draft is a smaller model with the same vocabulary, which drafts the tokens that the
// engine's own model will probably choose; see [draft.Network].
type Draft struct {
	// Forward computes a step of the draft network.
	Forward func(step *compute.Step, logits []float32)
}
