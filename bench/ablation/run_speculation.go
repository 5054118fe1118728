package ablation

import (
	"context"
	"fmt"
	"time"

	"parley"
	"parley/token"
	"parley/worker/host"
)

// questions are of the kind that the built-in models were made for, and
// repeated are some that they answer in the same words when asked again.
var (
	questions = []string{
		"Tell me a short story about a brave cat.", "What is a KV cache?", "Write a thank-you note to my teacher.",
		"Hello! Who are you?",
		"What is continuous batching?", "Tell me a story about a tiny dragon.", "What does the word 'harbor' mean?",
		"Give me three tips for a good night's sleep.",
	}
	repeated = []string{
		"Tell me a short story about a brave cat.", "What is a KV cache?",
		"Write a short note to invite my friend to a party.", "What is continuous batching?", "What is TTFT?",
	}
)

// answerMost bounds the answers of these experiments.
const answerMost = 250

// runLookup compares the pace of one answer that repeats what stands in the
// prompt: the model is asked again what it has just answered.
func runLookup(ctx context.Context, l *lab, rounds int) (Sample, error) {
	off, on, err := l.startBoth(polly, host.Config{NoSpeculation: true}, host.Config{})
	if err != nil {
		return Sample{}, err
	}
	var prompts [][]parley.Token
	for _, q := range repeated {
		p, err := askedAgain(ctx, off, q)
		if err != nil {
			return Sample{}, err
		}
		prompts = append(prompts, p)
	}
	s, err := l.comparePaces(ctx, rounds, off, on, prompts)
	s.Note = fmt.Sprintf("polly is asked again what it has just answered, %d times; %s", len(prompts), guessesOf(on))
	return s, err
}

// runDraft compares the pace of one answer with and without a smaller model that
// guesses ahead.
func runDraft(ctx context.Context, l *lab, rounds int) (Sample, error) {
	mini, err := l.checkpoint(pollyMini)
	if err != nil {
		return Sample{}, err
	}
	off, on, err := l.startBoth(polly, host.Config{NoSpeculation: true}, host.Config{Draft: mini, DraftName: pollyMini})
	if err != nil {
		return Sample{}, err
	}
	var prompts [][]parley.Token
	for _, q := range questions {
		p, err := chat(off, q)
		if err != nil {
			return Sample{}, err
		}
		prompts = append(prompts, p)
	}
	s, err := l.comparePaces(ctx, rounds, off, on, prompts)
	s.Note = fmt.Sprintf("polly-mini guesses for polly in %d chats; %s", len(prompts), guessesOf(on))
	return s, err
}

// fullStreams is how many answers are written at once at full load, and
// fullAnswer how long each is: short, because the two sides of a round can only
// be compared if the machine is the same for both, and machines change within
// seconds.
const (
	fullStreams = 64
	fullAnswer  = 24
)

// runFullLoad compares the throughput of many answers at once, where a guess
// takes room that another answer could use: guessing must not cost anything.
func runFullLoad(ctx context.Context, l *lab, rounds int) (Sample, error) {
	mini, err := l.checkpoint(pollyMini)
	if err != nil {
		return Sample{}, err
	}
	off, on, err := l.startBoth(polly, host.Config{Seqs: fullStreams, NoSpeculation: true},
		host.Config{Seqs: fullStreams, Draft: mini, DraftName: pollyMini})
	if err != nil {
		return Sample{}, err
	}
	var requests []*parley.Request
	for i := range fullStreams {
		p, err := chat(off, questions[i%len(questions)])
		if err != nil {
			return Sample{}, err
		}
		r := plain(p, fullAnswer)
		r.Sampling = parley.Sampling{Temperature: 0.5, TopP: 0.9, Seed: uint64(i)}
		requests = append(requests, r)
	}
	throughput := func(h *host.Host) side {
		return func(ctx context.Context, _ int) (float64, error) { return together(ctx, h, requests) }
	}
	for _, h := range []*host.Host{off, on} { // so that the engine knows its pace
		if _, err := throughput(h)(ctx, 0); err != nil {
			return Sample{}, err
		}
	}
	s, err := l.alternate(ctx, rounds, throughput(off), throughput(on))
	s.Note = fmt.Sprintf("%d chats at once; %s", fullStreams, guessesOf(on))
	return s, err
}

// comparePaces answers the prompts one after the other on both sides.
func (l *lab) comparePaces(ctx context.Context, rounds int, off, on *host.Host,
	prompts [][]parley.Token) (Sample, error) {
	pace := func(h *host.Host) side {
		return func(ctx context.Context, _ int) (float64, error) { return paceOf(ctx, h, prompts) }
	}
	for _, h := range []*host.Host{off, on} {
		if _, err := pace(h)(ctx, 0); err != nil {
			return Sample{}, err
		}
	}
	return l.alternate(ctx, rounds, pace(off), pace(on))
}

// paceOf answers the prompts one after the other and returns the tokens per
// second after the first of each.
func paceOf(ctx context.Context, w parley.Worker, prompts [][]parley.Token) (float64, error) {
	var tokens int
	var took time.Duration
	for _, p := range prompts {
		a, err := ask(ctx, w, &parley.Request{Prompt: p, MaxTokens: answerMost}, nil)
		if err != nil {
			return 0, err
		}
		tokens += len(a.came) - 1
		took += a.last().Sub(a.came[0])
	}
	return float64(tokens) / took.Seconds(), nil
}

// chat renders a conversation, in which user and assistant speak in turns, up to
// where the next answer begins.
func chat(h *host.Host, turns ...string) ([]parley.Token, error) {
	var messages []token.Message
	for i, text := range turns {
		messages = append(messages, token.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	prompt, err := h.Template.Render(messages, token.RenderOptions{AddGenerationPrompt: true})
	if err != nil {
		return nil, err
	}
	return h.Tokenizer.EncodePrompt(prompt)
}

// askedAgain asks a question, and returns the conversation with the same
// question at its end.
func askedAgain(ctx context.Context, h *host.Host, question string) ([]parley.Token, error) {
	prompt, err := chat(h, question)
	if err != nil {
		return nil, err
	}
	var said []parley.Token
	for delta, err := range h.Generate(ctx, &parley.Request{Prompt: prompt, MaxTokens: answerMost}) {
		if err != nil {
			return nil, err
		}
		said = append(said, delta.Tokens...)
	}
	return chat(h, question, h.Tokenizer.Decode(said, true), question)
}

// guessesOf says how many guesses a host made and how many were right.
func guessesOf(h *host.Host) string {
	stats := h.Stats()
	var guessed, right uint64
	for _, g := range stats.Guesses {
		guessed, right = guessed+g.Guessed, right+g.Right
	}
	return fmt.Sprintf("%d of %d guesses were right", right, guessed)
}
