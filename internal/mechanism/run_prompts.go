package mechanism

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"parley"
	"parley/engine/sched"
	"parley/sim/traffic"
	"parley/worker/host"
)

// The prompts of the prefix cache experiment.
const (
	prefixShared = 6000
	prefixNew    = 50
)

// runPrefixCache compares the time to the first token of a prompt that begins
// as one before it did, with and without the cache.
func runPrefixCache(ctx context.Context, l *lab, rounds int) (Sample, error) {
	off, on, err := l.startBoth(random, host.Config{Baseline: sched.Baseline{NoPrefixCache: true}}, host.Config{})
	if err != nil {
		return Sample{}, err
	}
	first := func(ctx context.Context, w parley.Worker, question int) (float64, error) {
		prompt := content.Tokens([]traffic.Part{{Key: 1, Tokens: prefixShared}, {Key: uint64(question), Tokens: prefixNew}})
		a, err := ask(ctx, w, plain(prompt, 1), nil)
		if err != nil {
			return 0, err
		}
		return milliseconds(a.first()), nil
	}
	if _, err := first(ctx, on, 2); err != nil { // from now on the prefix is known
		return Sample{}, err
	}
	s, err := l.alternate(ctx, rounds,
		func(ctx context.Context, round int) (float64, error) { return first(ctx, off, 10+round) },
		func(ctx context.Context, round int) (float64, error) { return first(ctx, on, 10+round) })
	s.Note = fmt.Sprintf("%d tokens known and %d new", prefixShared, prefixNew)
	return s, err
}

// A jam is a load in which prompts arrive while streams write.
type jam struct {
	streams int
	prompt  int           // tokens of each prompt
	pause   time.Duration // between an answer's first token and the next prompt
	// It lasts for least, and then until a prompt has been read, but not longer
	// than most.
	least, most time.Duration
}

// runChunkedPrefill compares the gaps in running answers while long prompts
// arrive that are computed whole, and in chunks.
func runChunkedPrefill(ctx context.Context, l *lab, rounds int) (Sample, error) {
	cfg := host.Config{NoSpeculation: true}
	whole := cfg
	whole.Baseline, whole.StepTokens = sched.Baseline{WholePrompts: true}, randomTokens/2
	off, on, err := l.startBoth(random, whole, cfg)
	if err != nil {
		return Sample{}, err
	}
	j := jam{streams: 8, prompt: 2000, pause: 500 * time.Millisecond, least: 5 * time.Second, most: time.Minute}
	if l.Quick {
		j.least = 3 * time.Second
	}
	worst := func(h *host.Host) side {
		return func(ctx context.Context, round int) (float64, error) {
			gaps, _, err := j.gaps(ctx, h, round)
			return percentile(gaps, 0.99), err
		}
	}
	s, err := l.alternate(ctx, rounds, worst(off), worst(on))
	s.Note = fmt.Sprintf("%d streams, prompts of %d tokens one after the other", j.streams, j.prompt)
	return s, err
}

// runGap measures the gaps in running answers at their worst: many streams, and
// prompts that fill the context one after the other.
func runGap(ctx context.Context, l *lab, rounds int) (Sample, error) {
	h, err := l.start(random, host.Config{NoSpeculation: true, Target: TargetDefault})
	if err != nil {
		return Sample{}, err
	}
	j := jam{streams: 16, prompt: randomTokens - 1, least: 30 * time.Second, most: 2 * time.Minute}
	if l.Quick {
		j.least, j.most = 10*time.Second, 10*time.Second
	}
	var s Sample
	for round := range rounds {
		gaps, prompts, err := j.gaps(ctx, h, round)
		if err != nil {
			return s, err
		}
		s.On = append(s.On, percentile(gaps, 0.999))
		s.Note = fmt.Sprintf("%d gaps, median %.1f ms, longest %.1f ms, while %d prompts of %d tokens were read",
			len(gaps), percentile(gaps, 0.5), percentile(gaps, 1), prompts, j.prompt)
		l.step(2)
	}
	return s, nil
}

// gaps lets streams write, then sends prompts one after the other, and returns
// the gaps between the streams' tokens since the first prompt was sent, and how
// many prompts were read.
func (j *jam) gaps(ctx context.Context, h *host.Host, round int) (gaps []time.Duration, read int, err error) {
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	var requests []*parley.Request
	for i := range j.streams {
		requests = append(requests, plain(fresh(round*1000+i, 32), 0))
	}
	var ready atomic.Int64
	begin := make(chan struct{})
	streams := send(writing, h, requests, func(token int) bool {
		if token == 8 && ready.Add(1) == int64(j.streams) {
			close(begin)
		}
		return writing.Err() == nil
	})
	select {
	case <-begin:
	case <-ctx.Done():
	}
	began := time.Now()
	bounded, stop := context.WithTimeout(ctx, j.most)
	defer stop()
	for read == 0 || time.Since(began) < j.least {
		_, err := ask(bounded, h, plain(fresh(round*1000+500+read, j.prompt), 1), nil)
		if bounded.Err() != nil {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		read++
		time.Sleep(j.pause)
	}
	cancel()
	answers, err := streams.wait()
	if err != nil {
		return nil, 0, err
	}
	for i := range answers {
		gaps = append(gaps, answers[i].gapsAfter(began)...)
	}
	return gaps, read, waitIdle(ctx, h)
}
