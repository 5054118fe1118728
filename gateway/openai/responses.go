package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley"
)

// inputItemsMax bounds the items of one request.
const inputItemsMax = 10_000

// A ResponseRequest is the body of POST /v1/responses. Its ChatRequest is
// complete but for Messages, which are made of what was said before, if the
// request names it, and of Input: see [MessagesOf].
type ResponseRequest struct {
	ChatRequest
	// Input is what the client says now. Only what follows something may be empty.
	Input []Item
	// Previous and Conversation name what was said before. At most one is set.
	Previous, Conversation string
	// Instructions stand before everything, in this response only.
	Instructions string
	// StoreGiven says that the client said itself whether to store the response.
	StoreGiven bool
	// Background asks to continue without the client.
	Background bool
	// Drop allows the oldest items to be left out if not all fit the context.
	Drop bool
	// Shape is the response before anything was computed: it repeats what was
	// asked for.
	Shape Response

	flat flatTools
}

// ParseResponse reads the body of a response. An error is always a
// [parley.Error] that names the field at fault.
func ParseResponse(body []byte) (*ResponseRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	r, f := readResponse(doc)
	if f.err == nil && len(r.Input) == 0 && r.Previous == "" && r.Conversation == "" {
		f.fail(f.missing("input"))
	}
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

// ParseResponseFrame reads a frame of a WebSocket that asks for a response: its
// body, with a type beside.
func ParseResponseFrame(frame []byte) (*ResponseRequest, error) {
	doc, err := document(frame)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	kind := ""
	f.need("type", &kind)
	f.oneOf("type", &kind, "response.create")
	if f.err != nil {
		return nil, f.err
	}
	return ParseResponse(frame)
}

// ParseInputTokens reads the body of a count of input tokens, which is that of
// a response.
func ParseInputTokens(body []byte) (*ResponseRequest, error) { return ParseResponse(body) }

func readResponse(doc value) (*ResponseRequest, *fields) {
	f := doc.fields()
	r := &ResponseRequest{}
	r.Generation = readGeneration(f)
	r.Choices, r.OpenTurn = 1, true
	r.Shape = emptyResponse()
	r.readInput(f)
	r.readPast(f)
	r.readLimits(f)
	r.readText(f)
	r.readFlatTools(f)
	r.Shape.Tools = append(r.Shape.Tools, r.flat.tools...)
	r.Shape.ParallelToolCalls = r.flat.parallel
	if r.flat.choice != nil {
		r.Shape.ToolChoice = r.flat.choice
	}
	r.readEchoes(f)
	for _, name := range []string{"prompt", "max_tool_calls", "context_management", "moderation"} {
		f.with(name, func(v value) error { return v.unsupported("this server does not know it.") })
	}
	return r, f
}

func (r *ResponseRequest) readInput(f *fields) {
	f.with("input", func(v value) (err error) {
		if v.isString() {
			r.Input = []Item{{Type: ItemMessage, Role: "user", Status: "completed",
				Parts: []ItemPart{{Type: "input_text", Text: unquote(v.raw)}}}}
			return nil
		}
		if !v.isArray() {
			return v.wrongType("a string or an array of items")
		}
		r.Input, err = readItems(v, inputItemsMax)
		if err == nil && len(r.Input) == 0 {
			err = v.invalid("empty_array",
				"empty array. Expected an array with minimum length 1, but got an empty array instead.")
		}
		return err
	})
	f.text("instructions", &r.Instructions)
	if _, ok := f.take("instructions"); ok {
		r.Shape.Instructions = new(r.Instructions)
	}
}

// readPast takes what the response follows.
func (r *ResponseRequest) readPast(f *fields) {
	f.text("previous_response_id", &r.Previous)
	f.with("conversation", func(v value) error {
		if v.isString() {
			r.Conversation = unquote(v.raw)
			return nil
		}
		if !v.isObject() {
			return v.wrongType("a string or an object")
		}
		inner := v.fields()
		inner.need("id", &r.Conversation)
		return inner.err
	})
	if v, ok := f.take("conversation"); ok && r.Previous != "" {
		f.fail(withCode("mutually_exclusive_parameters", parley.Invalid(v.path(),
			"Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send one of them.")))
	}
	r.Shape.PreviousResponseID = optional(r.Previous)
	if r.Conversation != "" {
		r.Session = ConversationSession(r.Conversation)
		r.Shape.Conversation = &ResponseConversation{r.Conversation}
	}
	f.flag("store", &r.Shape.Store)
	_, r.StoreGiven = f.take("store")
	f.flag("background", &r.Background)
	r.Shape.Background = r.Background
	if v, ok := f.take("background"); ok && r.Background && !r.Shape.Store {
		f.fail(v.invalid("invalid_value",
			"a response in the background must be stored: leave out 'store' or make it true."))
	}
}

func (r *ResponseRequest) readLimits(f *fields) {
	if v, ok := f.take("max_output_tokens"); ok {
		f.integer("max_output_tokens", 1, tokensMax, &r.MaxTokens)
		r.MaxTokensParam, r.CutToFit = v.key, true
		r.Shape.MaxOutputTokens = new(r.MaxTokens) // the request goes before the response does
	}
	generate := true
	f.flag("generate", &generate)
	if r.PromptOnly = !generate; r.PromptOnly {
		r.MaxTokens, r.MaxTokensParam = 1, "generate"
	}
	f.oneOf("truncation", &r.Shape.Truncation, "auto", "disabled")
	r.Drop = r.Shape.Truncation == "auto"
	for _, e := range []struct {
		name string
		into *json.RawMessage
	}{{"temperature", &r.Shape.Temperature}, {"top_p", &r.Shape.TopP}} {
		if v, ok := f.take(e.name); ok {
			*e.into = json.RawMessage(slices.Clone(v.raw))
		}
	}
	f.integer("top_logprobs", 0, 20, &r.TopLogprobs)
	r.Shape.TopLogprobs = r.TopLogprobs
	r.Logprobs = r.TopLogprobs > 0
	f.with("include", func(v value) error {
		if !v.isArray() {
			return v.wrongType("an array of strings")
		}
		for _, element := range v.elements() {
			name, err := element.text()
			if err != nil {
				return err
			}
			r.Logprobs = r.Logprobs || name == "message.output_text.logprobs"
		}
		return nil
	})
}

// readText takes the format of the answer, which stands flat in this
// interface.
func (r *ResponseRequest) readText(f *fields) {
	f.object("text", func(text *fields) {
		text.oneOf("verbosity", &r.Shape.Text.Verbosity, "low", "medium", "high")
		text.object("format", func(format *fields) {
			kind := ""
			format.need("type", &kind)
			format.oneOf("type", &kind, "text", "json_object", "json_schema")
			switch kind {
			case "json_object":
				format.fail(r.Format.set(format.at, kind, parley.JSONObject()))
			case "json_schema":
				format.needed("schema")
				r.Format.readSchema(format)
			}
			r.Shape.Text.Format = json.RawMessage(slices.Clone(format.at.raw))
		})
	})
}

// readEchoes takes what is only repeated.
func (r *ResponseRequest) readEchoes(f *fields) {
	r.Shape.Metadata = f.metadata("metadata")
	r.Application = strings.Clone(r.Shape.Metadata["application"])
	f.text("user", &r.Shape.User)
	text := func(name string) *string {
		s := ""
		f.text(name, &s)
		return optional(s)
	}
	r.Shape.SafetyIdentifier, r.Shape.PromptCacheKey = text("safety_identifier"), text("prompt_cache_key")
	f.object("reasoning", func(reasoning *fields) {
		effort, summary := "", ""
		reasoning.oneOf("effort", &effort, "none", "minimal", "low", "medium", "high", "xhigh", "max")
		reasoning.oneOf("summary", &summary, "auto", "concise", "detailed")
		r.Shape.Reasoning = ResponseReasoning{optional(effort), optional(summary)}
		if effort != "" {
			r.setTemplateArg("reasoning_effort", effort)
		}
	})
	if r.ServiceTier == "" {
		r.ServiceTier = "auto"
	}
}

// metadata takes the client's own pairs of texts.
func (f *fields) metadata(name string) map[string]string {
	pairs := map[string]string{}
	f.with(name, func(v value) error { return readMetadata(v, &pairs) })
	return pairs
}

// PreviousNotFound is the error for a response to follow that is not stored.
func PreviousNotFound(id string) error {
	return withCode("previous_response_not_found",
		parley.Invalid("previous_response_id", "Previous response with id '%s' not found.", shorten(id)))
}

// ThingNotFound is the error for an id that names nothing of the caller's:
// what is "Response", "Conversation" or "Item".
func ThingNotFound(what, id string) error {
	return &parley.Error{Code: parley.NotFound, Message: fmt.Sprintf("%s with id '%s' not found.", what, shorten(id))}
}
