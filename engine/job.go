package engine

import (
	"strings"
	"time"

	"parley"
	"parley/engine/draft"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/engine/spec"
)

// A job is one request inside the engine. Only the loop touches it, but for
// its mailbox.
type job struct {
	req     *parley.Request
	mail    *mailbox
	choices []*choice
	program *grammar.Program // nil without a grammar
	open    int              // choices that are not complete

	promptLogprobs []parley.Logprob
	embedding      []float64 // the sum of the hidden states so far
	output         int       // tokens chosen, over all choices
	dropped        int       // tokens forgotten, over all choices

	times times
	begun bool // the prompt was computed, and the choices decode
	done  bool
}

// times are when a job came, when it was first part of a pass, and when its prompt was
// computed.
type times struct {
	arrived, started, first time.Time
}

// A choice is one continuation of a job's prompt.
type choice struct {
	job     *job
	index   int
	seq     sched.Seq
	sampler *sample.Sampler
	stopper *sample.Stopper
	matcher *grammar.Matcher // nil without a grammar
	finish  []parley.Token   // what completes the text in the tokens that are left
	nearer  []parley.Token   // what leads to the end of the text
	wrote   time.Time        // the last token
	chosen  int              // tokens
	output  int              // of the step that was launched last

	spec guessing
}

// pause pauses the job's choices, or resumes them.
func (j *job) pause(held bool) {
	for _, c := range j.choices {
		c.seq.Paused = held
	}
}

// usage counts what the job cost.
func (j *job) usage(now time.Time) *parley.Usage {
	u := &parley.Usage{
		PromptTokens:  len(j.req.Prompt),
		OutputTokens:  j.output,
		DroppedTokens: j.dropped,
		CachedTokens:  j.choices[0].seq.Cached.HitTokens,
		Miss:          j.choices[0].seq.Cached.Miss.String(),
		Queued:        j.times.started.Sub(j.times.arrived),
		Prefill:       j.times.first.Sub(j.times.started),
		Decode:        now.Sub(j.times.first),
		SeatWait:      j.choices[0].seq.Waits[sched.ForSeat],
		MemoryWait:    j.choices[0].seq.Waits[sched.ForMemory],
	}
	if j.program != nil {
		u.Unenforced = strings.Join(j.program.Unenforced(), ",")
	}
	for _, c := range j.choices {
		u.Preemptions += c.seq.Preempted
		u.Preempted = max(u.Preempted, c.seq.Away)
	}
	return u
}

// guessing is what is known of guesses for one choice.
type guessing struct {
	draft.Seq // Guess is what the next pass checks, whatever guessed it

	lookup     *spec.Lookup    // nil without speculation
	forced     []parley.Token  // what the grammar leaves no choice about
	by         spec.Drafter    // who guesses
	acceptance spec.Acceptance // with guesses of the draft network
	idle       int             // passes without any
}
