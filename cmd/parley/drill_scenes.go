package main

import (
	"context"
	"fmt"
	"strings"
)

// some returns n requests; each has a prompt of its own unless alike.
func some(n, tokens, tries int, alike bool) (asks []drillAsk) {
	for i := range n {
		prompt := "Tell me a story about a lighthouse."
		if !alike {
			prompt = fmt.Sprintf("Story %d: tell me about a lighthouse.", i)
		}
		asks = append(asks, drillAsk{prompt, tokens, tries})
	}
	return asks
}

// usual is what is asked before and after each failure, to compare.
func (r *drillRig) usual(ctx context.Context, phase string) {
	p := r.phase(ctx, phase, some(3, 16, 0, false))
	r.check(p.Answered == 3, fmt.Sprintf("%s: 3 of 3 requests are answered (%d)", phase, p.Answered))
}

// drillMemory asks for more key/value memory than there is.
func drillMemory(ctx context.Context, r *drillRig) error {
	r.usual(ctx, "before")
	asks := some(16, 160, 20, false) // four times what fits at once
	huge := drillAsk{prompt: strings.Repeat("once upon a time ", 4000), tokens: 16}
	p := r.phase(ctx, "during", append(asks, huge, huge))
	r.check(p.Refused == 2, fmt.Sprintf("what can never fit is refused with a number, 2 of 2 (%d)", p.Refused))
	r.check(p.Answered == 16, fmt.Sprintf("what fits one after another is all answered, 16 of 16 (%d)", p.Answered))
	r.check(p.Failed == 0, fmt.Sprintf("nothing fails for want of memory (%d)", p.Failed))
	r.usual(ctx, "after")
	return ctx.Err()
}

// drillCascade asks for ten times what the server bears, and asks again.
func drillCascade(ctx context.Context, r *drillRig) error {
	r.usual(ctx, "before")
	storm := some(60, 48, 3, false)
	for i := range storm {
		storm[i].prompt += strings.Repeat(" Say more of its keeper.", 30)
	}
	p := r.phase(ctx, "during", storm)
	r.check(p.Failed == 0, fmt.Sprintf("nobody is left without an answer or a reason (%d)", p.Failed))
	r.check(p.TurnedAway > 0, fmt.Sprintf("what cannot be done is turned away at once (%d times)", p.TurnedAway))
	r.check(p.Waiting <= 8, fmt.Sprintf("the queue stays within its bound of 8 (%d)", p.Waiting))
	r.check(p.Answered >= 8, fmt.Sprintf("those who are let in are served (%d)", p.Answered))
	r.usual(ctx, "after")
	return ctx.Err()
}

// drillViral has everybody ask the same.
func drillViral(ctx context.Context, r *drillRig) error {
	r.usual(ctx, "before")
	before, err := r.counted(ctx, "parley_engine_output_tokens_total")
	if err != nil {
		return err
	}
	p := r.phase(ctx, "during", some(200, 32, 0, true))
	after, err := r.counted(ctx, "parley_engine_output_tokens_total")
	if err != nil {
		return err
	}
	r.check(p.Answered == 200, fmt.Sprintf("everybody has the answer, 200 of 200 (%d)", p.Answered))
	r.check(after-before <= 4*32, fmt.Sprintf("it is computed about once: %.0f tokens for %d answers of 32", after-before, p.Answered))
	r.usual(ctx, "after")
	return ctx.Err()
}

// counted reads a counter of the server.
func (r *drillRig) counted(ctx context.Context, name string) (sum float64, err error) {
	text, err := r.get(ctx, "/metrics")
	for _, m := range parseMetrics(text) {
		if m.name == name {
			sum += m.value
		}
	}
	return sum, err
}
