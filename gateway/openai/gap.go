package openai

import (
	"cmp"

	"parley"
)

const (
	// gapTokensDefault is how many tokens fill a gap unless the client says
	// otherwise: a few lines.
	gapTokensDefault = 128
	// gapTemperatureDefault is lower than that of conversations, as code has
	// fewer ways to be right.
	gapTemperatureDefault = 0.2
	sessionBytesMax       = 256
)

// A Gap is what a request says of a text whose middle is to be filled in,
// beside the text before the gap.
type Gap struct {
	// After is the text after the gap.
	After Prompt
	// AfterFirst is suffix_first, an extension: whether the model reads the text
	// after the gap first, so that typing extends what it has read. Nil leaves it
	// to what the model was trained with.
	AfterFirst *bool
	// SingleLine is single_line, an extension: the answer ends with its line.
	SingleLine bool
	// Session is prompt_cache_key or else user: of the requests of one session
	// the newest counts. It is empty if the client gave neither.
	Session string
}

// A FIMRequest is the body of POST /v1/fim/completions.
type FIMRequest struct {
	Generation
	// Before is the text before the gap, or to continue if Gap is nil.
	Before Prompt
	Gap    *Gap
}

// ParseFIM reads the body of a fill-in-the-middle completion. An error is
// always a [parley.Error] that names the field at fault.
func ParseFIM(body []byte) (*FIMRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &FIMRequest{Generation: readGeneration(f)}
	if _, ok := f.take("temperature"); !ok {
		r.Sampling.Temperature = gapTemperatureDefault
	}
	f.with("random_seed", func(v value) error {
		seed, err := v.integer()
		r.Sampling.Seed, r.Seeded = uint64(seed), true
		return err
	})
	if v, ok := f.take("prompt"); ok {
		r.Before, err = readPrompt(v)
		f.fail(err)
	} else {
		f.fail(f.missing("prompt"))
	}
	r.Gap = readGap(f)
	r.MaxTokens = gapTokensDefault
	if _, ok := f.take("max_tokens"); ok {
		f.integer("max_tokens", 1, tokensMax, &r.MaxTokens)
		r.MaxTokensParam = "max_tokens"
	}
	if f.err != nil {
		return nil, f.err
	}
	r.endWithLine(r.Gap)
	return r, nil
}

// readGap takes the suffix and what belongs to it, or nothing if there is none.
func readGap(f *fields) *Gap {
	v, ok := f.take("suffix")
	if !ok || v.isString() && unquote(v.raw) == "" {
		return nil
	}
	gap := &Gap{}
	var err error
	gap.After, err = readPrompt(v)
	f.fail(err)
	f.with("suffix_first", func(v value) error {
		first, err := v.flag()
		gap.AfterFirst = &first
		return err
	})
	f.flag("single_line", &gap.SingleLine)
	key, user := "", ""
	f.text("prompt_cache_key", &key)
	f.text("user", &user)
	gap.Session = cmp.Or(key, user)
	if len(gap.Session) > sessionBytesMax {
		gap.Session = gap.Session[:sessionBytesMax]
	}
	return gap
}

// endWithLine makes the end of the line the end of the answer, if that is wanted.
func (g *Generation) endWithLine(gap *Gap) {
	if gap != nil && gap.SingleLine {
		g.Stop.Strings = append(g.Stop.Strings, "\n")
	}
}

// CheckVocab refuses token ids that a vocabulary of size entries does not have.
func (r *FIMRequest) CheckVocab(size int) error {
	prompts := []Prompt{r.Before}
	if r.Gap != nil {
		prompts = append(prompts, r.Gap.After)
	}
	if err := checkPrompts(prompts, size); err != nil {
		return err
	}
	return r.Generation.CheckVocab(size)
}

// SuffixUnsupported is the error for a gap to fill by a model that cannot.
func SuffixUnsupported(model string) error {
	return withCode("unsupported_parameter", parley.Invalid("suffix",
		"Unsupported parameter: 'suffix': the model `%s` has no fill-in-the-middle tokens.", model))
}

// Superseded is the error for a request whose session has sent a newer one.
// Clients do not try it again.
func Superseded() error {
	return withCode("superseded",
		parley.Errorf(parley.Cancelled, "A newer request of the same session replaced this one."))
}
