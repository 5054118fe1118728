package ablation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/sched"
	"parley/worker/host"
)

// The load of the paging experiment: a pool in which three whole contexts and a
// little can be reserved, and more users than it ever holds.
const (
	pagingPool  = 3*randomTokens + randomTokens/8
	pagingUsers = 64
)

// runPaging compares how many requests run at once in the same memory when each
// reserves the longest answer it may have, and when each takes blocks as it
// grows. The length of an answer is not known before; readers leave when theirs is
// as long as the trace's.
func runPaging(ctx context.Context, l *lab, rounds int) (Sample, error) {
	cfg := host.Config{KVTokens: pagingPool, NoSpeculation: true}
	reserved := cfg
	reserved.Baseline = sched.Baseline{ReserveWhole: true}
	off, on, err := l.startBoth(random, reserved, cfg)
	if err != nil {
		return Sample{}, err
	}
	length := 4 * time.Second
	if l.Quick {
		length = 2 * time.Second
	}
	s, err := l.alternate(ctx, rounds,
		func(ctx context.Context, round int) (float64, error) { return runningOf(ctx, off, round, length) },
		func(ctx context.Context, round int) (float64, error) { return runningOf(ctx, on, round, length) })
	s.Note = fmt.Sprintf("a pool of %d tokens, prompts and answers as long as Azure's, a context of %d", pagingPool,
		randomTokens)
	return s, err
}

// runningOf keeps a host busy and returns how many requests ran at once on
// average, after the first quarter.
func runningOf(ctx context.Context, h *host.Host, round int, length time.Duration) (float64, error) {
	bounded, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, pagingUsers)
	for u := range pagingUsers {
		wg.Go(func() {
			if err := azureUser(bounded, h, round*pagingUsers+u); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	mean := sampled(bounded, length/4, func() float64 { return float64(h.Stats().Running) })
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return 0, err
	}
	return mean, waitIdle(ctx, h)
}

// azureUser asks one question after the other until ctx ends.
func azureUser(ctx context.Context, w parley.Worker, user int) error {
	rng, room := rand.New(rand.NewPCG(uint64(user), 2)), w.Models()[0].ContextTokens
	for n := 0; ctx.Err() == nil; n++ {
		prompt, output := azurePrompts.draw(rng), azureAnswers.draw(rng)
		if prompt+output >= room {
			continue
		}
		r := plain(fresh(user*1000+n, prompt), 0)
		_, err := ask(ctx, w, r, func(token int) bool { return token < output })
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// sampled returns the mean of a value that it reads often, from warmUp after its
// call until ctx ends.
func sampled(ctx context.Context, warmUp time.Duration, value func() float64) float64 {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	var sum, n float64
	for {
		select {
		case <-ctx.Done():
			return sum / max(n, 1)
		case now := <-tick.C:
			if now.Sub(began) >= warmUp {
				sum += value()
				n++
			}
		}
	}
}

// waitIdle waits until a host has let go of all requests.
func waitIdle(ctx context.Context, h *host.Host) error {
	for h.Stats().Running > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// The load of the int8 experiment: room for a number of sessions in bfloat16, and a
// half for the scheduler's reserve; each session reserves all it needs, so that
// what runs at once really fits.
const (
	kvSessions      = 32
	kvSessionTokens = 96
	kvAnswer        = 32
)

// runInt8KV compares how many sessions write at once when keys and values are
// kept as bfloat16 and as int8, in the same bytes.
func runInt8KV(ctx context.Context, l *lab, rounds int) (Sample, error) {
	shape, err := l.kvShape()
	if err != nil {
		return Sample{}, err
	}
	budget := kvBytes(shape, compute.KVBF16) * (kvSessions*kvSessionTokens + kvSessionTokens/2) / compute.BlockTokens
	start := func(kind compute.KVType) (*host.Host, error) {
		return l.start(random, host.Config{
			KVType:        kind,
			KVTokens:      int(budget/kvBytes(shape, kind)) * compute.BlockTokens,
			ContextTokens: kvSessionTokens,
			Target:        -1,
			NoSpeculation: true,
			Baseline:      sched.Baseline{ReserveWhole: true},
		})
	}
	off, err := start(compute.KVBF16)
	if err != nil {
		return Sample{}, err
	}
	on, err := start(compute.KVInt8)
	if err != nil {
		return Sample{}, err
	}
	s, err := l.alternate(ctx, rounds,
		func(ctx context.Context, round int) (float64, error) { return sessionsOf(ctx, off, round) },
		func(ctx context.Context, round int) (float64, error) { return sessionsOf(ctx, on, round) })
	s.Note = fmt.Sprintf("%s of keys and values, sessions of %d tokens, all writing at the same moment",
		host.Size(budget), kvSessionTokens)
	return s, err
}

// kvShape returns the geometry of one block of the random model.
func (l *lab) kvShape() (compute.KVShape, error) {
	ck, err := l.checkpoint(random)
	if err != nil {
		return compute.KVShape{}, err
	}
	defer ck.Close()
	c := &ck.Config
	return compute.KVShape{Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Blocks: 1}, nil
}

// kvBytes returns the bytes of a block in a type.
func kvBytes(shape compute.KVShape, kind compute.KVType) int64 {
	shape.Type = kind
	return shape.BlockBytes()
}

// sessionsOf sends more sessions than fit and returns how many were writing at
// the same moment.
func sessionsOf(ctx context.Context, h *host.Host, round int) (float64, error) {
	var requests []*parley.Request
	for i := range kvSessions * 9 / 4 {
		requests = append(requests, plain(fresh(round*1000+i, kvSessionTokens-kvAnswer), kvAnswer))
	}
	answers, err := send(ctx, h, requests, nil).wait()
	if err != nil {
		return 0, err
	}
	var writing []spell
	for i := range answers {
		writing = append(writing, spell{answers[i].came[0], answers[i].last()})
	}
	return float64(mostAtOnce(writing)), nil
}
