package native

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/openai"
)

// A gapRequest is the body of POST /infill.
type gapRequest struct {
	completion *openai.CompletionRequest
	// warm requests want no answer: they have the prompt computed for those that follow.
	warm bool
}

// sameFields have the same name and meaning in OpenAI's API or in its extensions here.
var sameFields = []string{"model", "stream", "temperature", "top_k", "top_p", "min_p", "seed", "stop",
	"presence_penalty", "frequency_penalty", "logit_bias", "ignore_eos", "json_schema", "user", "prompt_cache_key",
	"single_line"}

// hintFields change how llama.cpp computes, and not what: they have no effect here.
var hintFields = []string{"cache_prompt", "t_max_prompt_ms", "t_max_predict_ms", "samplers", "timings_per_token",
	"response_fields", "n_keep"}

// Names of llama.cpp's fields.
const (
	prefixField  = "input_prefix"
	suffixField  = "input_suffix"
	extraField   = "input_extra"
	beginField   = "prompt"
	predictField = "n_predict"
	penaltyField = "repeat_penalty"
	slotField    = "id_slot"
)

// snippetMark stands before a text from elsewhere, as llama.cpp writes it for models that
// have no token for that.
const snippetMark = "\n\n--- snippet ---\n\n"

// parseGap reads the body of POST /infill. What stands elsewhere comes before the text
// before the gap, and what the gap begins with after it.
func parseGap(body []byte) (*gapRequest, error) {
	var given map[string]json.RawMessage
	if err := exchange.Decode(body, &given); err != nil {
		return nil, err
	}
	fields := map[string]any{"prompt": "", "suffix": ""}
	text := map[string]string{}
	predict := -1
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := readGapField(name, given[name], fields, text, &predict); err != nil {
			return nil, err
		}
	}
	fields["prompt"] = text[extraField] + text[prefixField] + text[beginField]
	fields["suffix"] = text[suffixField]
	if predict > 0 {
		fields["max_tokens"] = predict
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	completion, err := openai.ParseCompletion(raw)
	if err != nil {
		return nil, err
	}
	switch completion.MaxTokensParam = ""; { // what does not fit the context is cut
	case predict == 0:
		completion.MaxTokens = 1
	case predict < 0:
		completion.MaxTokens = math.MaxInt32
	}
	return &gapRequest{completion, predict == 0}, nil
}

func readGapField(name string, raw json.RawMessage, fields map[string]any, text map[string]string,
	predict *int) error {
	wrong := func(err error) error {
		if err != nil {
			return parley.Invalid(name, "Invalid type for '%s'.", name)
		}
		return nil
	}
	switch {
	case string(raw) == "null" || slices.Contains(hintFields, name):
		return nil
	case slices.Contains(sameFields, name):
		fields[name] = raw
		return nil
	}
	switch name {
	case prefixField, suffixField, beginField:
		var one string
		err := json.Unmarshal(raw, &one)
		text[name] = one
		return wrong(err)
	case extraField:
		var list []struct{ Filename, Text string }
		err := json.Unmarshal(raw, &list)
		for _, extra := range list {
			text[extraField] += snippetMark + extra.Text
		}
		if len(list) > 0 {
			text[extraField] += snippetMark
		}
		return wrong(err)
	case predictField:
		return wrong(json.Unmarshal(raw, predict))
	case penaltyField:
		fields["repetition_penalty"] = raw
		return nil
	case slotField, "n_probs", "n_indent", "mirostat":
		if value := string(raw); value == "-1" || value == "0" {
			return nil
		}
	}
	return parley.Invalid(name, "Unsupported parameter: '%s': this server does not support it: leave it out.", name)
}

// A Gap is the answer of POST /infill, or an event of it: the last one has all fields.
type Gap struct {
	Index           int            `json:"index"`
	Content         string         `json:"content"`
	Tokens          []parley.Token `json:"tokens"`
	Slot            int            `json:"id_slot"`
	Stop            bool           `json:"stop"`
	TokensPredicted int            `json:"tokens_predicted"`
	TokensEvaluated int            `json:"tokens_evaluated"`
	*GapEnd
}

// A GapEnd is what the end of an answer says.
type GapEnd struct {
	Model        string     `json:"model"`
	StopType     string     `json:"stop_type"`
	StoppingWord string     `json:"stopping_word"`
	Truncated    bool       `json:"truncated"`
	HasNewLine   bool       `json:"has_new_line"`
	TokensCached int        `json:"tokens_cached"`
	Timings      GapTimings `json:"timings"`
}

// GapTimings are times and speeds in llama.cpp's names.
type GapTimings struct {
	PromptN             int     `json:"prompt_n"`
	PromptMs            float64 `json:"prompt_ms"`
	PromptPerSecond     float64 `json:"prompt_per_second"`
	PredictedN          int     `json:"predicted_n"`
	PredictedMs         float64 `json:"predicted_ms"`
	PredictedPerSecond  float64 `json:"predicted_per_second"`
	PromptPerTokenMs    float64 `json:"prompt_per_token_ms"`
	PredictedPerTokenMs float64 `json:"predicted_per_token_ms"`
}

// Infill answers POST /infill.
func Infill(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, parseGap)
	if err != nil {
		return err
	}
	m, err := j.Model(request.completion.Model)
	if err != nil {
		return err
	}
	stream := request.completion.Stream && !request.warm
	if stream {
		x.Hooks.Detach()
	}
	query, err := j.Complete(x.Request.Context(), m, request.completion)
	if err != nil {
		return err
	}
	a, stop, err := j.Answer(x.Request.Context(), query)
	if err != nil {
		return err
	}
	x.Bytes.Release() // what is left of the body are tokens
	form := &gapShape{model: m.ID, answer: a}
	if stream {
		return x.Hooks.Rest(func() error {
			defer stop()
			return x.StreamAnswer(a, form, true)
		})
	}
	defer stop()
	choices, err := a.Collect(x.Request.Context())
	if err != nil {
		return err
	}
	text, usage := choices[0].Text.String(), openai.UsageOf(a.Usage)
	if request.warm {
		text, usage.CompletionTokens = "", 0
	}
	form.finish, form.newLine = choices[0].Finish, strings.Contains(text, "\n")
	whole := form.end(usage, openai.TimingsOf(a.Usage))
	whole.Content = text
	return x.Reply(http.StatusOK, whole)
}

// A gapShape makes the events of an answer.
type gapShape struct {
	model   string
	answer  *answer.Answer
	finish  parley.Finish
	newLine bool
}

// EndsItself says that the last event has a mark.
func (s *gapShape) EndsItself() {}

// Opening is not an event of its own.
func (s *gapShape) Opening(int) any { return nil }

// Content is an event with what was added.
func (s *gapShape) Content(p answer.Piece) any {
	s.newLine = s.newLine || strings.Contains(p.Text, "\n")
	return Gap{
		Content:         p.Text,
		Tokens:          []parley.Token{},
		TokensPredicted: p.OutputTokens,
		TokensEvaluated: len(s.answer.Prompts[0].Tokens),
	}
}

// Closing is not an event of its own.
func (s *gapShape) Closing(_ int, finish parley.Finish, _ *openai.Timings) any {
	s.finish = finish
	return nil
}

// Usage is the last event.
func (s *gapShape) Usage(u openai.Usage, timings *openai.Timings) any { return s.end(u, timings) }

// end returns the last event of an answer, without a text.
func (s *gapShape) end(u openai.Usage, t *openai.Timings) Gap {
	each := func(ms float64, n int) float64 { return ms / float64(max(n, 1)) }
	end := &GapEnd{
		Model:        s.model,
		StopType:     "eos",
		HasNewLine:   s.newLine,
		TokensCached: t.Cached,
		Timings: GapTimings{
			PromptN:             u.PromptTokens - t.Cached,
			PromptMs:            t.PrefillMs,
			PromptPerSecond:     t.PromptPerSecond,
			PromptPerTokenMs:    each(t.PrefillMs, u.PromptTokens-t.Cached),
			PredictedN:          u.CompletionTokens,
			PredictedMs:         t.DecodeMs,
			PredictedPerSecond:  t.PredictedPerSecond,
			PredictedPerTokenMs: each(t.DecodeMs, u.CompletionTokens),
		},
	}
	if word := s.answer.Choices[0].Text.StoppedBy(); word != "" {
		end.StopType, end.StoppingWord = "word", word
	} else if s.finish != parley.FinishStop {
		end.StopType = "limit"
	}
	return Gap{
		Tokens:          []parley.Token{},
		Stop:            true,
		TokensPredicted: u.CompletionTokens,
		TokensEvaluated: u.PromptTokens,
		GapEnd:          end,
	}
}
