package parley

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// A Request asks one model to continue one prompt, in one or more choices.
// It must not be changed after it was sent.
type Request struct {
	// ID names the request in every log line it causes. Unique per server.
	ID string `json:",omitzero"`
	// Model is the name of the model, as the worker knows it.
	Model string `json:",omitzero"`
	// Prompt is the text to continue. At least one token.
	Prompt []Token `json:",omitzero"`
	// Turns is the conversation that Prompt was rendered from, if there was one. It is
	// for foreign engines that accept only conversations; all others use Prompt.
	Turns []Turn `json:",omitzero"`
	// Terms has the tools and formats that the client requested, which are also part of
	// Prompt and Grammar. It is for foreign engines that do not support all of Grammar;
	// nil if the client requested none.
	Terms *Terms `json:"-"`
	// Choices is the number of continuations; 0 means one.
	Choices int `json:",omitzero"`
	// MaxTokens is the limit of each continuation; 0 means as many as fit the context.
	MaxTokens int `json:",omitzero"`
	// Sampling says how tokens are chosen.
	Sampling Sampling `json:",omitzero"`
	// Stop says what ends a continuation early.
	Stop Stop `json:",omitzero"`
	// Grammar is what each continuation must match; nil allows any text.
	Grammar *Grammar `json:",omitzero"`
	// FinishGrammar makes a continuation under Grammar complete when its tokens run
	// out: once only the shortest completion still fits, the engine writes it.
	FinishGrammar bool `json:",omitzero"`
	// Logprobs requests the log-probability of each chosen token, and TopLogprobs the
	// number of alternatives with theirs (0 to 20).
	Logprobs    bool `json:",omitzero"`
	TopLogprobs int  `json:",omitzero"`
	// PromptLogprobs requests the log-probabilities of the prompt's tokens.
	PromptLogprobs bool `json:",omitzero"`
	// Progress requests deltas with the progress of the request before its first
	// token.
	Progress bool `json:",omitzero"`
	// Embed requests an embedding of the prompt instead of a continuation: the mean of
	// the last hidden states of its tokens.
	Embed bool `json:",omitzero"`

	// Class is the priority class of the request, Tenant the organisation that pays for
	// it. Tenants of a class have equal shares.
	Class  Class  `json:",omitzero"`
	Tenant string `json:",omitzero"`
	// Purpose is what the answer is for; a pool of workers may be reserved for one purpose.
	Purpose Purpose `json:",omitzero"`
	// Objective is the SLO of this request, counted from its arrival at the gateway; the
	// zero value means none.
	Objective SLO `json:",omitzero"`
	// Waited is how long it was queued there.
	Waited time.Duration `json:",omitzero"`
	// Session names requests that continue each other, such as those of one
	// conversation. If the router does not know which tokens a worker has cached, it prefers
	// the worker of the session's last request. Workers do not see it.
	Session string `json:"-"`
	// Elsewhere has the error codes for which the gateway falls back to another model, before the first token: each
	// worker is then tried once, without waiting for one that is down. Workers do not see it.
	Elsewhere []Code `json:"-"`
	// Thinking is for engines that take text; a prompt of tokens contains it already.
	Thinking Thinking `json:"-"`
	// Background requests are computed only in passes without other work, and are
	// preempted first. While there is always other work, the engine admits one of them at a
	// time, after a configured wait.
	Background bool `json:",omitzero"`
	// Deadline is when the answer becomes worthless; zero means never. The request is
	// dropped if it has not begun by then.
	Deadline time.Time `json:",omitzero"`
	// Salt separates the cached context of requests with different salts, except for the
	// blocks within the first PublicTokens tokens, such as a common system prompt, which
	// all requests share.
	Salt         Salt `json:",omitzero"`
	PublicTokens int  `json:",omitzero"`
	// SinkTokens, if positive, lets the text outgrow the context: its first SinkTokens
	// tokens and the latest tokens that fit stay in the context, and those between them are
	// dropped. With 0 a prompt that is too long is refused, and an answer ends when the
	// context is full.
	SinkTokens int `json:",omitzero"`
	// Retain is how long the request's context should stay in memory after it.
	Retain time.Duration `json:",omitzero"`
	// Fetch names a worker from which to fetch the keys and values of the first tokens; nil
	// for none. Foreign engines do not see it.
	Fetch *BlockSource `json:",omitzero"`
	// Handoff is for foreign engines that split the request between a prefill and a decode
	// worker; nil otherwise.
	Handoff *Handoff `json:"-"`
	// Resume has the tokens so far of each choice of an answer whose worker was lost; empty
	// for a new answer. The answer continues as it would have there: seeds, penalties, stop
	// strings, the grammar and MaxTokens include these tokens. Deltas and Usage.OutputTokens
	// contain only new tokens.
	Resume []Partial `json:",omitzero"`
}

// A Turn is a message of a conversation. Role is system, user, assistant or tool.
type Turn struct {
	Role, Text string
	// Calls are the tool calls of an assistant. CallID is the call that a message of a
	// tool answers.
	Calls  []ToolCall `json:",omitzero"`
	CallID string     `json:",omitzero"`
}

// A ToolCall is a call of a function. Arguments is a JSON object as text. In a
// [Delta] it is a fragment: the first fragment of an Index has ID and Name, and the
// Arguments of all fragments are concatenated.
type ToolCall struct {
	Index     int    `json:"index,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
}

// Thinking is how much a model should think before it answers. The zero value leaves that to the model.
type Thinking struct {
	// Effort is one of none, minimal, low, medium, high, xhigh and max, or empty if the client does not say.
	Effort string
	// Wanted is set if the client requests thoughts, of at most BudgetTokens if that is not 0.
	Wanted       bool
	BudgetTokens int
}

// Terms are the tools and the format that a client requested.
type Terms struct {
	// Tools are the functions that may be called.
	Tools []ToolFunction
	// CallRequired: the answer must call one or more. OneCall: it calls at most one.
	CallRequired, OneCall bool
	// Format is what an answer other than a call must match; nil allows any text.
	Format *Grammar
}

// A ToolFunction is a function that may be called.
type ToolFunction struct {
	Name, Description string
	// Parameters is the JSON schema of the arguments, nil if there are none. Strict means
	// that arguments must match the schema.
	Parameters json.RawMessage
	Strict     bool
}

// Free reports whether the answer may be any text: the model decides whether it
// calls, and no schema is binding.
func (a *Terms) Free() bool {
	return !a.CallRequired && a.Format == nil && !slices.ContainsFunc(a.Tools,
		func(t ToolFunction) bool { return t.Strict })
}

// A Partial has the tokens so far of a choice, which continues unless it is Done.
type Partial struct {
	Tokens []Token
	Done   bool
}

// A Purpose is what an answer is for: an autocompletion must be much faster than an
// answer in a conversation.
type Purpose string

// The purposes.
const (
	ForChat     Purpose = "chat"
	ForComplete Purpose = "complete"
)

// A Class is the priority class of a request. A higher class is served more often, and gets memory first.
type Class uint8

// The classes, lowest first.
const (
	Free Class = iota
	Pro
	Enterprise

	// Classes is the number of classes.
	Classes = 3
)

// String returns the class's name.
func (c Class) String() string {
	if int(c) >= Classes {
		return "unknown"
	}
	return [...]string{"free", "pro", "enterprise"}[c]
}

// A Sampling says how a token is chosen from the model's scores. The zero
// value chooses the most probable token. The order of the steps is documented
// in package engine/sample.
type Sampling struct {
	// Temperature divides the scores; 0 chooses greedily.
	Temperature float32 `json:",omitzero"`
	// TopK keeps that many of the most probable tokens; 0 keeps all.
	TopK int `json:",omitzero"`
	// TopP keeps the most probable tokens up to this sum of probability; 0 and 1 keep all.
	TopP float32 `json:",omitzero"`
	// MinP drops tokens less probable than MinP times the most probable one; 0 drops none.
	MinP float32 `json:",omitzero"`
	// RepetitionPenalty divides the positive scores, and multiplies the negative
	// ones, of tokens seen in the prompt or the answer; 0 and 1 mean none.
	RepetitionPenalty float32 `json:",omitzero"`
	// PresencePenalty is subtracted once from the score of each token in the answer,
	// FrequencyPenalty once per occurrence.
	PresencePenalty  float32 `json:",omitzero"`
	FrequencyPenalty float32 `json:",omitzero"`
	// LogitBias is added to the scores of single tokens.
	LogitBias map[Token]float32 `json:",omitzero"`
	// Seed makes the choice repeatable: the same seed gives the same text,
	// whatever else the server is doing.
	Seed uint64 `json:",omitzero"`
}

// A Stop says what ends a continuation before MaxTokens.
type Stop struct {
	// Strings end it when they appear in the text; they may straddle tokens.
	// The engine ends the request in that step. The tokens that spell the string
	// are in the delta; the reader of the text cuts it.
	Strings []string `json:",omitzero"`
	// Tokens end it when chosen, and are part of the delta.
	Tokens []Token `json:",omitzero"`
	// IgnoreEnd continues past the model's own end-of-text tokens.
	IgnoreEnd bool `json:",omitzero"`
}

// A Model describes a model that a worker serves.
type Model struct {
	// ID is the name that requests use.
	ID string
	// ContextTokens bounds prompt and answer together.
	ContextTokens int
}

// A Worker computes answers. It takes token ids and returns token ids; it
// knows nothing of text, templates or users.
type Worker interface {
	// Models lists what the worker serves.
	Models() []Model
	// Generate answers r. The sequence ends after the delta that carries
	// Usage, or with an error. Leaving the loop, or ending ctx, cancels the
	// request within one step and frees its resources.
	Generate(ctx context.Context, r *Request) iter.Seq2[Delta, error]
}
