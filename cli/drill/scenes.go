package drill

import (
	"context"
	"fmt"
	"strings"
	"time"

	"parley/cli/remote"
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
	r.check(p.Answered == 3, fmt.Sprintf("%s: %d of 3 requests answered", phase, p.Answered))
	select {
	case <-ctx.Done():
	case <-time.After(r.pause):
	}
}

// drillMemory asks for more key/value memory than there is.
func drillMemory(ctx context.Context, r *drillRig) error {
	r.usual(ctx, "before")
	asks := some(16, 160, 20, false) // four times what fits at once
	huge := drillAsk{prompt: strings.Repeat("once upon a time ", 4000), tokens: 16}
	p := r.phase(ctx, "during", append(asks, huge, huge))
	r.check(p.Refused == 2, fmt.Sprintf("requests that can never fit are rejected with a number, %d of 2", p.Refused))
	r.check(p.Answered == 16, fmt.Sprintf("requests that fit one after another are all answered, %d of 16", p.Answered))
	r.check(p.Failed == 0, fmt.Sprintf("no request fails for lack of memory (%d)", p.Failed))
	r.usual(ctx, "after")
	return ctx.Err()
}

// drillCascade asks for ten times what the fleet bears, asks again, and meanwhile
// kills a worker.
func drillCascade(ctx context.Context, r *drillRig) error {
	r.usual(ctx, "before")
	storm := some(60, 48, 3, false)
	for i := range storm {
		storm[i].prompt += strings.Repeat(" Say more of its keeper.", 30)
	}
	killed := r.killSoon(ctx)
	p := r.phase(ctx, "during", storm)
	<-killed
	if len(r.workers) > 1 {
		moved, err := r.counted(ctx, "parley_fleet_moves_total")
		r.check(err == nil && moved > 0,
			fmt.Sprintf("another worker resumes the answers of the killed one (%.0f moved)", moved))
	}
	r.check(p.Failed == 0, fmt.Sprintf("every client gets an answer or a reason (%d did not)", p.Failed))
	r.check(p.TurnedAway > 0, fmt.Sprintf("excess requests are rejected at once (%d)", p.TurnedAway))
	r.check(p.Waiting <= 8, fmt.Sprintf("the queue stays within its limit of 8 (%d)", p.Waiting))
	r.check(p.Answered >= 8, fmt.Sprintf("admitted requests are served (%d)", p.Answered))
	r.usual(ctx, "after")
	return ctx.Err()
}

// killSoon kills a worker as soon as it answers a request, if there is another one.
func (r *drillRig) killSoon(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for len(r.workers) > 1 && ctx.Err() == nil {
			if i := r.busiest(ctx); i >= 0 {
				r.kill(i)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return done
}

// busiest returns which worker computes most, as they say themselves at this moment;
// -1 if none does. What the gateway shows of them is up to a second old.
func (r *drillRig) busiest(ctx context.Context) (which int) {
	which = -1
	most := 0.
	for i, w := range r.workers {
		text, err := w.client.Get(ctx, "/metrics")
		if err != nil {
			continue
		}
		for _, m := range remote.ParseMetrics(text) {
			if m.Name == "parley_engine_running" && m.Value > most {
				which, most = i, m.Value
			}
		}
	}
	return which
}

// drillViral has all clients ask the same question.
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
	r.check(p.Answered == 200, fmt.Sprintf("every client gets the answer, %d of 200", p.Answered))
	r.check(after-before <= 4*32,
		fmt.Sprintf("it is computed about once: %.0f tokens for %d answers of 32", after-before, p.Answered))
	r.usual(ctx, "after")
	return ctx.Err()
}
