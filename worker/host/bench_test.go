package host

import (
	"cmp"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/engine/spec"
	"parley/internal/builtin"
	"parley/internal/stat"
	"parley/model/weights"
)

// The benchmarks run whole requests through the engine. BenchmarkFile runs the
// model file that the variable PARLEY_BENCH_MODEL names.

func BenchmarkPolly(b *testing.B) { benchBuiltin(b, "polly") }

func BenchmarkPollyMini(b *testing.B) { benchBuiltin(b, "polly-mini") }

func benchBuiltin(b *testing.B, name string) {
	m, ok := builtin.Find(name)
	if !ok {
		b.Fatalf("no built-in model %s", name)
	}
	ck, err := m.Open()
	if err != nil {
		b.Fatal(err)
	}
	benchModel(b, ck)
}

func BenchmarkFile(b *testing.B) {
	path := os.Getenv("PARLEY_BENCH_MODEL")
	if path == "" {
		b.Skip("PARLEY_BENCH_MODEL names no model file")
	}
	ck, err := weights.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	benchModel(b, ck)
}

func benchModel(b *testing.B, ck *weights.Checkpoint) {
	h := startHost(b, ck, Config{Name: "bench", KVTokens: 16384})
	b.Run("prefill512", func(b *testing.B) { benchRequests(b, h, 1, 512, 1) })
	b.Run("decode1x128", func(b *testing.B) { benchRequests(b, h, 1, 1, 128) })
	b.Run("decode8x128", func(b *testing.B) { benchRequests(b, h, 8, 1, 128) })
}

// benchRequests answers so many requests at once, and reports the tokens
// computed per second.
func benchRequests(b *testing.B, h *Host, streams, prompt, output int) {
	var salt byte // nothing is found in the cache
	for b.Loop() {
		salt++
		var wg sync.WaitGroup
		for s := range streams {
			wg.Go(func() {
				r := &parley.Request{Prompt: make([]parley.Token, prompt), MaxTokens: output,
					Stop: parley.Stop{IgnoreEnd: true}, Salt: parley.Salt{salt}}
				for i := range r.Prompt {
					r.Prompt[i] = parley.Token(10 + (i*7+s)%500)
				}
				for _, err := range h.Generate(b.Context(), r) {
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	tokens := streams * (prompt + output - 1)
	b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}

func startHost(t testing.TB, ck *weights.Checkpoint, cfg Config) *Host {
	t.Helper()
	if _, measured := t.(*testing.B); !measured {
		cfg.Threads = cmp.Or(cfg.Threads, testThreads)
	}
	available, err := AvailableBytes()
	if err != nil {
		t.Fatal(err)
	}
	plans, err := PlanMemory([]Candidate{{ck, cfg}}, available)
	if testDevice != DeviceCPU {
		cfg.DeviceName = testDevice
		plans, _, err = PlanDevice([]Candidate{{ck, cfg}}, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := Start(plans[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// chatPrompts are of the kind that the built-in models were made for.
var chatPrompts = []string{
	"Hello! Who are you?", "Tell me a short story about a brave cat.", "What is a KV cache?",
	"What is the capital of Japan?",
	"Write a thank-you note to my teacher.", "tell me a joke", "Explain prefix caching in one sentence.",
	"Tell me a story about a tiny dragon.",
	"Write a Python function that adds two numbers.", "What does the word 'harbor' mean?",
	"What is continuous batching?", "Give me three tips for a good night's sleep.",
}

// BenchmarkSpeculation measures what guessing ahead is worth. Each turn of the
// loop answers the same requests by a host that guesses and by one that does
// not, first one and then the other, and it reports the median ratio of their
// speeds with the bounds between which it lies with a probability of 95 %.
func BenchmarkSpeculation(b *testing.B) {
	chat := func(b *testing.B, h *Host) (prompts [][]parley.Token) {
		for _, text := range chatPrompts {
			prompts = append(prompts, chatPrompt(b, h, text))
		}
		return prompts
	}
	for _, c := range []struct {
		name        string
		prompts     func(*testing.B, *Host) [][]parley.Token
		streams     int
		temperature float32
		lookupOnly  bool
	}{
		{"greedy", chat, 1, 0, false},
		{"temperature", chat, 1, 0.5, false},
		{"streams4", chat, 4, 0.5, false},
		{"streams8", chat, 8, 0.5, false},
		{"streams16", chat, 16, 0.5, false},
		{"streams64", chat, 64, 0.5, false},
		{"copy", copyPrompts, 1, 0, true},
		{"copyWithDraft", copyPrompts, 1, 0, false},
		{"copyStreams64", copyPrompts, 64, 0, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			with := Config{Name: "polly", KVTokens: 32768}
			if !c.lookupOnly {
				with.Draft = openBuiltin(b, "polly-mini")
			}
			on := startHost(b, openBuiltin(b, "polly"), with)
			off := startHost(b, openBuiltin(b, "polly"), Config{Name: "polly", KVTokens: 32768, NoSpeculation: true})
			comparePairs(b, on, off, c.prompts(b, on), c.streams,
				parley.Sampling{Temperature: c.temperature, TopP: 0.9})
			for d, g := range on.Stats().Guesses {
				if g.Guessed > 0 {
					name := spec.Drafter(d).String()
					b.ReportMetric(float64(g.Right)/float64(g.Guessed), name+"-right")
					b.ReportMetric(float64(g.Guessed)/float64(g.Rounds), name+"-depth")
				}
			}
		})
	}
}

// copyPrompts are conversations in which the same is asked again, and of which
// the model says the same again.
func copyPrompts(b *testing.B, h *Host) (prompts [][]parley.Token) {
	for _, i := range []int{1, 3, 4, 5, 7, 8} {
		turn := chatPrompt(b, h, chatPrompts[i])
		prompts = append(prompts,
			slices.Concat(turn, answer(b, h, &parley.Request{Prompt: turn, MaxTokens: 150}), turn))
	}
	return prompts
}

// comparePairs answers the prompts with both hosts in turn, and reports the
// ratio of their speeds.
func comparePairs(b *testing.B, on, off *Host, prompts [][]parley.Token, streams int, s parley.Sampling) {
	speeds := map[*Host][]float64{}
	hosts := []*Host{on, off}
	var salt parley.Salt // nothing is found in the cache
	for b.Loop() {
		slices.Reverse(hosts)
		salt[0]++
		for _, h := range hosts {
			speeds[h] = append(speeds[h], speed(b, h, prompts, streams, s, salt))
		}
	}
	ratios, err := stat.Ratios(speeds[on][1:], speeds[off][1:]) // the first turn is for warming up
	if err != nil {
		b.Fatal(err)
	}
	bounds := stat.MedianInterval(ratios, 0.95)
	b.ReportMetric(stat.Median(ratios), "ratio")
	b.ReportMetric(bounds.Low, "ratio-low")
	b.ReportMetric(bounds.High, "ratio-high")
	b.ReportMetric(stat.Median(speeds[on]), "tok/s")
}

// speed answers each prompt at least once, so many at a time, and returns the
// tokens written per second: for one stream while it writes, for several over
// all the time.
func speed(b *testing.B, h *Host, prompts [][]parley.Token, streams int, s parley.Sampling, salt parley.Salt) float64 {
	total := max(len(prompts), streams)
	var tokens, writing, next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range streams {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < total; i = int(next.Add(1)) - 1 {
				r := &parley.Request{Prompt: prompts[i%len(prompts)], MaxTokens: 128, Sampling: s, Salt: salt}
				r.Sampling.Seed = uint64(i)
				for d, err := range h.Generate(b.Context(), r) {
					if err != nil {
						b.Error(err)
					}
					tokens.Add(int64(len(d.Tokens)))
					if d.Usage != nil {
						writing.Add(int64(d.Usage.Decode))
					}
				}
			}
		})
	}
	wg.Wait()
	if streams == 1 {
		return float64(tokens.Load()-int64(total)) / time.Duration(writing.Load()).Seconds()
	}
	return float64(tokens.Load()) / time.Since(began).Seconds()
}
