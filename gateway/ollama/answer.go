package ollama

import (
	"encoding/json"
	"strings"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/openai"
)

// A Line is one object of an answer: the whole of it, or a part if it is streamed. The
// last one is done and has the [Counts].
type Line struct {
	Model     string `json:"model"`
	CreatedAt string `json:"created_at"`
	// Message is what /api/chat answers; Response and Thinking what /api/generate does.
	Message    *Message              `json:"message,omitempty"`
	Response   *string               `json:"response,omitempty"`
	Thinking   string                `json:"thinking,omitempty"`
	Logprobs   []openai.TokenLogprob `json:"logprobs,omitempty"`
	Done       bool                  `json:"done"`
	DoneReason string                `json:"done_reason,omitempty"`
	// Context are the tokens of the prompt and of the answer, to continue from.
	Context []parley.Token `json:"context,omitempty"`
	*Counts
}

// A Message is what the model said.
type Message struct {
	Role      string    `json:"role"`
	Content   string    `json:"content"`
	Thinking  string    `json:"thinking,omitempty"`
	ToolCalls []ToolUse `json:"tool_calls,omitempty"`
}

// A ToolUse is a call of a function. A stream has each call whole, in one line.
type ToolUse struct {
	ID       string   `json:"id,omitempty"`
	Function Function `json:"function"`
}

// A Function is what is called. Arguments is a JSON object.
type Function struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Counts are tokens, and times in nanoseconds. LoadDuration is the wait until the model
// began with the request.
type Counts struct {
	TotalDuration      int64 `json:"total_duration"`
	LoadDuration       int64 `json:"load_duration"`
	PromptEvalCount    int   `json:"prompt_eval_count"`
	PromptEvalDuration int64 `json:"prompt_eval_duration"`
	EvalCount          int   `json:"eval_count"`
	EvalDuration       int64 `json:"eval_duration"`
}

// Lines makes the lines of an answer. It is the form in which one is streamed.
type Lines struct {
	// Model returns the name that the client asked for, or that of the model that answers instead.
	Model func() string
	// IsChat says that /api/chat answers, not /api/generate.
	IsChat bool
	// Started is when the request came, Now the clock.
	Started time.Time
	Now     func() time.Time
	// Logprob shows a token, if the client asked for that; else nil.
	Logprob func(parley.Logprob) openai.TokenLogprob
	// Context returns the tokens of the conversation after an answer; nil shows none.
	Context func(text string) []parley.Token

	finish parley.Finish
	// open is the call that is being written, if its name is not empty.
	open  Function
	id    string
	parts strings.Builder
	text  strings.Builder
}

// line returns an empty line.
func (a *Lines) line() Line {
	return Line{Model: a.Model(), CreatedAt: a.Now().UTC().Format(time.RFC3339Nano)}
}

// said returns a line with what was said.
func (a *Lines) said(m Message) Line {
	l := a.line()
	if m.Role = "assistant"; a.IsChat {
		l.Message = &m
		return l
	}
	l.Response, l.Thinking = &m.Content, m.Thinking
	return l
}

// Opening is not a line of its own.
func (a *Lines) Opening(int) any { return nil }

// Content is a line with what was added. Calls wait until they are complete.
func (a *Lines) Content(p answer.Piece) any {
	m := Message{Content: p.Text, Thinking: p.Reasoning}
	if a.Context != nil {
		a.text.WriteString(p.Text)
	}
	for _, c := range p.Calls {
		if c.Name != "" {
			m.ToolCalls = append(m.ToolCalls, a.endCall()...)
			a.open, a.id = Function{Index: c.Index, Name: c.Name}, c.ID
		}
		a.parts.WriteString(c.Arguments)
	}
	l := a.said(m)
	l.Logprobs = a.logprobs(p.Tokens)
	if m.Content == "" && m.Thinking == "" && len(m.ToolCalls) == 0 && len(l.Logprobs) == 0 {
		return nil
	}
	return l
}

// endCall returns the call that was being written, if there is one.
func (a *Lines) endCall() []ToolUse {
	if a.open.Name == "" {
		return nil
	}
	call := ToolUse{ID: a.id, Function: a.open}
	call.Function.Arguments = object(a.parts.String())
	a.parts.Reset()
	a.open = Function{}
	return []ToolUse{call}
}

// object returns arguments as an object; a call that was cut off has none.
func object(text string) json.RawMessage {
	if raw := json.RawMessage(strings.TrimSpace(text)); json.Valid(raw) && raw[0] == '{' {
		return raw
	}
	return json.RawMessage("{}")
}

// Closing is a line with the last call, if there is one.
func (a *Lines) Closing(_ int, finish parley.Finish, _ *openai.Timings) any {
	a.finish = finish
	calls := a.endCall()
	if len(calls) == 0 {
		return nil
	}
	return a.said(Message{ToolCalls: calls})
}

// Usage is the last line.
func (a *Lines) Usage(u openai.Usage, timings *openai.Timings) any {
	l := a.said(Message{})
	a.end(&l, a.finish, a.text.String())
	l.Counts = a.counts(u.PromptTokens, u.CompletionTokens, timings)
	return l
}

// Whole returns the complete answer.
func (a *Lines) Whole(w *answer.CollectedChoice, u parley.Usage) Line {
	m := Message{Content: w.Text.String(), Thinking: w.Reasoning.String()}
	for i, c := range w.Calls {
		m.ToolCalls = append(m.ToolCalls, ToolUse{ID: c.ID,
			Function: Function{Index: i, Name: c.Name, Arguments: object(c.Arguments.String())}})
	}
	l := a.said(m)
	l.Logprobs = a.logprobs(w.Tokens)
	a.end(&l, w.Finish, m.Content)
	l.Counts = a.counts(u.PromptTokens, u.OutputTokens, openai.TimingsOf(u))
	return l
}

// end completes the last line of an answer.
func (a *Lines) end(l *Line, finish parley.Finish, text string) {
	l.Done, l.DoneReason = true, string(finish)
	if finish == answer.FinishToolCalls {
		l.DoneReason = "stop"
	}
	if a.Context != nil {
		l.Context = a.Context(text)
	}
}

func (a *Lines) counts(prompt, output int, t *openai.Timings) *Counts {
	nanoseconds := func(ms float64) int64 { return int64(ms * float64(time.Millisecond)) }
	return &Counts{
		TotalDuration:      int64(a.Now().Sub(a.Started)),
		LoadDuration:       nanoseconds(t.QueuedMs),
		PromptEvalCount:    prompt,
		PromptEvalDuration: nanoseconds(t.PrefillMs),
		EvalCount:          output,
		EvalDuration:       nanoseconds(t.DecodeMs),
	}
}

func (a *Lines) logprobs(tokens []answer.ShownToken) (list []openai.TokenLogprob) {
	if a.Logprob == nil {
		return nil
	}
	for _, t := range tokens {
		list = append(list, a.Logprob(t.Logprob))
	}
	return list
}

// Idle is the answer to a request that only loads or unloads a model, for the given reason.
func (a *Lines) Idle(reason string) Line {
	l := a.said(Message{})
	l.Done, l.DoneReason = true, reason
	return l
}

// Embeddings is the answer of POST /api/embed.
type Embeddings struct {
	Model           string `json:"model"`
	Embeddings      []any  `json:"embeddings"`
	TotalDuration   int64  `json:"total_duration"`
	LoadDuration    int64  `json:"load_duration"`
	PromptEvalCount int    `json:"prompt_eval_count"`
}

// Embedding is the answer of the older POST /api/embeddings.
type Embedding struct {
	Embedding any `json:"embedding"`
}
