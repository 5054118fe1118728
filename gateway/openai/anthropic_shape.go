package openai

import (
	"encoding/json"
	"errors"
	"net/http"

	"parley"
	"parley/gateway/anthropic"
)

// A ReplyMessage is the whole answer of POST /v1/messages.
type ReplyMessage struct {
	ID           string       `json:"id"`
	Type         string       `json:"type"`
	Role         string       `json:"role"`
	Model        string       `json:"model"`
	Content      []any        `json:"content"`
	StopReason   *string      `json:"stop_reason"`
	StopSequence *string      `json:"stop_sequence"`
	Usage        MessageUsage `json:"usage"`
	Parley       *Extras      `json:"parley,omitempty"`
}

// A TextBlock is a part of an answer that is text.
type TextBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// A ThinkingBlock is what the model thought. The signature is empty: nothing here
// checks one.
type ThinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// A ToolUseBlock is a call of a tool. Input is a JSON object.
type ToolUseBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// A MessageUsage counts tokens in three parts that add up to the prompt: what was
// in memory, what was computed of the part worth keeping, and the rest.
type MessageUsage struct {
	InputTokens              int `json:"input_tokens"`
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int `json:"cache_read_input_tokens"`
	OutputTokens             int `json:"output_tokens"`
}

// MessageUsageOf splits u where the first worthKeeping tokens of the prompt end.
func MessageUsageOf(u parley.Usage, worthKeeping int) MessageUsage {
	created := max(0, min(worthKeeping, u.PromptTokens)-u.CachedTokens)
	return MessageUsage{InputTokens: u.PromptTokens - u.CachedTokens - created, CacheCreationInputTokens: created,
		CacheReadInputTokens: u.CachedTokens, OutputTokens: u.OutputTokens}
}

// A MessageEvent is one event of a streamed answer; its type is also its name.
type MessageEvent struct {
	Type         string        `json:"type"`
	Message      *ReplyMessage `json:"message,omitempty"`
	Index        *int          `json:"index,omitempty"`
	ContentBlock any           `json:"content_block,omitempty"`
	Delta        any           `json:"delta,omitempty"`
	Usage        *MessageUsage `json:"usage,omitempty"`
	Parley       *Extras       `json:"parley,omitempty"`
}

// TextDelta, ThinkingDelta and InputDelta are what is added to blocks.
type (
	// TextDelta adds to a [TextBlock].
	TextDelta struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	// ThinkingDelta adds to a [ThinkingBlock].
	ThinkingDelta struct {
		Type     string `json:"type"`
		Thinking string `json:"thinking"`
	}
	// InputDelta adds a piece of JSON to the input of a [ToolUseBlock].
	InputDelta struct {
		Type        string `json:"type"`
		PartialJSON string `json:"partial_json"`
	}
	// StopDelta says why the answer ended.
	StopDelta struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
)

// TokenCount is the answer of POST /v1/messages/count_tokens.
type TokenCount struct {
	InputTokens int `json:"input_tokens"`
}

// A MessageError is a failure as clients of the Anthropic interface read it.
type MessageError struct {
	Type      string             `json:"type"`
	Error     MessageErrorDetail `json:"error"`
	RequestID string             `json:"request_id"`
}

// A MessageErrorDetail says what went wrong.
type MessageErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// statusOverloaded is how the Anthropic interface says that there is no room.
const statusOverloaded = 529

// messageErrorTypes name failures by their HTTP status.
var messageErrorTypes = map[int]string{
	http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error",
	http.StatusForbidden: "permission_error",
	http.StatusNotFound:  "not_found_error", http.StatusMethodNotAllowed: "invalid_request_error",
	http.StatusConflict: "invalid_request_error", http.StatusUnprocessableEntity: "invalid_request_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error", statusOverloaded: "overloaded_error",
	http.StatusGatewayTimeout: "timeout_error",
}

// DescribeMessageError turns err into what such a client sees.
func DescribeMessageError(err error, requestID string) (status int, header http.Header, body MessageError) {
	failure := Describe(err, requestID)
	status = failure.Status
	if status == http.StatusServiceUnavailable {
		status = statusOverloaded
	}
	kind, ok := messageErrorTypes[status]
	if !ok {
		kind = "api_error"
	}
	message := failure.Body.Error.Message
	if long, ok := errors.AsType[*tooLong](err); ok {
		message = anthropic.TooLong(long.promptTokens, long.outputTokens, long.contextTokens)
	}
	return status, failure.Header, MessageError{"error", MessageErrorDetail{kind, message}, requestID}
}
