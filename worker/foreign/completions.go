package foreign

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"parley"
)

// completionsBody writes q for /v1/completions. vLLM is asked for ids and takes
// some fields that OpenAI's API does not have; other servers are sent them only
// where they matter.
func completionsBody(e *Engine, q *parley.Request) (any, error) { return completions(e, q, false) }

// textCompletionsBody is completionsBody for servers that take text alone.
func textCompletionsBody(e *Engine, q *parley.Request) (any, error) { return completions(e, q, true) }

func completions(e *Engine, q *parley.Request, asText bool) (any, error) {
	b := map[string]any{
		"model": e.Name, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"temperature": q.Sampling.Temperature, "n": max(1, q.Choices), "return_token_ids": true,
	}
	e.putLength(b, "max_tokens", q)
	putSampling(b, &q.Sampling, "repetition_penalty")
	if q.Sampling.Temperature > 0 {
		b["seed"] = int64(q.Sampling.Seed & (1<<63 - 1))
	}
	if len(q.Sampling.LogitBias) > 0 {
		b["logit_bias"] = q.Sampling.LogitBias
	}
	if len(q.Stop.Strings) > 0 {
		b["stop"] = q.Stop.Strings
	}
	if asText {
		b["prompt"] = e.Text(q.Model, q.Prompt)
		delete(b, "return_token_ids") // some servers refuse what they do not know
		return b, nil
	}
	b["prompt"] = q.Prompt
	b["request_id"] = q.ID
	if q.Logprobs {
		b["logprobs"], b["return_tokens_as_token_ids"] = q.TopLogprobs, true
	}
	if len(q.Stop.Tokens) > 0 {
		b["stop_token_ids"] = q.Stop.Tokens
	}
	if q.Stop.IgnoreEnd {
		b["ignore_eos"] = true
	}
	if q.Salt != (parley.Salt{}) {
		b["cache_salt"] = hex.EncodeToString(q.Salt[:])
	}
	if q.Grammar != nil {
		name, value, err := written(q.Grammar, "json", "regex", "grammar")
		b["structured_outputs"] = map[string]any{name: value}
		return b, err
	}
	return b, nil
}

// A completionChunk is one event of /v1/completions.
type completionChunk struct {
	Choices []struct {
		Index    int            `json:"index"`
		Text     string         `json:"text"`
		TokenIDs []parley.Token `json:"token_ids"`
		Logprobs *struct {
			Tokens        []string             `json:"tokens"`
			TokenLogprobs []float32            `json:"token_logprobs"`
			TopLogprobs   []map[string]float32 `json:"top_logprobs"`
		} `json:"logprobs"`
		FinishReason string          `json:"finish_reason"`
		StopReason   json.RawMessage `json:"stop_reason"`
	} `json:"choices"`
	Usage *completionUsage `json:"usage"`
}

// A completionUsage is what OpenAI's API reports at the end.
type completionUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Output struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// use takes the usage, if it was told.
func (a *Assembly) use(u *completionUsage) {
	if u != nil {
		a.told = true
		a.usage.PromptTokens, a.usage.CachedTokens = u.PromptTokens, u.Details.CachedTokens
		a.usage.OutputTokens = u.CompletionTokens
		if !a.service.thoughts {
			a.service.hiddenTokens = u.Output.ReasoningTokens
		}
	}
}

func readCompletion(a *Assembly, message []byte) error {
	var chunk completionChunk
	if err := json.Unmarshal(message, &chunk); err != nil {
		return err
	}
	a.use(chunk.Usage)
	for i := range chunk.Choices {
		c := &chunk.Choices[i]
		if _, err := a.choice(c.Index); err != nil {
			return err
		}
		finish, err := finishOf(c.FinishReason)
		if err != nil {
			return err
		}
		d := parley.Delta{Tokens: c.TokenIDs, Finish: finish}
		_ = json.Unmarshal(c.StopReason, &d.StopString) // a number is a token
		if len(c.TokenIDs) == 0 {
			d.Text = c.Text
		} else if l := c.Logprobs; a.q.Logprobs && l != nil {
			if d.Logprobs, err = logprobsOf(c.TokenIDs, l.TokenLogprobs, l.TopLogprobs, a.q.TopLogprobs); err != nil {
				return err
			}
		}
		a.add(c.Index, d)
	}
	return nil
}

// logprobsOf pairs tokens with their log-probabilities; alternatives are named
// "token_id:123".
func logprobsOf(ids []parley.Token, own []float32, top []map[string]float32, most int) ([]parley.Logprob, error) {
	if len(own) != len(ids) || len(top) > 0 && len(top) != len(ids) {
		return nil, errLogprobs
	}
	out := make([]parley.Logprob, len(ids))
	for i, id := range ids {
		out[i] = parley.Logprob{Token: id, Logprob: own[i]}
		if len(top) == 0 {
			continue
		}
		for name, value := range top[i] {
			number, err := strconv.ParseInt(strings.TrimPrefix(name, "token_id:"), 10, 32)
			if err != nil {
				return nil, errLogprobs
			}
			out[i].Top = append(out[i].Top, parley.TopLogprob{Token: parley.Token(number), Logprob: value})
		}
		out[i].Top = best(out[i].Top, most)
	}
	return out, nil
}
