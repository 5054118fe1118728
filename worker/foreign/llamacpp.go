package foreign

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"parley"
)

// llamaBody writes q for llama-server's own /completion, which takes and gives
// ids. Its samplers are asked for in the order that ours have, and no others.
func llamaBody(e *Engine, q *parley.Request) (any, error) {
	b := map[string]any{
		"prompt": q.Prompt, "stream": true, "return_tokens": true, "cache_prompt": true, "n_predict": -1,
		"n_cmpl":      max(1, q.Choices),
		"temperature": q.Sampling.Temperature,
		"samplers":    []string{"penalties", "top_k", "top_p", "min_p", "temperature"},
		"top_k":       0, "top_p": 1, "min_p": 0, "repeat_penalty": 1,
		// All that was said counts; newer servers refuse -1 for that.
		"repeat_last_n": cmp.Or(e.ContextTokens, len(q.Prompt)+q.MaxTokens),
	}
	if name := e.Name; name != "" {
		b["model"] = name
	}
	if q.MaxTokens > 0 {
		b["n_predict"] = q.MaxTokens
	}
	putSampling(b, &q.Sampling, "repeat_penalty")
	if q.Sampling.Temperature > 0 {
		b["seed"] = uint32(q.Sampling.Seed ^ q.Sampling.Seed>>32)
	}
	if len(q.Sampling.LogitBias) > 0 {
		var bias [][2]any
		for _, t := range slices.Sorted(maps.Keys(q.Sampling.LogitBias)) {
			bias = append(bias, [2]any{t, q.Sampling.LogitBias[t]})
		}
		b["logit_bias"] = bias
	}
	if len(q.Stop.Strings) > 0 {
		b["stop"] = q.Stop.Strings
	}
	if q.Stop.IgnoreEnd {
		b["ignore_eos"] = true
	}
	if q.Logprobs {
		b["n_probs"] = max(1, q.TopLogprobs)
	}
	if q.Grammar != nil {
		name, value, err := written(q.Grammar, "json_schema", "", "grammar")
		b[name] = value
		return b, err
	}
	return b, nil
}

// A llamaChunk is one event of /completion.
type llamaChunk struct {
	Index         int            `json:"index"`
	Content       string         `json:"content"`
	Tokens        []parley.Token `json:"tokens"`
	Predicted     int            `json:"tokens_predicted"`
	Evaluated     int            `json:"tokens_evaluated"`
	Stop          bool           `json:"stop"`
	StopType      string         `json:"stop_type"`
	StoppingWord  string         `json:"stopping_word"`
	Probabilities []struct {
		ID      parley.Token `json:"id"`
		Logprob float32      `json:"logprob"`
		Top     []struct {
			ID      parley.Token `json:"id"`
			Logprob float32      `json:"logprob"`
		} `json:"top_logprobs"`
	} `json:"completion_probabilities"`
	Timings struct {
		CacheN    int     `json:"cache_n"`
		PromptMS  float64 `json:"prompt_ms"`
		PredictMS float64 `json:"predicted_ms"`
	} `json:"timings"`
}

// readLlama takes an event. While a character is not complete, llama-server
// sends neither its tokens nor its text, and then the text and the last token:
// an answer with such a hole continues as text.
func readLlama(a *Assembly, message []byte) error {
	var chunk llamaChunk
	if err := json.Unmarshal(message, &chunk); err != nil {
		return err
	}
	if a.isCut(chunk.Index) {
		return nil
	}
	c, err := a.choice(chunk.Index)
	if err != nil {
		return err
	}
	var d parley.Delta
	if c.texts == 0 && (chunk.Stop || chunk.Predicted == c.tokens+len(chunk.Tokens)) {
		d.Tokens = chunk.Tokens
		for _, p := range chunk.Probabilities {
			l := parley.Logprob{Token: p.ID, Logprob: p.Logprob}
			for _, t := range p.Top {
				l.Top = append(l.Top, parley.TopLogprob{Token: t.ID, Logprob: t.Logprob})
			}
			l.Top = best(l.Top, a.q.TopLogprobs)
			d.Logprobs = append(d.Logprobs, l)
		}
		c.cut = a.cutAtStop(&d)
	} else {
		d.Text = chunk.Content
	}
	if chunk.Stop {
		if d.Finish, err = finishOf(cmp.Or(chunk.StopType, "stop")); err != nil {
			return err
		}
		d.StopString = chunk.StoppingWord
		a.countLlama(&chunk)
	}
	a.add(chunk.Index, d)
	return nil
}

func (a *Assembly) countLlama(chunk *llamaChunk) {
	a.told = true
	a.usage.PromptTokens, a.usage.CachedTokens = chunk.Evaluated, max(a.usage.CachedTokens, chunk.Timings.CacheN)
	a.usage.OutputTokens += chunk.Predicted
	a.usage.Prefill = max(a.usage.Prefill, milliseconds(chunk.Timings.PromptMS))
	a.usage.Decode = max(a.usage.Decode, milliseconds(chunk.Timings.PredictMS))
}

// isCut reports whether a choice was ended here, while the engine continues.
func (a *Assembly) isCut(index int) bool {
	return index >= 0 && index < len(a.choices) && a.choices[index].cut
}

// cutAtStop ends the choice at a token that should, which llama-server cannot
// be told, and reports whether it did.
func (a *Assembly) cutAtStop(d *parley.Delta) bool {
	for i, t := range d.Tokens {
		if slices.Contains(a.q.Stop.Tokens, t) {
			d.Tokens, d.Finish = d.Tokens[:i+1], parley.FinishStop
			d.Logprobs = d.Logprobs[:min(i+1, len(d.Logprobs))]
			return true
		}
	}
	return false
}
