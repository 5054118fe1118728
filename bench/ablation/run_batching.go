package ablation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"parley"
	"parley/engine/sched"
	"parley/internal/stat"
	"parley/worker/host"
)

// The load of the batching experiment: Azure's answers at a quarter of their
// length, so that the skew stays and a round takes seconds, after prompts that
// cost next to nothing.
const (
	batchSeats    = 16
	batchPrompt   = 8
	batchShorter  = 4
	batchRequests = 6 * batchSeats
)

// runBatching compares continuous batching with the static kind, as its
// inventors describe it: a batch is computed until its longest answer is
// complete, rows of answers that ended before included, and only then may
// others begin. Tokens beyond the end of an answer count for nothing.
func runBatching(ctx context.Context, l *lab, rounds int) (Sample, error) {
	cfg := host.Config{Seqs: batchSeats, NoSpeculation: true}
	static := cfg
	static.Baseline = sched.Baseline{StaticBatches: true}
	off, on, err := l.startBoth(polly, static, cfg)
	if err != nil {
		return Sample{}, err
	}
	for _, h := range []*host.Host{off, on} { // so that memory is touched and the pace is known
		if _, err := together(ctx, h, batchRequestsOf(batchLengths(0)[:2*batchSeats])); err != nil {
			return Sample{}, err
		}
	}
	s, err := l.alternate(ctx, rounds,
		func(ctx context.Context, round int) (float64, error) {
			return inBatches(ctx, off, batchLengths(round), true)
		},
		func(ctx context.Context, round int) (float64, error) {
			return together(ctx, on, batchRequestsOf(batchLengths(round)))
		})
	if err != nil {
		return s, err
	}
	kind, err := inBatches(ctx, off, batchLengths(0), false)
	s.Note = fmt.Sprintf(
		"%d seats, answers as long as Azure's over %d; %.2fx over batches that do not compute what has ended",
		batchSeats, batchShorter, stat.Median(s.On)/kind)
	return s, err
}

func batchLengths(round int) []int {
	rng := rand.New(rand.NewPCG(uint64(round), 1))
	out := make([]int, batchRequests)
	for i := range out {
		out[i] = max(2, azureAnswers.draw(rng)/batchShorter)
	}
	return out
}

func batchRequestsOf(answers []int) (out []*parley.Request) {
	for i, n := range answers {
		out = append(out, plain(fresh(i, batchPrompt), n))
	}
	return out
}

// inBatches sends a batch while the one before it is computed, so that it stands
// ready as that one ends, and returns the wanted tokens per second. If padded,
// every request of a batch is computed as long as the longest.
func inBatches(ctx context.Context, w parley.Worker, answers []int, padded bool) (float64, error) {
	started := make(chan struct{})
	before := send(ctx, w, []*parley.Request{plain(fresh(len(answers), batchPrompt), 64)}, func(token int) bool {
		if token == 1 {
			close(started)
		}
		return true
	})
	select {
	case <-started:
	case <-ctx.Done():
	}
	var began time.Time
	wanted := 0
	for i := 0; i < len(answers); i += batchSeats {
		batch := batchRequestsOf(answers[i:min(i+batchSeats, len(answers))])
		longest := 0
		for _, r := range batch {
			wanted += r.MaxTokens
			longest = max(longest, r.MaxTokens)
		}
		for _, r := range batch {
			if padded {
				r.MaxTokens = longest
			}
		}
		next := send(ctx, w, batch, nil)
		if _, err := before.wait(); err != nil {
			return 0, err
		}
		if i == 0 {
			began = time.Now()
		}
		before = next
	}
	_, err := before.wait()
	return float64(wanted) / time.Since(began).Seconds(), err
}
