package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/cli/remote"
	"parley/compute"
	"parley/compute/cpu"
	"parley/compute/cuda"
	"parley/internal/load"
	"parley/model"
	"parley/model/weights"
)

// FirstToken is how long the first token of a lone prompt takes, each the best of
// the rounds: what else runs on the machine makes rounds longer only.
type FirstToken struct {
	Prompt int
	// Bare is the network's own time, in passes as large as the server's may be.
	Bare time.Duration
	// New is that of the first request that a server answers on a machine without
	// any pace of the model, Again that of the first one after a restart, and
	// Later that of the second.
	New, Again, Later time.Duration
}

// Ratio is the longest of the served times over the bare one.
func (f FirstToken) Ratio() float64 {
	return float64(max(f.New, f.Again, f.Later)) / float64(f.Bare)
}

// bareLimits are how the bare network is loaded for a prompt: its passes have at most as many tokens as the server's,
// 512 on a processor and 8,192 on a GPU, and its cache is of the server's type.
func (l *Lab) bareLimits(prompt int) model.Limits {
	limits := model.Limits{
		Rows:    512,
		Outputs: 1,
		Blocks:  (prompt + compute.BlockTokens - 1) / compute.BlockTokens,
	}
	if l.GPU {
		limits.Rows, limits.KV = 8192, compute.KVBF16
	}
	return limits
}

// backend opens what the bare network computes on.
func (l *Lab) backend() (compute.Backend, error) {
	if l.GPU {
		return cuda.Open(0)
	}
	return cpu.New(cpu.Options{Threads: l.Threads})
}

// FirstTokens measures lone prompts, bare and served, in turns.
func (l *Lab) FirstTokens(ctx context.Context, m Model, prompts []int) (results []FirstToken, err error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	path, err := l.model(ctx, m)
	if err != nil {
		return nil, err
	}
	if l.scratch, err = os.MkdirTemp("", "parley-first-*"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.scratch)) }()
	for _, n := range prompts {
		f := FirstToken{Prompt: n}
		for round := range l.Rounds {
			if err := l.firstToken(ctx, path, &f); err != nil {
				return results, err
			}
			l.log("prompt of %d, round %d: bare %v, new %v, again %v, later %v",
				n, round+1, f.Bare, f.New, f.Again, f.Later)
		}
		results = append(results, f)
	}
	return results, nil
}

// firstToken measures one round and keeps the best.
func (l *Lab) firstToken(ctx context.Context, path string, f *FirstToken) error {
	bare, err := l.barePrompt(path, f.Prompt)
	if err != nil {
		return err
	}
	best(&f.Bare, bare)
	if err := os.RemoveAll(filepath.Join(l.scratch, "pace")); err != nil {
		return err
	}
	once, err := l.servePrompts(ctx, path, f.Prompt, 1)
	if err != nil {
		return err
	}
	twice, err := l.servePrompts(ctx, path, f.Prompt, 2)
	if err != nil {
		return err
	}
	best(&f.New, once[0])
	best(&f.Again, twice[0])
	best(&f.Later, twice[1])
	return ctx.Err()
}

func best(so *time.Duration, took time.Duration) {
	if *so == 0 || took < *so {
		*so = took
	}
}

// barePrompt returns how long the network alone takes for a prompt, after one that
// does not count.
func (l *Lab) barePrompt(path string, prompt int) (took time.Duration, err error) {
	ck, err := weights.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	backend, err := l.backend()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	limits := l.bareLimits(prompt)
	network, err := model.Load(ck, backend, limits)
	if err != nil {
		return 0, err
	}
	r := newRunner(network, limits.Blocks)
	first := time.Duration(0)
	for range 2 {
		first = took
		begun := time.Now()
		for past := 0; past < prompt; past += limits.Rows {
			r.pass(past, min(limits.Rows, prompt-past))
		}
		took = time.Since(begun)
	}
	l.log("prompt of %d, bare network: first %v, then %v", prompt, first, took)
	return took, nil
}

// servePrompts starts a server and asks it for one token after each of n
// prompts that share nothing, and that its cache holds together.
func (l *Lab) servePrompts(ctx context.Context, path string, prompt, n int) (took []time.Duration, err error) {
	s, err := l.startOurs(ctx, path, room{1, n * (prompt + 64)})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.listens(ctx); err != nil {
		return nil, err
	}
	for i := range n {
		r := fresh(uint64(i+1), prompt, 1)
		record := s.Send(ctx, &r, time.Now())
		if record.Outcome != load.Completed {
			return nil, fmt.Errorf("a prompt of %d tokens was not answered: %s%s",
				prompt, record.Message, s.said.text())
		}
		took = append(took, time.Duration(record.TTFT))
		if err := s.logStages(ctx, l, prompt, i); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// logStages logs what all requests spent in each stage, and how many passes they took, after the request of that
// number.
func (s *server) logStages(ctx context.Context, l *Lab, prompt, number int) error {
	metrics, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	var stages []string
	passes := 0.0
	for _, m := range metrics {
		switch m.Name {
		case "parley_stage_seconds_sum":
			stages = append(stages, fmt.Sprintf("%s %.2f ms", remote.Label(m.Labels, "stage"), 1000*m.Value))
		case "parley_engine_step_seconds_sum":
			stages = append(stages, fmt.Sprintf("passes %.2f ms", 1000*m.Value))
		case "parley_engine_step_seconds_count":
			passes += m.Value
		}
	}
	l.log("prompt of %d, after request %d, %.0f passes: %s", prompt, number+1, passes, strings.Join(stages, ", "))
	return nil
}

// listens returns when the server names its models.
func (s *server) listens(ctx context.Context) error {
	for {
		_, err := s.Models(ctx)
		switch {
		case err == nil:
			return nil
		case time.Since(s.begun) > readyMax:
			return fmt.Errorf("%s answers nothing after %v: %w%s", s.cmd.Path, readyMax, err, s.said.text())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return fmt.Errorf("%s ended: %w%s", s.cmd.Path, errors.Join(s.endedErr), s.said.text())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
