package openai

import (
	"slices"

	"parley"
)

// promptsMax is bounded by the choices that come of the prompts.
const promptsMax = ChoicesMax

// completionTokensDefault is the interface's own default for max_tokens.
const completionTokensDefault = 16

// A CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Generation
	// Prompts has at least one entry. Each gives Choices continuations, and
	// both together give at most [ChoicesMax].
	Prompts []Prompt
	// Echo puts the prompt before its continuation.
	Echo bool
	// Gap is what stands after the prompts, whose gap is to be filled; nil if
	// they are to be continued.
	Gap *Gap
	// BestOf is how many continuations are computed for each prompt, of which
	// the Choices most probable ones are returned.
	BestOf int
}

// A Prompt is a text or, if IsTokens is true, a list of token ids.
type Prompt struct {
	Text     string
	Tokens   []parley.Token
	IsTokens bool
	// Param is the path of the prompt in the body.
	Param string
}

// ParseCompletion reads the body of a plain completion. An error is always a
// [parley.Error] that names the field at fault.
func ParseCompletion(body []byte) (*CompletionRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &CompletionRequest{Generation: readGeneration(f)}
	r.Prompts = readPrompts(f, "prompt", promptsMax)
	f.flag("echo", &r.Echo)
	f.with("add_special_tokens", refuseUnless("true"))
	r.Format.readResponseFormat(f)
	if r.Gap = readGap(f); r.Gap != nil && r.Echo {
		suffix, _ := f.take("suffix")
		f.fail(suffix.invalid("invalid_value", "a gap to fill cannot be combined with 'echo'."))
	}
	r.readMaxTokens(f)
	f.with("logprobs", r.readLogprobs)
	r.readBestOf(f)
	if f.err != nil {
		return nil, f.err
	}
	r.endWithLine(r.Gap)
	return r, nil
}

// readLogprobs takes a number of alternatives, 0 included: the chosen token's
// own log-probability is always wanted. Some clients send false for none.
func (r *CompletionRequest) readLogprobs(v value) error {
	if wanted, err := v.flag(); err == nil && !wanted {
		return nil
	}
	n, err := v.integerIn(0, 5)
	r.Logprobs, r.TopLogprobs = true, int(n)
	return err
}

func (r *CompletionRequest) readMaxTokens(f *fields) {
	r.MaxTokens = completionTokensDefault
	v, ok := f.take("max_tokens")
	if !ok {
		return
	}
	r.MaxTokensParam = "max_tokens"
	f.integer("max_tokens", 0, tokensMax, &r.MaxTokens)
	if r.MaxTokens == 0 && !r.Echo {
		f.fail(v.invalid("integer_below_min_value", "0 is only allowed when 'echo' is true. Expected a value >= 1."))
	}
}

func (r *CompletionRequest) readBestOf(f *fields) {
	r.BestOf = r.Choices
	if v, ok := f.take("best_of"); ok {
		f.integer("best_of", 1, 20, &r.BestOf)
		switch {
		case r.BestOf < r.Choices:
			f.fail(v.invalid("invalid_value", "best_of %d is less than n %d.", r.BestOf, r.Choices))
		case r.BestOf > r.Choices && r.Stream:
			f.fail(v.invalid("invalid_value", "best_of cannot be streamed when it is more than n."))
		}
	}
	if total := len(r.Prompts) * r.BestOf; total > ChoicesMax {
		f.fail(withCode("invalid_value", parley.Invalid("n",
			"Invalid 'n': %d prompts with %d choices each make %d choices, more than the %d allowed.",
			len(r.Prompts), r.BestOf, total, ChoicesMax)))
	}
}

// readPrompts takes the member called name: a text, a list of token ids, or a
// list of at most most of them.
func readPrompts(f *fields, name string, most int) (list []Prompt) {
	v, ok := f.take(name)
	if !ok {
		f.fail(f.missing(name))
		return nil
	}
	if v.isString() {
		return []Prompt{{Text: unquote(v.raw), Param: name}}
	}
	if !v.isArray() {
		f.fail(v.wrongType("a string, an array of strings or an array of token ids"))
		return nil
	}
	list, err := readPromptArray(v, most)
	f.fail(err)
	return list
}

// readPromptArray takes a list of token ids as one prompt, and a list of
// anything else as one prompt for each element.
func readPromptArray(v value, most int) (list []Prompt, err error) {
	for i, element := range v.elements() {
		if i == 0 && element.isNumber() {
			prompt, err := readTokens(v)
			return []Prompt{prompt}, err
		}
		if i == most {
			return nil, v.invalid("array_above_max_length", "array too long. Expected at most %d %ss.", most, v.key)
		}
		prompt, err := readPrompt(element)
		if err != nil {
			return nil, err
		}
		list = append(list, prompt)
	}
	if len(list) == 0 {
		return nil, v.invalid("empty_array", "empty array. Expected at least one %s.", v.key)
	}
	return list, nil
}

func readPrompt(v value) (Prompt, error) {
	switch {
	case v.isString():
		return Prompt{Text: unquote(v.raw), Param: v.path()}, nil
	case v.isArray():
		return readTokens(v)
	}
	return Prompt{}, v.wrongType("a string or an array of token ids")
}

func readTokens(v value) (Prompt, error) {
	p := Prompt{IsTokens: true, Param: v.path()}
	for _, element := range v.elements() {
		id, err := element.integerIn(0, tokensMax)
		if err != nil {
			return Prompt{}, err
		}
		p.Tokens = append(p.Tokens, parley.Token(id))
	}
	if len(p.Tokens) == 0 {
		return Prompt{}, v.invalid("empty_array", "empty array. Expected at least one token id.")
	}
	return p, nil
}

// CheckVocab refuses token ids that a vocabulary of size entries does not have.
func (r *CompletionRequest) CheckVocab(size int) error {
	prompts := r.Prompts
	if r.Gap != nil {
		prompts = append(slices.Clone(prompts), r.Gap.After)
	}
	if err := checkPrompts(prompts, size); err != nil {
		return err
	}
	return r.Generation.CheckVocab(size)
}

func checkPrompts(list []Prompt, size int) error {
	for _, p := range list {
		for _, token := range p.Tokens {
			if int(token) >= size {
				return withCode("invalid_value", parley.Invalid(p.Param,
					"Invalid '%s': token id %d is outside the model's vocabulary of %d tokens.", p.Param, token, size))
			}
		}
	}
	return nil
}
