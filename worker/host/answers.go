package host

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"parley"
	"parley/token"
	"parley/worker"
)

func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	return s.answer(w, r, false)
}

// chat answers a conversation with text. Tools, reasoning and the rest of the
// chat API are a gateway's.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error { return s.answer(w, r, true) }

// answer answers one request of either route.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, chat bool) error {
	var q question
	if err := readBody(w, r, &q); err != nil {
		return err
	}
	ask, err := q.request(chat)
	if err != nil {
		return err
	}
	m, err := s.hold()
	if err != nil {
		return err
	}
	defer s.letGo(m)
	var prompts [][]parley.Token
	if chat {
		prompts = make([][]parley.Token, 1)
		prompts[0], err = m.renderChat(q.Messages, true)
	} else {
		prompts, err = m.prompts(q.Prompt)
	}
	if err != nil {
		return err
	}
	a := newReply(m, &q, ask, chat, len(prompts))
	for i, prompt := range prompts {
		one := *ask
		one.Prompt = prompt
		a.prompt = prompt
		for d, err := range m.generate(r.Context(), &one) {
			if err != nil {
				return a.fail(w, err)
			}
			if err := a.take(w, i, &d); err != nil {
				return nil // the client has left
			}
		}
	}
	return a.end(w)
}

// A reply is the answer to one request, as it is shown.
type reply struct {
	host    *waking
	q       *question
	id      string
	kind    string // of the object
	chat    bool
	created int64
	prompt  []parley.Token
	perAsk  int
	choices []*shownChoice
	usage   parley.Usage
	open    bool // the stream has begun
}

func newReply(m *waking, q *question, ask *parley.Request, chat bool, prompts int) *reply {
	a := &reply{
		host:    m,
		q:       q,
		id:      "cmpl-" + ask.ID,
		kind:    "text_completion",
		chat:    chat,
		created: time.Now().Unix(),
		perAsk:  ask.Choices,
	}
	if chat {
		a.id, a.kind = "chatcmpl-"+ask.ID, "chat.completion"
	}
	for range prompts * ask.Choices {
		a.choices = append(a.choices,
			&shownChoice{decoder: m.Tokenizer.NewAnswerDecoder(), stops: ask.Stop.Strings, include: q.IncludeStop})
	}
	return a
}

// take adds a delta, and streams it if the client wants that.
func (a *reply) take(w http.ResponseWriter, prompt int, d *parley.Delta) error {
	index := prompt*a.perAsk + d.Choice
	c := a.choices[index]
	first := len(c.ids) == 0
	text := c.push(d)
	if d.Usage != nil {
		a.usage.PromptTokens += d.Usage.PromptTokens
		a.usage.CachedTokens += d.Usage.CachedTokens
		a.usage.OutputTokens += d.Usage.OutputTokens
	}
	if !a.q.Stream {
		return nil
	}
	choice := map[string]any{"index": index, "finish_reason": nil,
		"logprobs": a.logprobs(d.Logprobs, d.Tokens, c.runes)}
	if a.q.ReturnTokenIDs {
		choice["token_ids"] = d.Tokens
		if first {
			choice["prompt_token_ids"] = a.prompt
		}
	}
	if d.Finish != "" {
		choice["finish_reason"], choice["stop_reason"] = d.Finish, stopReason(d.StopString)
	}
	if a.chat {
		delta := map[string]any{"content": text}
		if first {
			delta["role"] = "assistant"
		}
		choice["delta"] = delta
	} else {
		choice["text"] = text
	}
	return a.event(w, map[string]any{"choices": []any{choice}})
}

func stopReason(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// event writes one event of a stream.
func (a *reply) event(w http.ResponseWriter, object map[string]any) error {
	if !a.open {
		a.open = true
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
	}
	object["id"], object["created"], object["model"] = a.id, a.created, a.host.Models()[0].ID
	object["object"] = a.kind
	if a.chat {
		object["object"] = "chat.completion.chunk"
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// fail reports an error in the stream, if there is one.
func (a *reply) fail(w http.ResponseWriter, err error) error {
	if a.open {
		_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", worker.RefusalBody(err)) // who left misses it
	}
	return err
}

// end ends the stream, or writes the whole answer.
func (a *reply) end(w http.ResponseWriter) error {
	usage := map[string]any{"prompt_tokens": a.usage.PromptTokens, "completion_tokens": a.usage.OutputTokens,
		"total_tokens":          a.usage.PromptTokens + a.usage.OutputTokens,
		"prompt_tokens_details": map[string]int{"cached_tokens": a.usage.CachedTokens}}
	if a.q.Stream {
		if o := a.q.StreamOptions; o != nil && o.IncludeUsage {
			if err := a.event(w, map[string]any{"choices": []any{}, "usage": usage}); err != nil {
				return nil // the client has left
			}
		}
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
		return nil
	}
	choices := []any{}
	for i, c := range a.choices {
		choice := map[string]any{"index": i, "finish_reason": c.finish, "stop_reason": stopReason(c.stop),
			"logprobs": a.logprobs(c.logprobs, c.ids, 0)}
		if a.q.ReturnTokenIDs {
			choice["token_ids"] = c.ids
		}
		if a.chat {
			choice["message"] = map[string]any{"role": "assistant", "content": c.all.String()}
		} else {
			choice["text"] = c.all.String()
		}
		choices = append(choices, choice)
	}
	return writeJSON(w, map[string]any{"id": a.id, "object": a.kind, "created": a.created,
		"model": a.host.Models()[0].ID, "choices": choices, "usage": usage})
}

// logprobs writes log-probabilities as the route has them, nil without.
func (a *reply) logprobs(list []parley.Logprob, ids []parley.Token, offset int) any {
	if len(list) == 0 {
		return nil
	}
	if a.chat {
		return map[string]any{"content": a.chatLogprobs(list)}
	}
	var texts []string
	var values []float32
	var tops []map[string]float32
	var offsets []int
	for _, l := range list {
		texts, values, offsets = append(texts, a.name(l.Token)), append(values, finite(l.Logprob)), append(offsets,
			offset)
		top := map[string]float32{a.name(l.Token): finite(l.Logprob)}
		for _, t := range l.Top {
			top[a.name(t.Token)] = finite(t.Logprob)
		}
		tops = append(tops, top)
		offset += len([]rune(a.host.tokenText(l.Token)))
	}
	return map[string]any{"tokens": texts, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
}

func (a *reply) chatLogprobs(list []parley.Logprob) (out []any) {
	entry := func(id parley.Token, value float32) map[string]any {
		var bytes []int
		for _, b := range a.host.Tokenizer.Bytes(id) {
			bytes = append(bytes, int(b))
		}
		return map[string]any{"token": a.name(id), "logprob": finite(value), "bytes": bytes}
	}
	for _, l := range list {
		own := entry(l.Token, l.Logprob)
		top := []any{}
		for _, t := range l.Top {
			top = append(top, entry(t.Token, t.Logprob))
		}
		own["top_logprobs"] = top
		out = append(out, own)
	}
	return out
}

// name is how a token is called in log-probabilities.
func (a *reply) name(id parley.Token) string {
	if a.q.TokensAsIDs {
		return fmt.Sprintf("token_id:%d", id)
	}
	return a.host.tokenText(id)
}

// finite returns a number that JSON can say; vLLM has the same in place of log 0.
func finite(v float32) float32 {
	if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
		return -9999
	}
	return v
}

// A shownChoice is what a client may see of a choice: without the stop string
// that ended it, so that what could become one is held back.
type shownChoice struct {
	decoder  *token.Decoder
	stops    []string
	include  bool // show the stop string
	held     string
	all      strings.Builder
	runes    int
	ids      []parley.Token
	logprobs []parley.Logprob
	finish   parley.Finish
	stop     string
}

// push takes a delta and returns the text that may be shown now.
func (c *shownChoice) push(d *parley.Delta) string {
	for _, id := range d.Tokens {
		c.held += c.decoder.Push(id)
	}
	c.ids, c.logprobs = append(c.ids, d.Tokens...), append(c.logprobs, d.Logprobs...)
	var text string
	if d.Finish != "" {
		c.finish, c.stop = d.Finish, d.StopString
		text = c.held + strings.TrimRight(c.decoder.Flush(), "\uFFFD")
		c.held = ""
		if at := strings.LastIndex(text, d.StopString); d.StopString != "" && at >= 0 {
			if c.include {
				at += len(d.StopString)
			}
			text = text[:at]
		}
	} else {
		n := len(c.held) - c.undecided()
		text, c.held = c.held[:n], c.held[n:]
	}
	c.all.WriteString(text)
	c.runes += len([]rune(text))
	return text
}

// undecided is how many of the last bytes could begin a stop string.
func (c *shownChoice) undecided() (most int) {
	for _, s := range c.stops {
		for n := min(len(s)-1, len(c.held)); n > most; n-- {
			if strings.HasSuffix(c.held, s[:n]) {
				most = n
			}
		}
	}
	return most
}
