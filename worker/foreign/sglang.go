package foreign

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"parley"
)

// sglangBody writes q for SGLang's own /generate, which takes and gives ids.
func sglangBody(e *Engine, q *parley.Request) (any, error) {
	s := map[string]any{"temperature": q.Sampling.Temperature, "n": max(1, q.Choices), "skip_special_tokens": false,
		"no_stop_trim": true}
	e.putLength(s, "max_new_tokens", q)
	if s["max_new_tokens"] == nil {
		s["max_new_tokens"] = math.MaxInt32 // it takes what the context leaves
	}
	putSampling(s, &q.Sampling, "repetition_penalty")
	if q.Sampling.Temperature > 0 {
		s["sampling_seed"] = int64(q.Sampling.Seed & math.MaxInt32)
	}
	if len(q.Sampling.LogitBias) > 0 {
		s["logit_bias"] = q.Sampling.LogitBias
	}
	if len(q.Stop.Strings) > 0 {
		s["stop"] = q.Stop.Strings
	}
	if len(q.Stop.Tokens) > 0 {
		s["stop_token_ids"] = q.Stop.Tokens
	}
	if q.Stop.IgnoreEnd {
		s["ignore_eos"] = true
	}
	if q.Grammar != nil {
		name, value, err := written(q.Grammar, "json_schema", "regex", "ebnf")
		if err != nil {
			return nil, err
		}
		if schema, ok := value.(json.RawMessage); ok {
			value = string(schema)
		}
		s[name] = value
	}
	b := map[string]any{"input_ids": q.Prompt, "sampling_params": s, "stream": true}
	if q.Logprobs {
		b["return_logprob"], b["top_logprobs_num"] = true, q.TopLogprobs
	}
	if q.Salt != (parley.Salt{}) {
		b["cache_salt"] = hex.EncodeToString(q.Salt[:])
	}
	return b, nil
}

// A sglangChunk is one event of /generate. Unless the server was told
// otherwise, ids and log-probabilities are all there were so far.
type sglangChunk struct {
	Index     int            `json:"index"`
	OutputIDs []parley.Token `json:"output_ids"`
	Meta      sglangMeta     `json:"meta_info"`
}

type sglangMeta struct {
	PromptTokens        int            `json:"prompt_tokens"`
	CompletionTokens    int            `json:"completion_tokens"`
	CachedTokens        int            `json:"cached_tokens"`
	OutputTokenLogprobs []sglangProb   `json:"output_token_logprobs"`
	OutputTopLogprobs   [][]sglangProb `json:"output_top_logprobs"`
	FinishReason        *struct {
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Matched json.RawMessage `json:"matched"`
	} `json:"finish_reason"`
}

// logprobs returns those of the latest tokens.
func (m *sglangMeta) logprobs(of []parley.Token, most int) (out []parley.Logprob, err error) {
	n := len(of)
	if len(m.OutputTokenLogprobs) < n || most > 0 && len(m.OutputTopLogprobs) < n {
		return nil, errLogprobs
	}
	for i, p := range latest(m.OutputTokenLogprobs, n) {
		if p.token != of[i] {
			return nil, errLogprobs
		}
		l := parley.Logprob{Token: p.token, Logprob: p.value}
		if most > 0 {
			for _, t := range latest(m.OutputTopLogprobs, n)[i] {
				l.Top = append(l.Top, parley.TopLogprob{Token: t.token, Logprob: t.value})
			}
			l.Top = best(l.Top, most)
		}
		out = append(out, l)
	}
	return out, nil
}

// A sglangProb is [log-probability, token, text or null].
type sglangProb struct {
	value float32
	token parley.Token
}

// UnmarshalJSON reads the triple.
func (p *sglangProb) UnmarshalJSON(text []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) < 2 {
		return errLogprobs
	}
	return errors.Join(json.Unmarshal(parts[0], &p.value), json.Unmarshal(parts[1], &p.token))
}

func readSGLang(a *Assembly, message []byte) error {
	var chunk sglangChunk
	if err := json.Unmarshal(message, &chunk); err != nil {
		return err
	}
	c, err := a.choice(chunk.Index)
	if err != nil {
		return err
	}
	m := &chunk.Meta
	fresh := m.CompletionTokens - c.tokens
	if fresh < 0 || fresh > len(chunk.OutputIDs) {
		return errors.New("ids are missing")
	}
	d := parley.Delta{Tokens: slices.Clone(latest(chunk.OutputIDs, fresh))}
	if a.q.Logprobs {
		if d.Logprobs, err = m.logprobs(d.Tokens, a.q.TopLogprobs); err != nil {
			return err
		}
	}
	if f := m.FinishReason; f != nil {
		if d.Finish, err = finishOf(f.Type); err != nil {
			return errors.New(cmp.Or(f.Message, err.Error()))
		}
		_ = json.Unmarshal(f.Matched, &d.StopString) // a number is a token
		a.told = true
		a.usage.PromptTokens, a.usage.CachedTokens = m.PromptTokens, max(a.usage.CachedTokens, m.CachedTokens)
		a.usage.OutputTokens += m.CompletionTokens
	}
	a.add(chunk.Index, d)
	return nil
}

// latest returns the last n of a list.
func latest[T any](list []T, n int) []T { return list[len(list)-n:] }
