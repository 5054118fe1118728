package host

import (
	"os"
	"sync"
	"testing"

	"parley"
	"parley/internal/builtin"
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
				r := &parley.Request{Prompt: make([]parley.Token, prompt), MaxTokens: output, Stop: parley.Stop{IgnoreEnd: true}, Salt: parley.Salt{salt}}
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
	available, err := AvailableBytes()
	if err != nil {
		t.Fatal(err)
	}
	plans, err := PlanMemory([]Candidate{{ck, cfg}}, available)
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
