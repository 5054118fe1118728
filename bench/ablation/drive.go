package ablation

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley"
	"parley/sim/traffic"
)

// An answer is what its reader saw of it: when the request went out, and when
// each token came.
type answer struct {
	sent time.Time
	came []time.Time
}

func (a *answer) first() time.Duration { return a.came[0].Sub(a.sent) }

func (a *answer) last() time.Time { return a.came[len(a.came)-1] }

// gapsAfter returns the times between tokens, of those that came after a moment.
func (a *answer) gapsAfter(moment time.Time) (gaps []time.Duration) {
	for i := 1; i < len(a.came); i++ {
		if a.came[i-1].After(moment) {
			gaps = append(gaps, a.came[i].Sub(a.came[i-1]))
		}
	}
	return gaps
}

// ask sends a request and reads its answer to the end, calling each, if there is
// one, for every token. It leaves when each returns false. If ctx ends on the
// way, the answer is what came until then, and it is an error if nothing did.
func ask(ctx context.Context, w parley.Worker, r *parley.Request, each func(token int) bool) (answer, error) {
	a := answer{sent: time.Now()}
	for delta, err := range w.Generate(ctx, r) {
		if err != nil && ctx.Err() != nil && len(a.came) > 0 {
			return a, nil
		}
		if err != nil {
			return a, err
		}
		now := time.Now()
		for range delta.Tokens {
			a.came = append(a.came, now)
			if each != nil && !each(len(a.came)) {
				return a, nil
			}
		}
	}
	if len(a.came) == 0 {
		return a, errors.New("an answer came without a token")
	}
	return a, nil
}

// A crowd is several requests under way.
type crowd struct {
	wg      sync.WaitGroup
	answers []answer
	errs    []error
}

// send sends all requests at once.
func send(ctx context.Context, w parley.Worker, requests []*parley.Request, each func(token int) bool) *crowd {
	c := &crowd{answers: make([]answer, len(requests)), errs: make([]error, len(requests))}
	for i, r := range requests {
		c.wg.Go(func() { c.answers[i], c.errs[i] = ask(ctx, w, r, each) })
	}
	return c
}

// wait returns the answers when the last one is complete.
func (c *crowd) wait() ([]answer, error) {
	c.wg.Wait()
	return c.answers, errors.Join(c.errs...)
}

// together sends requests at once, waits for the last, and returns the tokens
// they brought each second.
func together(ctx context.Context, w parley.Worker, requests []*parley.Request) (float64, error) {
	began := time.Now()
	answers, err := send(ctx, w, requests, nil).wait()
	tokens := 0
	for i := range answers {
		tokens += len(answers[i].came)
	}
	return float64(tokens) / time.Since(began).Seconds(), err
}

// content makes prompts that nothing but their key decides. Keys that differ
// share nothing.
var content = traffic.Content{Seed: 1, First: traffic.DefaultFirst}

// fresh returns a prompt of the given number of tokens that no other number shares a block
// with.
func fresh(number, tokens int) []parley.Token {
	return content.Tokens([]traffic.Part{{Key: uint64(number), Tokens: tokens}})
}

// plain asks for exactly the given number of tokens after a prompt, the most likely ones.
func plain(prompt []parley.Token, output int) *parley.Request {
	return &parley.Request{Prompt: prompt, MaxTokens: output, Stop: parley.Stop{IgnoreEnd: true}}
}
