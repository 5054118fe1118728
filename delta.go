package parley

import "time"

// A Delta is a piece of an answer: new tokens of one choice. It travels as JSON.
type Delta struct {
	// Choice is the number of the continuation, from 0.
	Choice int `json:"choice,omitempty"`
	// Tokens are the new tokens, in order. May be empty in the last delta of a choice.
	Tokens []Token `json:"tokens,omitempty"`
	// Text replaces Tokens in deltas of foreign engines that return no ids. Features that
	// need ids do not work with them.
	Text string `json:"text,omitempty"`
	// TextTokens is the estimated number of tokens of the delta's text, thoughts and calls;
	// 0 if unknown.
	TextTokens int `json:"text_tokens,omitempty"`
	// Apart is set if a foreign engine separates thoughts and calls from its text itself,
	// into Thoughts and Calls.
	Apart    bool       `json:"apart,omitempty"`
	Thoughts string     `json:"thoughts,omitempty"`
	Calls    []ToolCall `json:"calls,omitempty"`
	// Logprobs has one entry for each of Tokens if the request asked for them.
	Logprobs []Logprob `json:"logprobs,omitempty"`
	// PromptLogprobs comes once, with the first delta, if the request asked
	// for it: one entry for each prompt token but the first.
	PromptLogprobs []Logprob `json:"prompt_logprobs,omitempty"`
	// CachedTokens is how much of the prompt was found in the cache, in the first delta of an answer
	// whose worker says so then: Usage has it at the end, which an answer that is broken off never has.
	CachedTokens int `json:"cached_tokens,omitempty"`
	// Embedding is the only content of the only delta, if the request asked for it.
	Embedding []float32 `json:"embedding,omitempty"`
	// Progress comes alone, before the first token, if the request asked for it.
	Progress *Progress `json:"progress,omitempty"`
	// Finish is set in the last delta of each choice.
	Finish Finish `json:"finish,omitempty"`
	// StopString is the string that ended the choice, if one did.
	StopString string `json:"stop_string,omitempty"`
	// Usage is set in the last delta of the request.
	Usage *Usage `json:"usage,omitempty"`
	// Routing is set by a fleet in the first delta from a worker, and again after each
	// failover.
	Routing *Routing `json:"routing,omitempty"`
	// Transfer is set in the first delta of a request that named a worker to fetch from
	// ([Request.Fetch]), or whose worker asked a store of blocks.
	Transfer *Transfer `json:"transfer,omitempty"`
	// Timings are the measurements of a remote worker, in its first and its last delta. It
	// may be set together with an error.
	Timings *WorkerTimings `json:"stay,omitempty"`
}

// A Routing says who computes an answer, and why.
type Routing struct {
	// Worker is the name of the worker, Pool its pool.
	Worker, Pool string
	// Reason is one line.
	Reason string
	// Moves is the number of failovers to another worker.
	Moves int
}

// Count returns how many tokens the delta has. A piece of text counts as one,
// because its tokens are not known, unless they are estimated.
func (d *Delta) Count() int {
	if n := len(d.Tokens); n > 0 || !d.HasText() {
		return n
	}
	return max(1, d.TextTokens)
}

// HasText reports whether the delta has what came instead of tokens.
func (d *Delta) HasText() bool { return d.Text != "" || d.Thoughts != "" || len(d.Calls) > 0 }

// A Progress says how far a request is before its first token.
type Progress struct {
	// Waiting requests are not computed yet: about Ahead others go before, which
	// is expected to take Wait, 0 if unknown.
	Waiting bool
	// Loading says that the model is brought into memory first.
	Loading bool
	Ahead   int
	Wait    time.Duration
	// Of PromptTokens, DoneTokens need not be computed any more; CachedTokens of
	// those were found in the cache.
	PromptTokens, CachedTokens, DoneTokens int
	// Spent is the time since the first step.
	Spent time.Duration
}

// A Finish says why a choice ended.
type Finish string

// The reasons for which a choice ends.
const (
	// FinishStop: the model ended its text, or a stop string or stop token came.
	FinishStop Finish = "stop"
	// FinishLength: MaxTokens or the context was reached.
	FinishLength Finish = "length"
	// FinishFiltered: a safety policy halted the text, ours or that of a foreign service.
	FinishFiltered Finish = "content_filter"
)

// A Logprob is the natural logarithm of a token's probability under the
// model's own scores: before temperature, penalties, bias and filters.
type Logprob struct {
	Token   Token
	Logprob float32
	// Top holds the most probable tokens, best first, if they were asked for.
	Top []TopLogprob
}

// A TopLogprob is one alternative beside a chosen token.
type TopLogprob struct {
	Token   Token
	Logprob float32
}

// A Usage counts what a request cost.
type Usage struct {
	// PromptTokens counts the prompt once, however many choices were asked for.
	PromptTokens int `json:",omitzero"`
	// CachedTokens is how many of PromptTokens were not computed again.
	CachedTokens int `json:",omitzero"`
	// Miss says why the rest of the prompt was not found in the cache, in one
	// word: none, short, new, diverged, evicted or other-salt.
	Miss string `json:",omitzero"`
	// Unenforced names the keywords of a schema that is not strict which the answer was
	// not held to, with commas between them.
	Unenforced string `json:",omitzero"`
	// OutputTokens sums over the choices.
	OutputTokens int `json:",omitzero"`
	// ReasoningTokens is how many of OutputTokens were thoughts. The
	// gateway counts them; a worker need not.
	ReasoningTokens int `json:",omitzero"`
	// DroppedTokens is how many tokens the choices forgot because the text
	// outgrew the context; see [Request.SinkTokens].
	DroppedTokens int `json:",omitzero"`
	// Queued is the wait before the first step, Prefill the time from there to
	// the first token, Decode from there to the last.
	Queued  time.Duration `json:",omitzero"`
	Prefill time.Duration `json:",omitzero"`
	Decode  time.Duration `json:",omitzero"`
	// SeatWait is the part of Queued in which the engine computed as many answers at
	// once as it may, MemoryWait the part in which it had too little memory. The rest
	// is the wait for a turn in a pass.
	SeatWait   time.Duration `json:",omitzero"`
	MemoryWait time.Duration `json:",omitzero"`
	// Preemptions counts how often choices had to make room for other requests, and
	// Preempted is how long the one that waited longest then waited, as a part of
	// Prefill and Decode.
	Preemptions int           `json:",omitzero"`
	Preempted   time.Duration `json:",omitzero"`
	// Outside says that Prefill and Decode were measured from outside the engine,
	// which does not tell them.
	Outside bool `json:",omitzero"`
	// Estimated says that PromptTokens and OutputTokens are estimates: the service that
	// answered reported none.
	Estimated bool `json:",omitzero"`
	// Routing is who gave the last of the answer; nil where there is one worker.
	Routing *Routing `json:",omitzero"`
	// Transfer is what an engine in this process read from a store of blocks instead of
	// computing it; nil if it asked for nothing.
	Transfer *Transfer `json:"-"`
}

// TurnWait returns the part of Queued that was the wait for a turn in a pass.
func (u *Usage) TurnWait() time.Duration { return max(u.Queued-u.SeatWait-u.MemoryWait, 0) }

// Beside takes in the times of another request of the same call that ran beside this
// one: of each the longest counts.
func (u *Usage) Beside(other *Usage) {
	if other.Queued >= u.Queued {
		u.Queued, u.SeatWait, u.MemoryWait = other.Queued, other.SeatWait, other.MemoryWait
	}
	u.Prefill, u.Decode = max(u.Prefill, other.Prefill), max(u.Decode, other.Decode)
	u.Preemptions += other.Preemptions
	u.Preempted = max(u.Preempted, other.Preempted)
}
