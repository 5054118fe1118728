package ablation

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
		prompt := content.Tokens([]traffic.Part{{Key: 1, Tokens: prefixShared},
			{Key: uint64(question), Tokens: prefixNew}})
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

// A jam is a load in which prompts of one tenant arrive while streams of others
// write.
type jam struct {
	// Each of the streams writes one answer of answerTokens after the other.
	streams, answerTokens int

	prompt int           // tokens of each prompt
	pause  time.Duration // between an answer's first token and the next prompt
	// It lasts for least, and then until a prompt has been read, but not longer
	// than most.
	least, most time.Duration
}

// longAnswer is longer than 95 of 100 answers in Azure's conversations.
const longAnswer = 512

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
	j := jam{
		streams:      8,
		answerTokens: longAnswer,
		prompt:       2000,
		pause:        500 * time.Millisecond,
		least:        5 * time.Second,
		most:         time.Minute,
	}
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
	j := jam{
		streams:      16,
		answerTokens: longAnswer,
		prompt:       randomTokens - 1,
		least:        30 * time.Second,
		most:         2 * time.Minute,
	}
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
	crowd := j.write(writing, h, round)
	select {
	case <-crowd.all:
	case <-ctx.Done():
	}
	began := time.Now()
	bounded, stop := context.WithTimeout(ctx, j.most)
	defer stop()
	for read == 0 || time.Since(began) < j.least {
		_, err := ask(bounded, h, plain(fresh(round*1_000_000+500_000+read, j.prompt), 1), nil)
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
	answers, err := crowd.wait()
	if err != nil {
		return nil, 0, err
	}
	for i := range answers {
		gaps = append(gaps, answers[i].gapsAfter(began)...)
	}
	return gaps, read, waitIdle(ctx, h)
}

// writers are the streams of a jam under way.
type writers struct {
	wg  sync.WaitGroup
	all chan struct{} // closed when each of them writes

	mu      sync.Mutex
	answers []answer
	errs    []error
}

// write lets the streams write until ctx ends.
func (j *jam) write(ctx context.Context, h *host.Host, round int) *writers {
	w := &writers{all: make(chan struct{})}
	var ready atomic.Int64
	for i := range j.streams {
		w.wg.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				// The first answers are of different lengths, so that later ones do not end together.
				tokens := j.answerTokens
				if turn == 0 {
					tokens = j.answerTokens * (i + 1) / j.streams
				}
				r := plain(fresh(round*1_000_000+i*1000+turn, 32), tokens)
				r.Tenant = fmt.Sprintf("stream %d", i)
				a, err := ask(ctx, h, r, func(token int) bool {
					if turn == 0 && token == 8 && ready.Add(1) == int64(j.streams) {
						close(w.all)
					}
					return ctx.Err() == nil
				})
				w.add(a, err, ctx)
			}
		})
	}
	return w
}

// add keeps an answer. One that was cut off before its first token is not an error.
func (w *writers) add(a answer, err error, ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.answers = append(w.answers, a)
	} else if ctx.Err() == nil {
		w.errs = append(w.errs, err)
	}
}

// wait returns the answers when no stream writes any more.
func (w *writers) wait() ([]answer, error) {
	w.wg.Wait()
	return w.answers, errors.Join(w.errs...)
}
