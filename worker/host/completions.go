package host

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley"
	"parley/token"
	"parley/worker/foreign"
)

// A question is the body of /v1/completions and /v1/chat/completions, in vLLM's
// dialect. Fields that only change what is shown are kept beside the request.
type question struct {
	Model    string          `json:"model"`
	Prompt   json.RawMessage `json:"prompt"`
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`

	MaxTokens           json.RawMessage `json:"max_tokens"`
	MaxCompletionTokens json.RawMessage `json:"max_completion_tokens"`

	N                 *int               `json:"n"`
	Temperature       *float32           `json:"temperature"`
	TopP              float32            `json:"top_p"`
	TopK              int                `json:"top_k"`
	MinP              float32            `json:"min_p"`
	RepetitionPenalty float32            `json:"repetition_penalty"`
	PresencePenalty   float32            `json:"presence_penalty"`
	FrequencyPenalty  float32            `json:"frequency_penalty"`
	LogitBias         map[string]float32 `json:"logit_bias"`
	Seed              *int64             `json:"seed"`

	Stop         json.RawMessage `json:"stop"`
	StopTokenIDs []parley.Token  `json:"stop_token_ids"`
	IncludeStop  bool            `json:"include_stop_str_in_output"`
	IgnoreEOS    bool            `json:"ignore_eos"`

	Logprobs       json.RawMessage `json:"logprobs"`
	TopLogprobs    int             `json:"top_logprobs"`
	TokensAsIDs    bool            `json:"return_tokens_as_token_ids"`
	ReturnTokenIDs bool            `json:"return_token_ids"`

	ResponseFormat    *responseFormat    `json:"response_format"`
	StructuredOutputs *structuredOutputs `json:"structured_outputs"`

	CacheSalt     *string `json:"cache_salt"`
	RequestID     string  `json:"request_id"`
	Priority      int     `json:"priority"`
	Stream        bool    `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Echo bool `json:"echo"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	} `json:"json_schema"`
}

// structuredOutputs is how vLLM is told what an answer must be.
type structuredOutputs struct {
	JSON       json.RawMessage `json:"json"`
	JSONObject bool            `json:"json_object"`
	Regex      string          `json:"regex"`
	Choice     []string        `json:"choice"`
	// What is not enforced here is refused.
	Grammar       json.RawMessage `json:"grammar"`
	StructuralTag json.RawMessage `json:"structural_tag"`
}

// supported are fields of vLLM that a worker has although a gateway does not.
var supported = []string{"include_stop_str_in_output", "return_token_ids", "return_tokens_as_token_ids"}

// UnmarshalJSON reads a question, and refuses fields of other servers that would change its answer.
func (q *question) UnmarshalJSON(body []byte) error {
	type plain question
	if err := json.Unmarshal(body, (*plain)(q)); err != nil {
		return err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := string(given[name])
		if slices.Contains(supported, name) {
			continue
		}
		if foreign.FieldAsks(name, value) || strings.HasPrefix(name, "guided_") && value != "null" {
			return parley.Invalid(name, "a worker does not support %s: omit it, or use structured_outputs, "+
				"response_format or a gateway", name)
		}
	}
	// Prompts of text begin as the model's vocabulary says, chats as its template does.
	if _, chat := given["messages"]; string(given["add_special_tokens"]) == strconv.FormatBool(chat) {
		return parley.Invalid("add_special_tokens", "a worker does not support add_special_tokens: omit it")
	}
	if s := q.StructuredOutputs; s != nil && len(s.Grammar)+len(s.StructuralTag) > 0 {
		return parley.Invalid("structured_outputs", "a worker supports json, json_object, regex and choice of "+
			"structured_outputs, and neither grammar nor structural_tag")
	}
	return nil
}

// maxTokensDefault is how long a completion is if nothing is said, as OpenAI has it.
const maxTokensDefault = 16

// request returns what the question asks of the engine, but for the prompt.
func (q *question) request(chat bool) (*parley.Request, error) {
	if q.Echo || len(q.Tools) > 0 && string(q.Tools) != "null" && string(q.Tools) != "[]" {
		return nil, parley.Errorf(parley.InvalidRequest,
			"a worker supports neither tools nor echo: use a gateway, parley serve")
	}
	r := &parley.Request{ID: cmp.Or(q.RequestID, rand.Text()), Model: q.Model, Choices: 1, Class: parley.Pro}
	if q.N != nil {
		r.Choices = *q.N
	}
	if r.Choices < 1 || r.Choices > seqsDefault {
		return nil, parley.Invalid("n", "n is %d: expected 1 to %d", r.Choices, seqsDefault)
	}
	if err := q.length(r, chat); err != nil {
		return nil, err
	}
	if err := q.sampling(&r.Sampling); err != nil {
		return nil, err
	}
	if err := q.stop(&r.Stop); err != nil {
		return nil, err
	}
	if err := q.wantsLogprobs(r, chat); err != nil {
		return nil, err
	}
	if q.CacheSalt != nil {
		if *q.CacheSalt == "" {
			return nil, parley.Invalid("cache_salt", "the salt is empty: omit it instead")
		}
		r.Salt = saltOf(*q.CacheSalt)
	}
	r.Grammar = q.grammar()
	return r, nil
}

// saltOf makes a salt of a text.
func saltOf(text string) parley.Salt {
	sum := sha256.Sum256([]byte("parley cache_salt\x00" + text))
	return parley.Salt(sum[:len(parley.Salt{})])
}

// length reads how long the answer may be: left out it is the default, null is
// what the context leaves.
func (q *question) length(r *parley.Request, chat bool) error {
	raw := q.MaxTokens
	if chat && len(q.MaxCompletionTokens) > 0 {
		raw = q.MaxCompletionTokens
	}
	switch {
	case len(raw) == 0 && !chat:
		r.MaxTokens = maxTokensDefault
	case len(raw) > 0 && string(raw) != "null":
		if err := json.Unmarshal(raw, &r.MaxTokens); err != nil || r.MaxTokens < 1 {
			return parley.Invalid("max_tokens", "max_tokens is %s: expected a number of 1 or more", raw)
		}
	}
	return nil
}

func (q *question) sampling(s *parley.Sampling) error {
	*s = parley.Sampling{
		Temperature:       1,
		TopP:              q.TopP,
		TopK:              max(0, q.TopK),
		MinP:              q.MinP,
		RepetitionPenalty: q.RepetitionPenalty,
		PresencePenalty:   q.PresencePenalty,
		FrequencyPenalty:  q.FrequencyPenalty,
	}
	if q.Temperature != nil {
		s.Temperature = *q.Temperature
	}
	if q.Seed != nil {
		s.Seed = uint64(*q.Seed)
	} else {
		var random [8]byte
		rand.Read(random[:])
		s.Seed = binary.LittleEndian.Uint64(random[:])
	}
	for name, bias := range q.LogitBias {
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return parley.Invalid("logit_bias", "%q is not a token id", name)
		}
		if s.LogitBias == nil {
			s.LogitBias = map[parley.Token]float32{}
		}
		s.LogitBias[parley.Token(id)] = bias
	}
	return nil
}

func (q *question) stop(s *parley.Stop) error {
	s.Tokens, s.IgnoreEnd = q.StopTokenIDs, q.IgnoreEOS
	if len(q.Stop) == 0 || string(q.Stop) == "null" {
		return nil
	}
	var one string
	if json.Unmarshal(q.Stop, &one) == nil {
		s.Strings = []string{one}
	} else if err := json.Unmarshal(q.Stop, &s.Strings); err != nil {
		return parley.Invalid("stop", "stop must be a string or a list of strings")
	}
	if slices.Contains(s.Strings, "") {
		return parley.Invalid("stop", "a stop string is empty")
	}
	return nil
}

// wantsLogprobs reads logprobs: a number for completions, and for chats a
// truth beside a number.
func (q *question) wantsLogprobs(r *parley.Request, chat bool) error {
	if len(q.Logprobs) == 0 || string(q.Logprobs) == "null" {
		return nil
	}
	into := any(&r.TopLogprobs)
	if chat {
		r.TopLogprobs = q.TopLogprobs
		into = &r.Logprobs
	} else {
		r.Logprobs = true
	}
	if err := json.Unmarshal(q.Logprobs, into); err != nil || r.TopLogprobs < 0 || r.TopLogprobs > 20 {
		return parley.Invalid("logprobs",
			"logprobs is %s: expected 0 to 20, and for chats true together with top_logprobs", q.Logprobs)
	}
	return nil
}

// grammar returns what the answer must be.
func (q *question) grammar() *parley.Grammar {
	var g parley.Grammar
	switch s, f := q.StructuredOutputs, q.ResponseFormat; {
	case s != nil && len(s.JSON) > 0:
		g = parley.JSONSchema(schemaText(s.JSON), false)
	case s != nil && s.JSONObject, f != nil && f.Type == "json_object":
		g = parley.JSONObject()
	case s != nil && s.Regex != "":
		g = parley.Regex(s.Regex)
	case s != nil && len(s.Choice) > 0:
		var parts []parley.Grammar
		for _, text := range s.Choice {
			parts = append(parts, parley.Literal(text))
		}
		g = parley.Choice(parts...)
	case f != nil && f.Type == "json_schema" && f.JSONSchema != nil:
		g = parley.JSONSchema(f.JSONSchema.Schema, f.JSONSchema.Strict)
	default:
		return nil
	}
	return &g
}

// schemaText returns a schema that may have come as a text.
func schemaText(raw json.RawMessage) []byte {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}

// prompts returns the prompts of a completion, as ids.
func (h *Host) prompts(raw json.RawMessage) ([][]parley.Token, error) {
	var text string
	var texts []string
	var ids []parley.Token
	var lists [][]parley.Token
	switch {
	case json.Unmarshal(raw, &text) == nil:
		texts = []string{text}
	case json.Unmarshal(raw, &ids) == nil:
		return [][]parley.Token{ids}, nil
	case json.Unmarshal(raw, &texts) == nil:
	case json.Unmarshal(raw, &lists) == nil:
		return lists, nil
	default:
		return nil, parley.Invalid("prompt",
			"the prompt must be a string, a list of strings, a list of token ids or a list of such lists")
	}
	for _, text := range texts {
		ids, err := h.Tokenizer.Encode(text, token.Options{ParseSpecial: true, AddSpecial: true})
		if err != nil {
			return nil, parley.Invalid("prompt", "the prompt cannot be tokenized: %v", err)
		}
		lists = append(lists, ids)
	}
	return lists, nil
}

// A message is one turn of a conversation, whose content is a text or a list of
// parts with text.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (m *message) text() (string, error) {
	var text string
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", parley.Invalid("messages", "content must be a string or a list of parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", parley.Invalid("messages", "parts of type %q are not supported: this worker accepts only text",
				p.Type)
		}
		text += p.Text
	}
	return text, nil
}

// renderChat returns the ids of a conversation.
func (h *Host) renderChat(messages []message, generate bool) ([]parley.Token, error) {
	if h.Template == nil {
		return nil, parley.Invalid("messages", "this model has no chat template: use /v1/completions")
	}
	var turns []token.Message
	for i := range messages {
		text, err := messages[i].text()
		if err != nil {
			return nil, err
		}
		turns = append(turns, token.Message{Role: messages[i].Role, Content: text})
	}
	rendered, err := h.Template.Render(turns, token.RenderOptions{AddGenerationPrompt: generate})
	if err != nil {
		return nil, parley.Invalid("messages", "the conversation cannot be rendered: %v", err)
	}
	return h.Tokenizer.EncodePrompt(rendered)
}
