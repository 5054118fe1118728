package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"time"

	"parley"
)

// A dialect is how one kind of foreign engine is asked and what it answers.
type dialect struct {
	// path is where requests go, and body what they are.
	path string
	body func(r *Remote, q *parley.Request) (any, error)
	// stream cuts an answer into messages, and read understands one of them.
	stream func(io.Reader) iter.Seq2[[]byte, error]
	read   func(a *assembly, message []byte) error
}

// dialects are those of the kinds that are not ours.
var dialects = map[Kind]dialect{
	VLLM:       {"/v1/completions", completionsBody, events, readCompletion},
	OpenAI:     {"/v1/completions", completionsBody, events, readCompletion},
	OpenAIChat: {"/v1/chat/completions", chatBody, events, readChat},
	SGLang:     {"/generate", sglangBody, events, readSGLang},
	LlamaCpp:   {"/completion", llamaBody, openEvents, readLlama},
	Ollama:     {"/api/generate", ollamaBody, objects, readOllama},
}

// openEvents yields the events of a stream that does not say [DONE].
func openEvents(from io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for data, err := range events(from) {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return
			}
			if !yield(data, err) {
				return
			}
		}
	}
}

// foreign has an engine of another make answer q.
func (r *Remote) foreign(ctx context.Context, q *parley.Request, yield func(parley.Delta, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	speak := dialects[r.cfg.Kind]
	err := refuse(q, PromisesOf(r.cfg.Kind), r.cfg.Kind)
	if err == nil {
		q, err = suit(q, r.cfg.Kind)
	}
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	if !q.Deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, q.Deadline)
		defer cancel()
	}
	asked := len(q.Prompt)
	q, err = fold(q, PromisesOf(r.cfg.Kind).Resume)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	body, err := speak.body(r, q)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	resp, err := r.send(ctx, speak.path, body)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	defer resp.Body.Close()
	a := newAssembly(q)
	a.folded = len(q.Prompt) - asked
	for message, err := range speak.stream(resp.Body) {
		if err != nil {
			yield(parley.Delta{}, r.unreachable(ctx, err))
			return
		}
		if err := a.take(r, speak, message); err != nil {
			yield(parley.Delta{}, err)
			return
		}
		for _, d := range a.deltas() {
			if !yield(d, nil) {
				return
			}
		}
		if a.open == 0 && slices.ContainsFunc(a.choices, func(c choiceState) bool { return c.cut }) {
			break
		}
	}
	a.end(r, ctx, yield)
}

// take understands one message; an error that the engine put into it is the
// answer's.
func (a *assembly) take(r *Remote, speak dialect, message []byte) error {
	var failed struct {
		Error json.RawMessage `json:"error"`
		Code  int             `json:"code"`
	}
	if json.Unmarshal(message, &failed) == nil && len(failed.Error) > 0 && string(failed.Error) != "null" {
		var coded struct {
			Code int `json:"code"`
		}
		_ = json.Unmarshal(failed.Error, &coded)
		return r.refused(max(coded.Code, failed.Code, http.StatusInternalServerError*b2i(coded.Code+failed.Code == 0)),
			message, "")
	}
	if err := speak.read(a, message); err != nil {
		return parley.Errorf(parley.Unavailable, "worker %s (%s) sent an invalid answer: %v", r.cfg.URL, r.cfg.Kind,
			err)
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fold makes what was said already a part of the prompt.
func fold(q *parley.Request, can Resuming) (*parley.Request, error) {
	if len(q.Resume) == 0 {
		return q, nil
	}
	s := &q.Sampling
	plain := len(q.Resume) == 1 && !q.Resume[0].Done && q.Grammar == nil && s.PresencePenalty == 0 &&
		s.FrequencyPenalty == 0
	said := q.Resume[0].Tokens
	if can == ResumeNone || can == ResumePlain && !plain || q.MaxTokens > 0 && len(said) >= q.MaxTokens {
		return nil, parley.Errorf(parley.Unavailable, "this engine cannot resume an answer begun by another one")
	}
	longer := *q
	longer.Resume = nil
	longer.Prompt = slices.Concat(q.Prompt, said)
	if q.MaxTokens > 0 {
		longer.MaxTokens -= len(said)
	}
	return &longer, nil
}

// refuse says what of a request the engine could not do.
func refuse(q *parley.Request, p Promises, k Kind) error {
	switch {
	case len(q.Prompt) == 0:
		return parley.Invalid("prompt", "the prompt is empty: give at least one token")
	case q.Embed && !p.Embed:
		return parley.Invalid("model", "engines of kind %s do not support embeddings", k)
	case q.PromptLogprobs && !p.PromptLogprobs:
		return parley.Invalid("logprobs", "engines of kind %s do not return log-probabilities of prompts", k)
	case q.Logprobs && !p.Logprobs:
		return parley.Invalid("logprobs", "engines of kind %s do not return log-probabilities", k)
	case q.Choices > 1 && !p.Choices:
		return parley.Invalid("n", "engines of kind %s return one choice per request", k)
	case len(q.Stop.Tokens) > 0 && !p.TokenIDs:
		return parley.Invalid("stop_token_ids",
			"engines of kind %s return no token ids, so stop tokens are not supported", k)
	case q.Stop.IgnoreEnd && (k == Ollama || k == OpenAI || k == OpenAIChat):
		return parley.Invalid("ignore_eos", "engines of kind %s do not support ignore_eos", k)
	case k == OpenAIChat && len(q.Turns) == 0:
		return parley.Invalid("messages",
			"engines of kind %s accept only conversations, and no other prompts", k)
	}
	return nil
}

// An assembly puts the answer of a foreign engine together: engines repeat what
// they have said, leave out ids, and tell usage at the end or not at all.
type assembly struct {
	q       *parley.Request
	choices []choiceState
	ready   []parley.Delta
	usage   parley.Usage
	told    bool // the engine told usage
	open    int  // choices that have not ended
	folded  int  // tokens of the prompt that an earlier worker wrote

	call string // an answer that is a call, so far

	began, first time.Time
}

// choiceState is how far one choice is.
type choiceState struct {
	tokens int // that were told
	texts  int // pieces that came as text
	ended  bool
	cut    bool // ended here, and not by the engine
}

func newAssembly(q *parley.Request) *assembly {
	n := max(1, q.Choices)
	return &assembly{q: q, choices: make([]choiceState, n), open: n, began: time.Now()}
}

var errChoice = errors.New("it has an unexpected choice, or more text of a finished one")

// choice returns the one with a number.
func (a *assembly) choice(index int) (*choiceState, error) {
	if index < 0 || index >= len(a.choices) || a.choices[index].ended {
		return nil, errChoice
	}
	return &a.choices[index], nil
}

// add adds a delta to a choice. Tokens that end it end it here, too, where the
// engine was not asked to.
func (a *assembly) add(index int, d parley.Delta) {
	c := &a.choices[index]
	d.Choice = index
	if a.first.IsZero() && d.Count() > 0 {
		a.first = time.Now()
	}
	c.tokens += len(d.Tokens)
	if d.HasText() {
		c.texts++
	}
	if d.Finish != "" {
		c.ended = true
		a.open--
	}
	if d.Count() > 0 || d.Finish != "" {
		a.ready = append(a.ready, d)
	}
}

// deltas returns what can be passed on now. The last delta waits for the usage.
func (a *assembly) deltas() []parley.Delta {
	n := len(a.ready)
	if a.open == 0 && n > 0 {
		n--
	}
	out := a.ready[:n]
	a.ready = a.ready[n:]
	return out
}

// end gives the last delta, with the usage, or says that it never came.
func (a *assembly) end(r *Remote, ctx context.Context, yield func(parley.Delta, error) bool) {
	if a.open > 0 || len(a.ready) == 0 {
		yield(parley.Delta{}, r.unreachable(ctx, io.ErrUnexpectedEOF))
		return
	}
	d := a.ready[len(a.ready)-1]
	now := time.Now()
	u := a.usage
	if !a.told {
		u.PromptTokens = len(a.q.Prompt)
		for _, c := range a.choices {
			u.OutputTokens += c.tokens + c.texts
		}
	}
	u.PromptTokens = max(0, u.PromptTokens-a.folded)
	u.Outside = u.Prefill == 0
	if u.Prefill == 0 {
		u.Prefill = a.first.Sub(a.began)
	}
	if u.Decode == 0 {
		u.Decode = now.Sub(a.first)
	}
	d.Usage = &u
	yield(d, nil)
}

// finishOf reads why an engine ended a choice: its words for a full stop differ,
// and whatever else it says is a failure.
func finishOf(reason string) (parley.Finish, error) {
	switch reason {
	case "":
		return "", nil
	case "stop", "eos", "word", "eos_token", "stop_sequence":
		return parley.FinishStop, nil
	case "length", "limit":
		return parley.FinishLength, nil
	}
	return "", errors.New("it ended with the reason " + reason)
}
