package foreign

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"parley"
)

// ollamaBody writes q for Ollama's /api/generate, which takes and gives text.
// The prompt is rendered already, so it is sent raw.
func ollamaBody(e *Engine, q *parley.Request) (any, error) {
	o := map[string]any{"temperature": q.Sampling.Temperature, "num_predict": -1, "top_k": 0, "top_p": 1,
		"repeat_penalty": 1}
	if q.MaxTokens > 0 {
		o["num_predict"] = q.MaxTokens
	}
	if e.Configured > 0 {
		o["num_ctx"] = e.Configured
	}
	putSampling(o, &q.Sampling, "repeat_penalty")
	if q.Sampling.Temperature > 0 {
		o["seed"] = int64(q.Sampling.Seed & math.MaxInt32)
	}
	if len(q.Stop.Strings) > 0 {
		o["stop"] = q.Stop.Strings
	}
	b := map[string]any{"model": e.Name, "prompt": e.Text(q.Model, q.Prompt), "raw": true,
		"stream": true, "options": o}
	if q.Grammar != nil {
		_, value, err := written(q.Grammar, "", "", "")
		b["format"] = value
		return b, err
	}
	return b, nil
}

// isCall reports whether the answer is a call in the form of [callSchema].
func (a *Assembly) isCall() bool {
	return a.q.Grammar != nil && a.q.Terms != nil && a.q.Terms.CallRequired
}

// An ollamaChunk is one line of /api/generate.
type ollamaChunk struct {
	Response        string `json:"response"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`
	PromptEval      int64  `json:"prompt_eval_duration"`
	Eval            int64  `json:"eval_duration"`
}

func readOllama(a *Assembly, message []byte) error {
	var chunk ollamaChunk
	if err := json.Unmarshal(message, &chunk); err != nil {
		return err
	}
	if _, err := a.choice(0); err != nil {
		return err
	}
	d := parley.Delta{Text: chunk.Response, Apart: a.q.Grammar != nil}
	if a.isCall() {
		a.call += chunk.Response
		d.Text = ""
	}
	if chunk.Done {
		d.Calls = readCall(a.call)
		var err error
		if d.Finish, err = finishOf(cmp.Or(chunk.DoneReason, "stop")); err != nil {
			return err
		}
		a.told = true
		a.usage = parley.Usage{PromptTokens: cmp.Or(chunk.PromptEvalCount, len(a.q.Prompt)),
			OutputTokens: chunk.EvalCount,
			Prefill:      time.Duration(chunk.PromptEval), Decode: time.Duration(chunk.Eval)}
	}
	a.add(0, d)
	return nil
}
