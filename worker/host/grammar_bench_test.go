package host

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/internal/stat"
)

// endless is a schema whose values are longer than any answer here.
const endless = `{"type":"array","minItems":1000,"items":{"type":"object","properties":{"name":{"type":"string","maxLength":24},
	"age":{"type":"integer","minimum":0,"maximum":120},"colour":{"enum":["black","white","ginger","grey"]},"likes":{"type":"array","maxItems":3,"items":{"type":"string"}},
	"weight":{"type":"number","minimum":0,"maximum":12.5}},"required":["name","age","colour","likes","weight"],"additionalProperties":false}}`

// BenchmarkConstrained measures what it costs to hold answers to a grammar:
// each turn of the loop has 16 streams write under one and 16 without, first
// the one and then the other. It reports the median ratio of the times per
// token, with the bounds between which it lies with a probability of 95 %.
// Guessing is off: it would make constrained answers faster.
func BenchmarkConstrained(b *testing.B) {
	schema := parley.JSONSchema([]byte(endless), true)
	tools := parley.FreeText(parley.GrammarTrigger{Text: "<tool_call>", Then: schema})
	for _, c := range []struct {
		name    string
		grammar *parley.Grammar
	}{{"schema", &schema}, {"tools", &tools}} {
		b.Run(c.name, func(b *testing.B) {
			h := startHost(b, openBuiltin(b, "polly"), Config{Name: "polly", KVTokens: 32768, NoSpeculation: true})
			grammars := []*parley.Grammar{c.grammar, nil}
			took := map[bool][]float64{}
			for b.Loop() {
				slices.Reverse(grammars)
				for _, g := range grammars {
					took[g != nil] = append(took[g != nil], timePerToken(b, h, g).Seconds())
				}
			}
			ratios, err := stat.Ratios(took[true][1:], took[false][1:]) // the first turn is for warming up
			if err != nil {
				b.Fatal(err)
			}
			bounds := stat.MedianInterval(ratios, 0.95)
			b.ReportMetric(stat.Median(ratios), "ratio")
			b.ReportMetric(bounds.Low, "ratio-low")
			b.ReportMetric(bounds.High, "ratio-high")
			b.ReportMetric(1e6*stat.Median(took[true]), "us/step")
		})
	}
}

// timePerToken has 16 streams write at once, and returns the mean time between
// two tokens of one.
func timePerToken(b *testing.B, h *Host, g *parley.Grammar) time.Duration {
	const streams, output = 16, 96
	var writing, tokens atomic.Int64
	var wg sync.WaitGroup
	for s := range streams {
		wg.Go(func() {
			r := &parley.Request{Prompt: chatPrompt(b, h, chatPrompts[s%len(chatPrompts)]), MaxTokens: output, Grammar: g,
				Sampling: parley.Sampling{Temperature: 1, Seed: uint64(s)}, Stop: parley.Stop{IgnoreEnd: true}}
			for d, err := range h.Generate(b.Context(), r) {
				if err != nil {
					b.Error(err)
				} else if d.Usage != nil {
					writing.Add(int64(d.Usage.Decode))
					tokens.Add(int64(d.Usage.OutputTokens - 1)) // a grammar may end an answer early
				}
			}
		})
	}
	wg.Wait()
	return time.Duration(writing.Load() / max(1, tokens.Load()))
}
