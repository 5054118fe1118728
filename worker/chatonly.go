package worker

import (
	"encoding/json"

	"parley"
)

// chatBody writes q for a server that has /v1/chat/completions alone. It renders
// the conversation itself, so that it is given as it was said.
func chatBody(r *Remote, q *parley.Request) (any, error) {
	messages := make([]map[string]string, len(q.Turns))
	for i, t := range q.Turns {
		messages[i] = map[string]string{"role": t.Role, "content": t.Text}
	}
	b := map[string]any{
		"model": r.theirName(q.Model), "messages": messages, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
		"temperature":    q.Sampling.Temperature, "n": max(1, q.Choices),
	}
	if q.MaxTokens > 0 {
		b["max_tokens"] = q.MaxTokens
	}
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
	if q.Grammar != nil {
		b["response_format"] = responseFormat(q.Grammar)
	}
	return b, nil
}

// responseFormat writes a grammar as OpenAI's API has it.
func responseFormat(g *parley.Grammar) map[string]any {
	if g.Kind == parley.GrammarObject {
		return map[string]any{"type": "json_object"}
	}
	return map[string]any{"type": "json_schema",
		"json_schema": map[string]any{"name": "answer", "schema": g.Schema, "strict": true}}
}

// readChat reads one event of /v1/chat/completions. Reasoning that the engine
// sends separately is not part of the answer.
func readChat(a *assembly, message []byte) error {
	var chunk struct {
		Choices []struct {
			Index        int                      `json:"index"`
			Delta        struct{ Content string } `json:"delta"`
			FinishReason string                   `json:"finish_reason"`
		} `json:"choices"`
		Usage *completionUsage `json:"usage"`
	}
	if err := json.Unmarshal(message, &chunk); err != nil {
		return err
	}
	a.use(chunk.Usage)
	for _, c := range chunk.Choices {
		if _, err := a.choice(c.Index); err != nil {
			return err
		}
		finish, err := finishOf(c.FinishReason)
		if err != nil {
			return err
		}
		a.add(c.Index, parley.Delta{Text: c.Delta.Content, Finish: finish})
	}
	return nil
}
