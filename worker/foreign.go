package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"parley"
	"parley/worker/foreign"
)

// dialects are those of the kinds that are not ours.
var dialects = map[Kind]foreign.Dialect{
	VLLM:       foreign.VLLM,
	OpenAI:     foreign.OpenAI,
	OpenAIChat: foreign.OpenAIChat,
	SGLang:     foreign.SGLang,
	LlamaCpp:   foreign.LlamaCpp,
	Ollama:     foreign.Ollama,
	Anthropic:  foreign.Anthropic,
}

// foreign has an engine of another make answer q.
func (r *Remote) foreign(ctx context.Context, q *parley.Request, yield func(parley.Delta, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	speak := dialects[r.cfg.Kind]
	asked := len(q.Prompt)
	q, body, err := r.body(&speak, q)
	if err != nil {
		yield(parley.Delta{}, err)
		return
	}
	if !q.Deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, q.Deadline)
		defer cancel()
	}
	if q.Handoff != nil && q.Handoff.Prefill {
		usage, err := r.prefill(ctx, q, speak.Path, body)
		yield(parley.Delta{Usage: usage}, err)
		return
	}
	known := r.upstreamModel(q.Model)
	quiet, guard := guardSilence(ctx, r.silenceMax())
	resp, err := r.send(quiet, speak.Path, known.rename(body))
	if err != nil {
		yield(parley.Delta{}, guard.explain(err))
		return
	}
	defer resp.Body.Close()
	a := foreign.NewAssembly(q, len(q.Prompt)-asked)
	if known.Gauge != nil {
		a.GaugedBy(known.Gauge)
	}
	for message, err := range speak.Messages(guardedBody{resp.Body, guard}) {
		if err != nil {
			r.distrust()
			yield(parley.Delta{}, guard.explain(r.unreachable(ctx, err)))
			return
		}
		if err := r.take(a, &speak, message); err != nil {
			yield(parley.Delta{}, err)
			return
		}
		for _, d := range a.Deltas() {
			if !yield(d, nil) {
				return
			}
		}
		if a.Cut() {
			break
		}
	}
	a.Settle()
	for _, d := range a.Deltas() {
		if !yield(d, nil) {
			return
		}
	}
	last, complete := a.End()
	if !complete {
		r.distrust()
		yield(parley.Delta{}, guard.explain(r.unreachable(ctx, io.ErrUnexpectedEOF)))
		return
	}
	yield(last, nil)
}

// body returns a request as the engine can answer it, and what it is sent of it.
func (r *Remote) body(speak *foreign.Dialect, q *parley.Request) (*parley.Request, any, error) {
	if err := refuse(q, PromisesOf(r.cfg.Kind), r.cfg.Kind); err != nil {
		return nil, nil, err
	}
	q, err := suit(q, r.cfg.Kind)
	if err != nil {
		return nil, nil, err
	}
	if q, err = fold(q, PromisesOf(r.cfg.Kind).Resume); err != nil {
		return nil, nil, err
	}
	body, err := speak.Body(r.engineFor(q.Model), q)
	if err != nil {
		return nil, nil, err
	}
	return q, body, foreign.PutHandoff(body, q.Handoff)
}

// engineFor returns what a request for a model must say of the engine.
func (r *Remote) engineFor(model string) *foreign.Engine {
	return &foreign.Engine{
		Name:          r.theirName(model),
		ContextTokens: r.contextTokens(model),
		Configured:    r.cfg.ContextTokens,
		Text:          r.cfg.Text,
		OutputTokens:  r.upstreamModel(model).OutputTokens,
	}
}

// contextTokens returns the context of one of the engine's models, 0 if it is
// not known.
func (r *Remote) contextTokens(model string) int {
	for _, m := range r.Models() {
		if m.ContextTokens > 0 && cmp.Or(model, m.ID) == m.ID {
			return m.ContextTokens
		}
	}
	return r.cfg.ContextTokens
}

// take understands one message; an error that the engine put into it is the
// answer's.
func (r *Remote) take(a *foreign.Assembly, speak *foreign.Dialect, message []byte) error {
	if err := r.failure(message); err != nil {
		return err
	}
	if err := speak.Read(a, message); err != nil {
		return parley.Errorf(parley.Unavailable, "worker %s (%s) sent an invalid answer: %v", r.cfg.URL, r.cfg.Kind,
			err)
	}
	return nil
}

// failure returns the error that a message says, nil if it says none.
func (r *Remote) failure(message []byte) error {
	var failed struct {
		Error json.RawMessage `json:"error"`
		Code  int             `json:"code"`
	}
	if json.Unmarshal(message, &failed) != nil || len(failed.Error) == 0 || string(failed.Error) == "null" {
		return nil
	}
	var coded struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(failed.Error, &coded)
	coded.Code = max(coded.Code, statusOfType(failed.Error))
	return r.refused(max(coded.Code, failed.Code, http.StatusInternalServerError*b2i(coded.Code+failed.Code == 0)),
		message, "")
}

// statusOfType returns the status that an error of a type would have had before the answer began,
// in Anthropic's words; 0 for others.
func statusOfType(failed json.RawMessage) int {
	var typed struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(failed, &typed) // what has no type has no status
	return map[string]int{
		"overloaded_error":      statusOverloaded,
		"rate_limit_error":      http.StatusTooManyRequests,
		"invalid_request_error": http.StatusBadRequest,
		"request_too_large":     http.StatusRequestEntityTooLarge,
	}[typed.Type]
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
	case q.Choices > 1 && k == SGLang && q.Handoff != nil:
		return parley.Invalid("n", "engines of kind %s with split prefill and decode return one choice per request", k)
	case q.FinishGrammar:
		return parley.Invalid("parley.finish_json", "engines of kind %s do not support parley.finish_json", k)
	case len(q.Stop.Tokens) > 0 && !p.TokenIDs:
		return parley.Invalid("stop_token_ids",
			"engines of kind %s return no token ids, so stop tokens are not supported", k)
	case q.Stop.IgnoreEnd && (k == Ollama || k == OpenAI || k.TakesTurns()):
		return parley.Invalid("ignore_eos", "engines of kind %s do not support ignore_eos", k)
	case k.TakesTurns() && len(q.Turns) == 0:
		return parley.Invalid("messages",
			"engines of kind %s accept only conversations, and no other prompts", k)
	}
	return nil
}

// bootstrapPort is where SGLang engines meet, for those that do not say.
const bootstrapPort = 8998

// Meet returns the fields that an SGLang engine and another one of its kind are told when both
// are asked at once: this one computes the prompt.
func (r *Remote) Meet() json.RawMessage {
	port := bootstrapPort
	if info := r.server.Load(); info != nil && info.Port > 0 {
		port = info.Port
	}
	bootstrap, err := foreign.NewBootstrap(r.cfg.URL, port, rand.Int64())
	if err != nil {
		return nil // it could not have been dialled
	}
	fields, _ := json.Marshal(bootstrap)
	return fields
}

// prefill has the engine compute the prompt of a request whose body it is for another engine.
func (r *Remote) prefill(ctx context.Context, q *parley.Request, path string, body any) (*parley.Usage, error) {
	began := time.Now()
	resp, err := r.send(ctx, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if q.Handoff.Fields != nil {
		usage, err := foreign.ReadPrefilled(resp.Body, r.failure)
		if _, known := errors.AsType[*parley.Error](err); err != nil && !known {
			return nil, r.unreachable(ctx, err)
		}
		return usage, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return nil, r.unreachable(ctx, err)
	}
	if err := r.failure(text); err != nil {
		return nil, err
	}
	fields, usage, err := foreign.ReadPrefill(text)
	if err != nil {
		return nil, parley.Errorf(parley.Internal, "worker %s computed a prompt, but its answer cannot be used: %v",
			r.cfg.URL, err)
	}
	q.Handoff.Fields = fields
	usage.Prefill = time.Since(began)
	return usage, nil
}
