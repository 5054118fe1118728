package openai

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
)

// Bounds of a request that do not depend on the model.
const (
	// ChoicesMax bounds the continuations of one request, over all prompts.
	ChoicesMax = 128
	// stopStringsMax and stopBytesMax are our bounds, as a stop string is compared with
	// every token. OpenAI's API takes 4 strings; editors send more to other servers.
	stopStringsMax = 64
	stopBytesMax   = 1024
	stopTokensMax  = 64
	tokensMax      = math.MaxInt32
)

// topPNothing stands for top_p 0, which keeps the single most probable token.
// A [parley.Sampling] reads 0 as "keep all".
const topPNothing = 1e-6

// A Generation is what chat and plain completions have in common: how to
// choose tokens, when to stop and how to answer.
type Generation struct {
	// Model is the name the client asked for; empty if it named none.
	Model string
	// Choices is n, at least 1.
	Choices int
	Length
	// Sampling is complete but for the seed of a request that gave none.
	Sampling parley.Sampling
	// Seeded is true if the client chose the seed.
	Seeded bool
	Stop   parley.Stop
	Extensions
	Caching
	Listing
	// Format is what the text of the answer must be.
	Format Format
	Delivery

	unknowns
}

// A Length bounds the tokens of each answer.
type Length struct {
	// MaxTokens bounds each answer, and MaxTokensParam names the field that
	// said so, empty if none did.
	MaxTokens      int
	MaxTokensParam string
	// CutToFit says that the field is an upper bound in its API: more than fits the
	// context is cut to what does, as long as that is worth an answer.
	CutToFit bool
}

// Extensions are what only Parley's API has.
type Extensions struct {
	// Sinks is attention_sink_tokens: how many of the first tokens stay in view when
	// the text outgrows the context, 0 to refuse that.
	Sinks int
	// FinishJSON is parley.finish_json: an answer under a grammar is complete when its
	// tokens run out.
	FinishJSON bool
}

// Caching says what the prompt shares with other requests.
type Caching struct {
	// Retain is how long the prompt should stay in memory for the next request.
	Retain time.Duration
	// CacheSalt is cache_salt, as vLLM and SGLang have it: the prompt shares what is
	// cached only with requests of its tenant that have the same; empty for no such bound.
	CacheSalt string
	// Session names the requests that continue each other: those of a conversation,
	// else with one prompt_cache_key, else of one user whom the client names; empty if
	// nothing was named.
	Session string
	// Application is the program that asks, by application in the client's metadata; empty if it names none.
	Application string
}

// A Listing asks for the log-probability of each token and for a number of alternatives.
type Listing struct {
	Logprobs    bool
	TopLogprobs int
}

// Delivery says how the answer is sent.
type Delivery struct {
	// Stream asks for events instead of one document, IncludeUsage for a last
	// event that carries the usage.
	Stream, IncludeUsage bool
	// CountUsage asks for the tokens so far in every event, as vLLM's clients do.
	CountUsage bool
	// ServiceTier is what the client asked for; an answer names the tier used.
	ServiceTier string
}

// unknowns are tokens that wait for the vocabulary.
type unknowns struct {
	biased []biasedToken
	ended  []value
}

// A biasedToken is a logit_bias entry that waits for the vocabulary.
type biasedToken struct {
	at    value
	token int64
	bias  float32
}

// readGeneration takes the common members of f.
func readGeneration(f *fields) Generation {
	g := Generation{Choices: 1, Sampling: parley.Sampling{Temperature: 1, TopP: 1}}
	f.text("model", &g.Model)
	f.integer("n", 1, ChoicesMax, &g.Choices)
	g.readSampling(f)
	g.readStop(f)
	g.Format.readGuided(f)
	f.flag("stream", &g.Stream)
	f.with("stream_options", func(v value) error { return g.readStreamOptions(v) })
	f.text("service_tier", &g.ServiceTier)
	g.readCache(f)
	return g
}

func (g *Generation) readSampling(f *fields) {
	s := &g.Sampling
	f.decimal("temperature", 0, 2, &s.Temperature)
	f.decimal("top_p", 0, 1, &s.TopP)
	if s.TopP < topPNothing {
		s.TopP = topPNothing
	}
	f.decimal("presence_penalty", -2, 2, &s.PresencePenalty)
	f.decimal("frequency_penalty", -2, 2, &s.FrequencyPenalty)
	f.with("top_k", func(v value) error {
		k, err := v.integerIn(-1, tokensMax)
		s.TopK = int(max(k, 0)) // -1 is how other servers spell "all"
		return err
	})
	f.decimal("min_p", 0, 1, &s.MinP)
	f.decimal("repetition_penalty", 0.01, 10, &s.RepetitionPenalty)
	f.with("seed", func(v value) error {
		seed, err := v.integer()
		s.Seed, g.Seeded = uint64(seed), true
		return err
	})
	f.with("logit_bias", g.readLogitBias)
}

func (g *Generation) readLogitBias(v value) error {
	if !v.isObject() {
		return v.wrongType("an object")
	}
	for key, member := range v.members() {
		token, err := strconv.ParseInt(key, 10, 32)
		if err != nil || token < 0 {
			return member.invalid("invalid_value", "the names of logit_bias are token ids, such as \"50256\".")
		}
		if len(g.biased) == membersMax {
			return v.invalid("invalid_value", "more than %d tokens.", membersMax)
		}
		bias, err := member.decimalIn(-100, 100)
		if err != nil {
			return err
		}
		g.biased = append(g.biased, biasedToken{member, token, float32(bias)})
	}
	return nil
}

func (g *Generation) readStop(f *fields) {
	f.with("stop", g.readStopStrings)
	f.with("stop_token_ids", g.readStopTokens)
	f.flag("ignore_eos", &g.Stop.IgnoreEnd)
	f.integer("attention_sink_tokens", 0, tokensMax, &g.Sinks)
	f.object("parley", func(f *fields) { f.flag("finish_json", &g.FinishJSON) })
}

func (g *Generation) readStopStrings(v value) error {
	if v.isString() {
		return g.addStop(v)
	}
	if !v.isArray() {
		return v.wrongType("a string or an array of strings")
	}
	for i, element := range v.elements() {
		if i == stopStringsMax {
			return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
				stopStringsMax)
		}
		if err := g.addStop(element); err != nil {
			return err
		}
	}
	return nil
}

func (g *Generation) addStop(v value) error {
	s, err := v.text()
	switch {
	case err != nil:
		return err
	case s == "":
		return v.invalid("empty_string", "empty string. A stop string has at least one character.")
	case len(s) > stopBytesMax:
		return v.invalid("string_above_max_length", "string too long. Expected at most %d bytes, but got %d.",
			stopBytesMax, len(s))
	}
	g.Stop.Strings = append(g.Stop.Strings, s)
	return nil
}

func (g *Generation) readStopTokens(v value) error {
	if !v.isArray() {
		return v.wrongType("an array of integers")
	}
	for i, element := range v.elements() {
		if i == stopTokensMax {
			return v.invalid("array_above_max_length", "array too long. Expected an array with maximum length %d.",
				stopTokensMax)
		}
		token, err := element.integerIn(0, tokensMax)
		if err != nil {
			return err
		}
		g.Stop.Tokens = append(g.Stop.Tokens, parley.Token(token))
		g.ended = append(g.ended, element)
	}
	return nil
}

func (g *Generation) readStreamOptions(v value) error {
	if !g.Stream {
		return withCode("invalid_value",
			parley.Invalid(v.path(), "The '%s' parameter is only allowed when 'stream' is true.", v.path()))
	}
	options := v.fields()
	options.flag("include_usage", &g.IncludeUsage)
	options.flag("continuous_usage_stats", &g.CountUsage)
	return options.err
}

// CheckVocab refuses token ids that a vocabulary of size entries does not
// have, and completes the sampling with the biases that it does.
func (g *Generation) CheckVocab(size int) error {
	for i, token := range g.Stop.Tokens {
		if int(token) >= size {
			return outsideVocab(&g.ended[i], int64(token), size)
		}
	}
	if len(g.biased) > 0 {
		g.Sampling.LogitBias = make(map[parley.Token]float32, len(g.biased))
	}
	for _, b := range g.biased {
		if b.token >= int64(size) {
			return outsideVocab(&b.at, b.token, size)
		}
		g.Sampling.LogitBias[parley.Token(b.token)] = b.bias
	}
	g.biased, g.ended = nil, nil // they keep the body in memory
	return nil
}

func outsideVocab(at *value, token int64, size int) error {
	return at.invalid("invalid_value", "token id %d is outside the model's vocabulary of %d tokens.", token, size)
}

// oneOf takes a string that must be one of a few.
func (f *fields) oneOf(name string, into *string, allowed ...string) {
	f.with(name, func(v value) error {
		s, err := v.text()
		if err != nil {
			return err
		}
		if slices.Contains(allowed, s) {
			*into = s
			return nil
		}
		return v.invalid("invalid_value", "'%s'. Supported values are: %s.", shorten(s), quotedList(allowed))
	})
}

func quotedList(words []string) string {
	return "'" + strings.Join(words, "', '") + "'"
}
