package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/gateway/openai"
	"parley/internal/load"
)

// Handlers are called while an answer arrives.
type Handlers struct {
	// Text gets each piece of the answer; thought marks what the model thinks.
	Text func(text string, thought bool) error
	// Progress gets how far the answer is before its first piece; nil if that is
	// of no interest.
	Progress func(openai.Progress)
}

// A Question is the body of a chat request.
type Question struct {
	Model          string    `json:"model,omitempty"`
	Messages       []Message `json:"messages"`
	Stream         bool      `json:"stream"`
	StreamOptions  any       `json:"stream_options,omitempty"`
	ResponseFormat any       `json:"response_format,omitempty"`
	Progress       bool      `json:"return_progress,omitempty"`
	Template       any       `json:"chat_template_kwargs,omitempty"`
	Parameters
}

// A Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A Reply is what came of a question, as far as it came.
type Reply struct {
	Model   string          `json:"model"`
	Text    string          `json:"text"`
	Finish  string          `json:"finish_reason"`
	Usage   *openai.Usage   `json:"usage,omitempty"`
	Timings *openai.Timings `json:"timings,omitempty"`
	// FirstMs and TotalMs are as seen from here.
	FirstMs float64 `json:"first_ms"`
	TotalMs float64 `json:"total_ms"`
}

// A chunk is one event of an answer. Servers differ, so everything is optional.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage    *openai.Usage    `json:"usage"`
	Timings  *openai.Timings  `json:"timings"`
	Progress *openai.Progress `json:"prompt_progress"`
	Error    json.RawMessage  `json:"error"`
}

// ErrCut says that an answer broke off.
var ErrCut = errors.New("the connection to the server was lost mid-answer")

// Ask sends a question and passes the answer to the handlers as it arrives. The reply includes
// what arrived before an error.
func (c *Client) Ask(ctx context.Context, q Question, on Handlers) (r Reply, err error) {
	q.Stream, q.StreamOptions = true, map[string]bool{"include_usage": true}
	body, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	started := time.Now()
	defer func() { r.TotalMs = millisSince(started) }()
	resp, err := c.Send(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	for data, err := range load.Events(resp.Body) {
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case err != nil:
			return r, fmt.Errorf("%w: %w", ErrCut, err)
		case string(data) == "[DONE]":
			return r, nil
		}
		if err := r.take(data, started, &on); err != nil {
			return r, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case r.Finish == "":
		return r, ErrCut
	}
	return r, nil
}

// take adds one event to the reply.
func (r *Reply) take(data []byte, started time.Time, on *Handlers) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("the server sent an invalid event: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return fmt.Errorf("the server failed: %s", load.ErrorMessage(data))
	}
	if c.Model != "" {
		r.Model = c.Model
	}
	if c.Usage != nil {
		r.Usage = c.Usage
	}
	if c.Timings != nil {
		r.Timings = c.Timings
	}
	if c.Progress != nil && on.Progress != nil {
		on.Progress(*c.Progress)
	}
	for i := range c.Choices {
		text, thought := c.Choices[i].Delta.Content, c.Choices[i].Delta.ReasoningContent
		if r.FirstMs == 0 && text+thought != "" {
			r.FirstMs = millisSince(started)
		}
		r.Text += text
		if finish := c.Choices[i].FinishReason; finish != "" {
			r.Finish = finish
		}
		if thought != "" {
			if err := on.Text(thought, true); err != nil {
				return err
			}
		}
		if text != "" {
			if err := on.Text(text, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func millisSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
