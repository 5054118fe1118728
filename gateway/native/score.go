package native

import (
	"encoding/json"
	"fmt"
	"net/http"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/openai"
)

// A ScoreRequest is the body of POST /v1/score, in vLLM's shape: one text against one or
// several, or as many against as many.
type ScoreRequest struct {
	Model string          `json:"model"`
	Text1 json.RawMessage `json:"text_1"`
	Text2 json.RawMessage `json:"text_2"`

	first, second []openai.Prompt
}

// scoredMax bounds the texts of one request.
const scoredMax = 2048

// A ScoreList is the answer of POST /v1/score.
type ScoreList struct {
	ID      string                `json:"id"`
	Object  string                `json:"object"`
	Created int64                 `json:"created"`
	Model   string                `json:"model"`
	Data    []Score               `json:"data"`
	Usage   openai.EmbeddingUsage `json:"usage"`
}

// A Score says how near two texts are: the cosine of the angle between their embeddings.
type Score struct {
	Index  int     `json:"index"`
	Object string  `json:"object"`
	Score  float64 `json:"score"`
}

func parseScore(body []byte) (r ScoreRequest, err error) {
	if err = exchange.Decode(body, &r); err != nil {
		return r, err
	}
	if r.first, err = texts("text_1", r.Text1); err != nil {
		return r, err
	}
	if r.second, err = texts("text_2", r.Text2); err != nil {
		return r, err
	}
	if len(r.first) != 1 && len(r.first) != len(r.second) {
		return r, parley.Invalid("text_1", "Invalid 'text_1': %d texts, but 'text_2' has %d. Send one, or as many.",
			len(r.first), len(r.second))
	}
	return r, nil
}

// texts reads a text or a list of them.
func texts(param string, raw json.RawMessage) (list []openai.Prompt, err error) {
	var one string
	many := []string{}
	switch {
	case len(raw) == 0:
		return nil, parley.Invalid(param, "Missing required parameter: '%s'.", param)
	case json.Unmarshal(raw, &one) == nil:
		return []openai.Prompt{{Text: one, Param: param}}, nil
	case json.Unmarshal(raw, &many) != nil || len(many) == 0 || len(many) > scoredMax:
		return nil, parley.Invalid(param, "Invalid '%s': expected a text, or a list of 1 to %d texts.", param,
			scoredMax)
	}
	for i, text := range many {
		list = append(list, openai.Prompt{Text: text, Param: fmt.Sprintf("%s[%d]", param, i)})
	}
	return list, nil
}

// Compare answers POST /v1/score.
func Compare(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, parseScore)
	if err != nil {
		return err
	}
	m, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	firsts := len(request.first)
	vectors, err := embed(x, j, m, "text_1", append(request.first, request.second...))
	if err != nil {
		return err
	}
	tokens := x.Record.PromptTokens()
	list := ScoreList{
		ID:      "score-" + x.Suffix,
		Object:  "list",
		Created: x.Record.Started.Unix(),
		Model:   m.ID,
		Data:    []Score{},
		Usage:   openai.EmbeddingUsage{PromptTokens: tokens, TotalTokens: tokens},
	}
	for i := range request.second {
		list.Data = append(list.Data,
			Score{Index: i, Object: "score", Score: cosine(vectors[min(i, firsts-1)], vectors[firsts+i])})
	}
	return x.Reply(http.StatusOK, list)
}
