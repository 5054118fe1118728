package host

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/internal/stat"
	"parley/model/weights"
)

// endless is a schema whose values are longer than any answer here.
const endless = `{"type":"array","minItems":1000,"items":{"type":"object","properties":{"name":{"type":"string","maxLength":24},
	"age":{"type":"integer","minimum":0,"maximum":120},"colour":{"enum":["black","white","ginger","grey"]},"likes":{"type":"array","maxItems":3,"items":{"type":"string"}},
	"weight":{"type":"number","minimum":0,"maximum":12.5}},"required":["name","age","colour","likes","weight"],"additionalProperties":false}}`

// constrainedMax is what a step may cost under grammars, as a multiple of one
// without them.
const constrainedMax = 1.1

// BenchmarkConstrained measures what it costs to hold answers to a grammar:
// each turn of the loop has 16 streams write under one and 16 without, first
// the one and then the other. It reports the median ratio of the times per
// token, with the bounds between which it lies with a probability of 95 %, and
// fails if the median is over its bar. All streams write to their full length.
// Guessing is off: it would make constrained answers faster. The model is polly,
// or the file that the variable PARLEY_BENCH_MODEL names.
func BenchmarkConstrained(b *testing.B) {
	schema := parley.JSONSchema([]byte(endless), true)
	tools := parley.FreeText(parley.GrammarTrigger{Text: "<tool_call>", Then: schema})
	for _, c := range []struct {
		name    string
		grammar *parley.Grammar
	}{{"schema", &schema}, {"tools", &tools}} {
		b.Run(c.name, func(b *testing.B) {
			ck := openConstrained(b)
			h := startHost(b, ck, Config{Name: "constrained", KVTokens: 32768, NoSpeculation: true})
			writing := sixteen{h, map[parley.Token]float32{}}
			for _, end := range ends(&ck.Config, h.Tokenizer) {
				writing.never[end] = -100
			}
			grammars := []*parley.Grammar{c.grammar, nil}
			took := map[bool][]float64{}
			for b.Loop() {
				slices.Reverse(grammars)
				for _, g := range grammars {
					took[g != nil] = append(took[g != nil], writing.timePerToken(b, g).Seconds())
				}
			}
			report(b, took[true], took[false])
		})
	}
}

// openConstrained opens the model of the benchmark.
func openConstrained(b *testing.B) *weights.Checkpoint {
	path := os.Getenv("PARLEY_BENCH_MODEL")
	if path == "" {
		return openBuiltin(b, "polly")
	}
	ck, err := weights.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	return ck
}

// report tells the ratio of two lists of times. Their first is for warming up.
func report(b *testing.B, constrained, free []float64) {
	if len(free) < 2 {
		return // the framework's own first try
	}
	ratios, err := stat.Ratios(constrained[1:], free[1:])
	if err != nil {
		b.Fatal(err)
	}
	median, bounds := stat.Median(ratios), stat.MedianInterval(ratios, 0.95)
	b.ReportMetric(median, "ratio")
	b.ReportMetric(bounds.Low, "ratio-low")
	b.ReportMetric(bounds.High, "ratio-high")
	b.ReportMetric(1e6*stat.Median(constrained), "us/step")
	if median > constrainedMax {
		b.Errorf("a constrained step takes %.2f times as long as a free one, more than %v", median, constrainedMax)
	}
}

// sixteen are streams that write at once and never choose a token of never.
type sixteen struct {
	*Host
	never map[parley.Token]float32
}

// timePerToken returns the mean time between two tokens of one stream.
func (h sixteen) timePerToken(b *testing.B, g *parley.Grammar) time.Duration {
	const streams, output = 16, 96
	var writing, tokens atomic.Int64
	var wg sync.WaitGroup
	for s := range streams {
		wg.Go(func() {
			r := &parley.Request{Prompt: chatPrompt(b, h.Host, chatPrompts[s%len(chatPrompts)]), MaxTokens: output,
				Grammar:  g,
				Sampling: parley.Sampling{Temperature: 1, Seed: uint64(s), LogitBias: h.never},
				Stop:     parley.Stop{IgnoreEnd: true}}
			for d, err := range h.Generate(b.Context(), r) {
				if err != nil {
					b.Error(err)
				} else if d.Usage != nil {
					writing.Add(int64(d.Usage.Decode))
					tokens.Add(int64(d.Usage.OutputTokens))
				}
			}
		})
	}
	wg.Wait()
	if tokens.Load() != streams*output {
		b.Errorf("%d tokens were written instead of %d", tokens.Load(), streams*output)
	}
	return time.Duration(writing.Load() / (streams * (output - 1)))
}
