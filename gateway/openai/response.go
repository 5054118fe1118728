package openai

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"parley"
)

// A ChatResponse is a whole chat answer.
type ChatResponse struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []ChatChoice `json:"choices"`
	Usage       Usage        `json:"usage"`
	ServiceTier string       `json:"service_tier,omitempty"`
	Timings     *Timings     `json:"timings,omitempty"`
	Parley      *Extras      `json:"parley,omitempty"`
}

// Extras is what this server says of an answer and other servers do not.
type Extras struct {
	// Unenforced names the keywords of a schema that is not strict which the answer
	// was not held to.
	Unenforced []string `json:"unenforced,omitempty"`
	// EstimatedUsage: the upstream that answered reported no usage, so it is an estimate.
	EstimatedUsage bool `json:"estimated_usage,omitempty"`
}

// ExtrasOf returns what is to be said of an answer with a usage, nil if nothing is.
func ExtrasOf(u parley.Usage) *Extras {
	e := Extras{EstimatedUsage: u.Estimated}
	if u.Unenforced != "" {
		e.Unenforced = strings.Split(u.Unenforced, ",")
	} else if !u.Estimated {
		return nil
	}
	return &e
}

// A ChatChoice is one of the answers in a [ChatResponse].
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      ChatMessage   `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason parley.Finish `json:"finish_reason"`
}

// A ChatMessage is what the assistant said. Content is null if it only called
// tools. ReasoningContent, what it thought before, is an extra that most
// clients know. Refusal is always null: there is no model here that refuses in
// a channel of its own.
type ChatMessage struct {
	Role             string         `json:"role"`
	Content          *string        `json:"content"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	Refusal          *string        `json:"refusal"`
	ToolCalls        []ChatToolCall `json:"tool_calls,omitempty"`
	// FunctionCall stands in the place of ToolCalls for clients of the older functions.
	FunctionCall *ChatToolFunction `json:"function_call,omitempty"`
}

// A ChatToolCall is a call the assistant made, or in a stream a fragment of
// one. Index is written in streams only; ID, Type and the function's name only
// in the first fragment of an index.
type ChatToolCall struct {
	Index *int   `json:"index,omitempty"`
	ID    string `json:"id,omitempty"`
	Type  string `json:"type,omitempty"`
	// One of Function and Custom is set.
	Function *ChatToolFunction `json:"function,omitempty"`
	Custom   *ChatToolCustom   `json:"custom,omitempty"`
}

// A ChatToolCustom is the custom tool of a call. Input is any text.
type ChatToolCustom struct {
	Name  string `json:"name,omitempty"`
	Input string `json:"input"`
}

// NewChatToolCall returns a call of a function, or of a custom tool with arguments as its input. Without an id it is
// a fragment of a call that has begun.
func NewChatToolCall(index *int, id, name, arguments string, custom bool) ChatToolCall {
	c := ChatToolCall{Index: index, ID: id}
	kind := "function"
	if custom {
		kind, c.Custom = "custom", &ChatToolCustom{name, arguments}
	} else {
		c.Function = &ChatToolFunction{name, arguments}
	}
	if id != "" {
		c.Type = kind
	}
	return c
}

// A ChatToolFunction is the function of a call. Arguments is JSON as a text.
type ChatToolFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// A ChatChunk is one event of a streamed chat answer. Usage is written only if
// the client asked for it: null until the last chunk.
type ChatChunk struct {
	ID          string            `json:"id"`
	Object      string            `json:"object"`
	Created     int64             `json:"created"`
	Model       string            `json:"model"`
	Choices     []ChatChunkChoice `json:"choices"`
	Usage       *OptionalUsage    `json:"usage,omitempty"`
	ServiceTier string            `json:"service_tier,omitempty"`
	Timings     *Timings          `json:"timings,omitempty"`
	Progress    *Progress         `json:"prompt_progress,omitempty"`
	Parley      *Extras           `json:"parley,omitempty"`
}

// A ChatChunkChoice is the news of one choice. FinishReason is null until the
// choice's last chunk.
type ChatChunkChoice struct {
	Index        int            `json:"index"`
	Delta        ChatDelta      `json:"delta"`
	Logprobs     *ChatLogprobs  `json:"logprobs"`
	FinishReason *parley.Finish `json:"finish_reason"`
}

// A ChatDelta is what was added to a message. Members that are nil or empty
// are left out: the last delta of a choice is {}.
type ChatDelta struct {
	Role             string         `json:"role,omitempty"`
	Content          *string        `json:"content,omitempty"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	ToolCalls        []ChatToolCall `json:"tool_calls,omitempty"`
	// FunctionCall stands in the place of ToolCalls for clients of the older functions.
	FunctionCall *ChatToolFunction `json:"function_call,omitempty"`
}

// ChatLogprobs lists the tokens of a message with their probabilities.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal []TokenLogprob `json:"refusal"`
}

// A TokenLogprob is one token with its log-probability and the alternatives.
type TokenLogprob struct {
	Token       string       `json:"token"`
	Logprob     float64      `json:"logprob"`
	Bytes       []int        `json:"bytes"`
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// A TopLogprob is an alternative to a chosen token.
type TopLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// A CompletionResponse is a whole plain answer and also one event of a
// streamed one; the interface gives both the same shape.
type CompletionResponse struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	Model       string             `json:"model"`
	Choices     []CompletionChoice `json:"choices"`
	Usage       *OptionalUsage     `json:"usage,omitempty"`
	ServiceTier string             `json:"service_tier,omitempty"`
	Timings     *Timings           `json:"timings,omitempty"`
	Parley      *Extras            `json:"parley,omitempty"`
}

// A CompletionChoice is one continuation, or a piece of it. FinishReason is
// null in all pieces but the last.
type CompletionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *CompletionLogprobs `json:"logprobs"`
	FinishReason *parley.Finish      `json:"finish_reason"`
}

// CompletionLogprobs is the older shape of log-probabilities: four lists of
// equal length. The first token of an echoed prompt has no probability, so
// its entries are null. TextOffset counts characters from the start of the
// choice's text.
type CompletionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []*float64           `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

// A Usage counts tokens. CachedTokens is part of PromptTokens.
type Usage struct {
	PromptTokens            int                     `json:"prompt_tokens"`
	CompletionTokens        int                     `json:"completion_tokens"`
	TotalTokens             int                     `json:"total_tokens"`
	PromptTokensDetails     PromptTokensDetails     `json:"prompt_tokens_details"`
	CompletionTokensDetails CompletionTokensDetails `json:"completion_tokens_details"`
}

// PromptTokensDetails says how much of the prompt was not computed again, and
// how much of the text was dropped because it outgrew the context.
type PromptTokensDetails struct {
	CachedTokens  int `json:"cached_tokens"`
	DroppedTokens int `json:"dropped_tokens,omitempty"`
}

// CompletionTokensDetails says how much of the output was thinking.
type CompletionTokensDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// OptionalUsage is a usage that may be written as null, which a plain pointer
// with omitempty cannot.
type OptionalUsage struct{ *Usage }

// MarshalJSON writes the usage, or null.
func (u OptionalUsage) MarshalJSON() ([]byte, error) { return Encode(u.Usage) }

// UsageOf returns u in the shape clients read.
func UsageOf(u parley.Usage) Usage {
	return Usage{
		PromptTokens:        u.PromptTokens,
		CompletionTokens:    u.OutputTokens,
		TotalTokens:         u.PromptTokens + u.OutputTokens,
		PromptTokensDetails: PromptTokensDetails{CachedTokens: u.CachedTokens, DroppedTokens: u.DroppedTokens},

		CompletionTokensDetails: CompletionTokensDetails{ReasoningTokens: u.ReasoningTokens},
	}
}

// Timings says where the time of a request went. It is an extra of this
// server that clients ignore unless they know it.
type Timings struct {
	QueuedMs           float64 `json:"queued_ms"`
	PrefillMs          float64 `json:"prefill_ms"`
	DecodeMs           float64 `json:"decode_ms"`
	PromptPerSecond    float64 `json:"prompt_per_second"`
	PredictedPerSecond float64 `json:"predicted_per_second"`
	Cached             int     `json:"cached"`
	// CacheMiss is why the rest of the prompt was not cached, in one word.
	CacheMiss string `json:"cache_miss,omitempty"`
	Route
	// Extras stands beside the times in an answer.
	Extras *Extras `json:"-"`
}

// TimingsOf returns the times of u. The prompt's speed counts only tokens that
// were computed, and the answer's only those after the first, whose time is
// part of the prefill.
func TimingsOf(u parley.Usage) *Timings {
	t := &Timings{
		QueuedMs:           milliseconds(u.Queued),
		PrefillMs:          milliseconds(u.Prefill),
		DecodeMs:           milliseconds(u.Decode),
		PromptPerSecond:    rate(u.PromptTokens-u.CachedTokens, u.Prefill),
		PredictedPerSecond: rate(u.OutputTokens-1, u.Decode),
		Cached:             u.CachedTokens,
		CacheMiss:          u.Miss,
		Extras:             ExtrasOf(u),
	}
	if u.Routing != nil {
		t.Route = RouteOf(u.Routing)
	}
	return t
}

// Beside returns the extras of an answer whose times are t; nil if there are none.
func (t *Timings) Beside() *Extras {
	if t == nil {
		return nil
	}
	return t.Extras
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func rate(tokens int, d time.Duration) float64 {
	if tokens <= 0 || d <= 0 {
		return 0
	}
	return math.Round(float64(tokens)/d.Seconds()*100) / 100
}

// A ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// A Model is one entry of a [ModelList]. MaxModelLen, the context in tokens,
// is an extra that some editors read; Unavailable, another, says why it
// cannot be used now.
type Model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
	Unavailable string `json:"unavailable,omitempty"`
	// Parameters counts its weights; 0 if that is not known.
	Parameters int64 `json:"parameters,omitempty"`
	// Description says in a few words what it is good at.
	Description string `json:"description,omitempty"`
	// Demo marks a model that is too small for real work.
	Demo bool `json:"demo,omitempty"`
	// TurnsOnly marks a model whose workers take conversations alone: answers that broke off cannot be continued.
	TurnsOnly bool `json:"turns_only,omitempty"`
}

// logprobLeast is what the interface writes for a probability too small to
// tell; JSON has no infinities.
const logprobLeast = -9999.0

// LogprobOf returns a worker's log-probability as JSON can carry it.
func LogprobOf(p float32) float64 {
	f := float64(p)
	if math.IsNaN(f) || f < logprobLeast {
		return logprobLeast
	}
	return min(f, 0)
}

// TokenText returns the bytes of a token as a string for people. Bytes that
// are not a character alone are written as the interface does for plain
// completions: bytes:\xe2\x80.
func TokenText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	const digits = "0123456789abcdef"
	text := []byte("bytes:")
	for _, c := range b {
		text = append(text, '\\', 'x', digits[c>>4], digits[c&15])
	}
	return string(text)
}

// ByteValues returns b as numbers: JSON would write a []byte as base64.
func ByteValues(b []byte) []int {
	values := make([]int, len(b))
	for i, c := range b {
		values[i] = int(c)
	}
	return values
}
