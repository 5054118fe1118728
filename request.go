package parley

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// A Request asks one model to continue one prompt, in one or more choices.
// It is not changed after it was sent.
type Request struct {
	// ID names the request in every log line it causes. Unique per server.
	ID string `json:",omitzero"`
	// Model is the name of the model, as the worker knows it.
	Model string `json:",omitzero"`
	// Prompt is the text to continue. At least one token.
	Prompt []Token `json:",omitzero"`
	// Turns are the conversation that Prompt was made from, if it was one: some
	// foreign engines take nothing else. All others look at Prompt.
	Turns []Turn `json:",omitzero"`
	// Terms is what the client asked of the answer, before it became a part of
	// Prompt and Grammar. Foreign engines that support less than Grammar look at
	// it; nil if the client asked for nothing but an answer.
	Terms *Terms `json:"-"`
	// Choices is how many continuations are wanted; 0 means one.
	Choices int `json:",omitzero"`
	// MaxTokens bounds each continuation; 0 means as many as fit the context.
	MaxTokens int `json:",omitzero"`
	// Sampling says how tokens are chosen.
	Sampling Sampling `json:",omitzero"`
	// Stop says what ends a continuation early.
	Stop Stop `json:",omitzero"`
	// Grammar is what each continuation must be, nil for any text.
	Grammar *Grammar `json:",omitzero"`
	// FinishGrammar asks that a continuation under Grammar is complete when its
	// tokens run out: once there is only room for the shortest completion left,
	// that is what follows.
	FinishGrammar bool `json:",omitzero"`
	// Logprobs asks for the log-probability of each chosen token, and
	// TopLogprobs for that many alternatives beside it (0 to 20).
	Logprobs    bool `json:",omitzero"`
	TopLogprobs int  `json:",omitzero"`
	// PromptLogprobs asks for the log-probabilities of the prompt's own tokens.
	PromptLogprobs bool `json:",omitzero"`
	// Progress asks for deltas that say how far the request is before its first
	// token.
	Progress bool `json:",omitzero"`
	// Embed asks for what the model makes of the prompt, as one vector, instead
	// of a continuation: the mean of the last hidden states of its tokens.
	Embed bool `json:",omitzero"`

	// Class is the request's rank, Tenant who pays for it. Tenants of a class
	// share its turns evenly.
	Class  Class  `json:",omitzero"`
	Tenant string `json:",omitzero"`
	// Purpose says what the answer is for; pools of workers may be kept for one.
	Purpose Purpose `json:",omitzero"`
	// Objective is what the tenant was promised of this request, counted from its
	// arrival at the gateway; the zero value promises nothing.
	Objective SLO `json:",omitzero"`
	// Waited is how long it has waited there for its turn.
	Waited time.Duration `json:",omitzero"`
	// Session names requests that continue each other, such as those of one
	// conversation. A router prefers the worker that had the last one where it cannot
	// see which tokens a worker has cached. Workers do not see it.
	Session string `json:"-"`
	// Elsewhere are the codes of errors after which another model is asked, if no token has come: each worker is
	// tried once then, and none that is down is waited for. Workers do not see it.
	Elsewhere []Code `json:"-"`
	// Thinking is for engines that are given text; in a prompt of tokens it is part of the prompt.
	Thinking Thinking `json:"-"`
	// Background work is computed only in passes without other work: it
	// gives way within one pass, and makes room first. While others always have
	// work, one such request is let in at a time, after a wait that the engine is
	// told.
	Background bool `json:",omitzero"`
	// Deadline is when the answer is worth nothing any more; zero means never.
	// Expired work is dropped before it is computed.
	Deadline time.Time `json:",omitzero"`
	// Salt keeps the request's context from being shared with requests of
	// another salt, but for its first PublicTokens tokens, such as a common system
	// prompt: the blocks that lie in them are shared with all.
	Salt         Salt `json:",omitzero"`
	PublicTokens int  `json:",omitzero"`
	// SinkTokens, if positive, lets the text outgrow the context: its first SinkTokens
	// tokens stay in view, and as many of the latest as there is room for; what
	// stood between them is forgotten. With 0 a prompt that is too long is
	// refused, and an answer ends where the context does.
	SinkTokens int `json:",omitzero"`
	// Retain is how long the request's context should stay in memory after it.
	Retain time.Duration `json:",omitzero"`
	// Fetch names a worker that holds the keys and values of the first tokens; nil if none
	// is worth asking. Engines in other processes that are not ours do not see it.
	Fetch *BlockSource `json:",omitzero"`
	// Handoff is for a foreign engine that shares the request with another one; nil for one
	// that answers alone.
	Handoff *Handoff `json:"-"`
	// Resume is what the choices have said already, on a worker that was lost;
	// empty for a new answer, else one for each choice. What follows is what would
	// have followed there: seeds, penalties, stop strings, the grammar and MaxTokens
	// count what was said. Deltas and Usage.OutputTokens have only what is new.
	Resume []Partial `json:",omitzero"`
}

// A Turn is what one side of a conversation said. Role is system, user,
// assistant or tool.
type Turn struct {
	Role, Text string
	// Calls are those that an assistant made; CallID is the call whose result a
	// tool's turn is.
	Calls  []ToolCall `json:",omitzero"`
	CallID string     `json:",omitzero"`
}

// A ToolCall is a call of a function. Arguments is a JSON object as text. In a
// [Delta] it is a fragment: the first of an Index has ID and Name, and the
// Arguments of all of them put together are the call's.
type ToolCall struct {
	Index     int    `json:"index,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
}

// A Thinking is how much a model is asked to think before it answers. The zero value leaves that to the model.
type Thinking struct {
	// Effort is one of none, minimal, low, medium, high, xhigh and max, or empty if the client does not say.
	Effort string
	// Wanted: the client asks for thoughts, of at most BudgetTokens if that is not 0.
	Wanted       bool
	BudgetTokens int
}

// A Terms is what a client asked of an answer.
type Terms struct {
	// Tools are the functions that may be called, empty if none may.
	Tools []ToolFunction
	// CallRequired: the answer must call one or more. OneCall: it calls at most one.
	CallRequired, OneCall bool
	// Format is what an answer that is not a call must be, nil for any text.
	Format *Grammar
}

// A ToolFunction is a function that may be called.
type ToolFunction struct {
	Name, Description string
	// Parameters is the JSON schema of the arguments, nil if there are none. Strict:
	// arguments that the schema does not allow must not be made.
	Parameters json.RawMessage
	Strict     bool
}

// Free reports whether the answer may be any text: the model decides whether it
// calls, and no schema is binding.
func (a *Terms) Free() bool {
	return !a.CallRequired && a.Format == nil && !slices.ContainsFunc(a.Tools,
		func(t ToolFunction) bool { return t.Strict })
}

// A Partial is how far one choice has got. One that is Done is not continued.
type Partial struct {
	Tokens []Token
	Done   bool
}

// A Purpose is what an answer is for. A user who types has far
// less patience for a completion than for an answer in a conversation.
type Purpose string

// The purposes.
const (
	ForChat     Purpose = "chat"
	ForComplete Purpose = "complete"
)

// A Class ranks requests. A higher class gets more turns, and memory first.
type Class uint8

// The classes, lowest first.
const (
	Free Class = iota
	Pro
	Enterprise

	// Classes is how many there are.
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

// A Model is what a worker says of a model it serves.
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
	// request within one step and frees everything it held.
	Generate(ctx context.Context, r *Request) iter.Seq2[Delta, error]
}
