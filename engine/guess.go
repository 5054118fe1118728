package engine

import (
	"time"

	"parley/engine/draft"
	"parley/engine/spec"
)

// guesses are what the loop decides on guessing with.
type guesses struct {
	drafter   *draft.Network // nil without a draft network
	turns     []*draft.Seq
	writers   []*choice
	bets      []spec.Writer
	decisions []spec.Decision
	// typical is how many tokens an answer has, by those seen lately.
	typical float64
	// spare is the time saved up for a trial.
	spare time.Duration
}

const (
	// typicalFirst is how long an answer is taken to be before any was seen.
	typicalFirst = 64
	// trialShare is how much of the time may go to trials of guesses that do
	// not seem worth it.
	trialShare = 0.02
	// typicalMemory is how many answers typical is an average of, roughly.
	typicalMemory = 16
)

func (g *guesses) learnLength(tokens int) {
	g.typical += (float64(tokens) - g.typical) / typicalMemory
}

func newGuesses(cfg *Config) guesses {
	g := guesses{typical: typicalFirst}
	if cfg.Draft != nil {
		g.drafter = draft.New(draft.Config{
			Forward: cfg.Draft.Forward,
			Now:     cfg.Now,
			Vocab:   cfg.Vocab,
			Ends:    cfg.Ends,
			Blocks:  cfg.Sched.Blocks,
			Rows:    cfg.Sched.StepTokens,
			Seqs:    cfg.Sched.Seqs,
		})
	}
	return g
}
