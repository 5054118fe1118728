package openai

import (
	"encoding/json"

	"parley"
)

// A Response is the object of POST /v1/responses. Members that are pointers
// are null where there is nothing to say.
type Response struct {
	ID                 string                `json:"id"`
	Object             string                `json:"object"`
	CreatedAt          int64                 `json:"created_at"`
	Status             string                `json:"status"`
	CompletedAt        *int64                `json:"completed_at"`
	Background         bool                  `json:"background"`
	Conversation       *ResponseConversation `json:"conversation,omitempty"`
	Error              *ResponseError        `json:"error"`
	IncompleteDetails  *IncompleteDetails    `json:"incomplete_details"`
	Instructions       *string               `json:"instructions"`
	MaxOutputTokens    *int                  `json:"max_output_tokens"`
	Metadata           map[string]string     `json:"metadata"`
	Model              string                `json:"model"`
	Output             []Item                `json:"output"`
	ParallelToolCalls  bool                  `json:"parallel_tool_calls"`
	PreviousResponseID *string               `json:"previous_response_id"`
	PromptCacheKey     *string               `json:"prompt_cache_key,omitempty"`
	Reasoning          ResponseReasoning     `json:"reasoning"`
	SafetyIdentifier   *string               `json:"safety_identifier,omitempty"`
	ServiceTier        string                `json:"service_tier"`
	Store              bool                  `json:"store"`
	Temperature        json.RawMessage       `json:"temperature"`
	Text               ResponseText          `json:"text"`
	ToolChoice         json.RawMessage       `json:"tool_choice"`
	Tools              []ResponseTool        `json:"tools"`
	TopLogprobs        int                   `json:"top_logprobs"`
	TopP               json.RawMessage       `json:"top_p"`
	Truncation         string                `json:"truncation"`
	Usage              *ResponseUsage        `json:"usage,omitempty"`
	User               string                `json:"user,omitempty"`
	// DroppedItems is an extra: how many of the oldest items were not shown to
	// the model because not all fit its context.
	DroppedItems int `json:"dropped_items,omitempty"`
	// Parley is another one.
	Parley *Extras `json:"parley,omitempty"`
}

// A ResponseConversation names the conversation that a response is part of.
type ResponseConversation struct {
	ID string `json:"id"`
}

// A ResponseError says why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// IncompleteDetails says why a response ended early.
type IncompleteDetails struct {
	Reason string `json:"reason"`
}

// ResponseReasoning repeats how the model was asked to think.
type ResponseReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// ResponseText repeats what form the answer was asked to have.
type ResponseText struct {
	Format    json.RawMessage `json:"format"`
	Verbosity string          `json:"verbosity,omitempty"`
}

// A ResponseTool repeats one of the tools.
type ResponseTool struct {
	Type        string  `json:"type"`
	Name        string  `json:"name"`
	Description *string `json:"description,omitempty"`
	// Parameters, which may be null, and Strict are of functions, Format is of custom tools.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Strict     *bool           `json:"strict,omitempty"`
	Format     json.RawMessage `json:"format,omitempty"`
}

// A ResponseUsage counts tokens. Cached ones are part of InputTokens.
type ResponseUsage struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens     int `json:"cached_tokens"`
		CacheWriteTokens int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int                     `json:"output_tokens"`
	OutputTokensDetails CompletionTokensDetails `json:"output_tokens_details"`
	TotalTokens         int                     `json:"total_tokens"`
}

// ResponseUsageOf returns u in the shape of this interface. Whatever of the
// prompt was not cached is now.
func ResponseUsageOf(u parley.Usage) *ResponseUsage {
	r := &ResponseUsage{InputTokens: u.PromptTokens, OutputTokens: u.OutputTokens,
		TotalTokens: u.PromptTokens + u.OutputTokens}
	r.InputTokensDetails.CachedTokens = u.CachedTokens
	r.OutputTokensDetails = UsageOf(u).CompletionTokensDetails
	return r
}

// A Compaction is the answer of POST /v1/responses/compact: items that stand for
// all that was said.
type Compaction struct {
	ID        string         `json:"id"`
	Object    string         `json:"object"`
	Output    []Item         `json:"output"`
	CreatedAt int64          `json:"created_at"`
	Usage     *ResponseUsage `json:"usage"`
}

// emptyResponse is a response of which nothing is known yet.
func emptyResponse() Response {
	return Response{
		Object:            "response",
		Metadata:          map[string]string{},
		Output:            []Item{},
		ParallelToolCalls: true,
		ServiceTier:       "default",
		Store:             true,
		Temperature:       json.RawMessage("1"),
		TopP:              json.RawMessage("1"),
		Truncation:        "disabled",
		Text:              ResponseText{Format: json.RawMessage(`{"type":"text"}`)},
		ToolChoice:        json.RawMessage(`"auto"`),
		Tools:             []ResponseTool{},
	}
}

// UnmarshalJSON reads an item as it was written.
func (i *Item) UnmarshalJSON(raw []byte) (err error) {
	*i, err = ParseItem(raw)
	return err
}

// A DeletedResponse says that a response is gone.
type DeletedResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// An InputTokens is the answer of POST /v1/responses/input_tokens.
type InputTokens struct {
	Object      string `json:"object"`
	InputTokens int    `json:"input_tokens"`
}

// A List is a part of a list, with the cursors to continue from.
type List struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	HasMore bool   `json:"has_more"`
}

// responseErrorCode is one of the few codes that this interface has for a
// failure after a response has begun.
func responseErrorCode(code parley.Code) string {
	switch code {
	case parley.RateLimited, parley.QuotaExceeded:
		return "rate_limit_exceeded"
	case parley.ContextTooLong:
		return "context_length_exceeded" // by which clients know that they have to shorten the conversation
	case parley.InvalidRequest, parley.Unprocessable:
		return "invalid_prompt"
	}
	return "server_error"
}

// ResponseErrorOf returns err as it appears in a response. The words of an internal
// error stay in the log.
func ResponseErrorOf(err error, requestID string) *ResponseError {
	return &ResponseError{Code: responseErrorCode(CodeOf(err)), Message: Describe(err, requestID).Body.Error.Message}
}
