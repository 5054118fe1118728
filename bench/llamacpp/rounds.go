package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"parley/model/weights"
)

// A Lab is where the comparison takes place. All fields must be set but Log.
type Lab struct {
	// Parley, LlamaBench and LlamaServer are the programs.
	Parley, LlamaBench, LlamaServer string
	// Self is the program that measures our own network and burns a processor: this one.
	Self string
	// Models is the directory where random models are kept for the next run.
	Models string
	// Threads is how many threads each side computes with.
	Threads int
	// GPU is whether first tokens are measured on the first GPU.
	GPU bool
	// Fast lets Parley compute with fast numerics.
	Fast bool
	// Rounds is how often each check is measured.
	Rounds int
	// Only has parts of the names of the checks to run; none means all.
	Only []string
	// Log is told what is being done; nil discards it.
	Log func(format string, args ...any)

	scratch   string
	meter     meter
	bandwidth []float64
}

// RoundsMax bounds the rounds: a slip of the keyboard should not keep a machine
// busy for days.
const RoundsMax = 100

func (l *Lab) validate() error {
	if l.Rounds < 1 || l.Rounds > RoundsMax {
		return fmt.Errorf("%d rounds: expected 1 to %d", l.Rounds, RoundsMax)
	}
	if l.Threads < 1 {
		return fmt.Errorf("%d threads: expected 1 or more", l.Threads)
	}
	return nil
}

// Run goes through the table. It returns what was measured so far together
// with an error that ended it early.
func (l *Lab) Run(ctx context.Context) (report *Report, err error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	chosen, err := selected(experiments(l.Fast), l.Only)
	if err != nil {
		return nil, err
	}
	version, err := l.peerVersion(ctx)
	if err != nil {
		return nil, err
	}
	if l.scratch, err = os.MkdirTemp("", "parley-peer-*"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.scratch)) }()
	report = &Report{
		Schema:  Schema,
		Peer:    version,
		Threads: l.Threads,
		Fast:    l.Fast,
		Started: time.Now(),
	}
	for _, e := range chosen {
		samples, fault := l.experiment(ctx, e)
		for i := 0; i < len(samples) && fault == nil; i++ {
			var result Result
			if result, fault = judge(e.checks[i], samples[i]); fault == nil {
				report.Results = append(report.Results, result)
				l.log("%s %s: %s, bar %g", result.Verdict, result.Name, result.scoreText(), result.Bar)
			}
		}
		if fault != nil {
			err = fmt.Errorf("%s: %w", e.checks[0].Name, fault)
			break
		}
	}
	report.BandwidthGB, report.Seconds = l.bandwidth, time.Since(report.Started).Seconds()
	return report, err
}

func (l *Lab) log(format string, args ...any) {
	if l.Log != nil {
		l.Log(format, args...)
	}
}

// numerics are the arguments that Parley's programs need for the numerics.
func (l *Lab) numerics() []string {
	if l.Fast {
		return []string{"--numerics", "fast"}
	}
	return nil
}

// experiment measures all rounds of the checks, in the order of e.checks.
func (l *Lab) experiment(ctx context.Context, e experiment) ([]Sample, error) {
	path, err := l.model(ctx, e.model)
	if err != nil {
		return nil, err
	}
	t, err := l.begin(ctx, e, path)
	if err != nil {
		return nil, err
	}
	defer t.end()
	samples := make([]Sample, len(e.checks))
	for round := range l.Rounds {
		l.log("%s: round %d of %d", e.checks[0].Name, round+1, l.Rounds)
		if err := t.round(ctx, round, samples); err != nil {
			return nil, err
		}
	}
	for i := range samples {
		samples[i].Notes = t.notes()
	}
	return samples, nil
}

// model returns the file of a random model, which is written if it is not there
// yet. A file with that name is always complete.
func (l *Lab) model(ctx context.Context, m Model) (string, error) {
	path := filepath.Join(l.Models, m.Name()+".gguf")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	l.log("writing %s", path)
	shape, err := weights.ShapeNamed(m.Shape)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(l.Models, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(l.Models, m.Name()+".*")
	if err != nil {
		return "", err
	}
	_, err = weights.WriteRandom(untilDone{ctx, f}, shape, m.Quant, 1, nil)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return path, os.Rename(f.Name(), path)
}

// An untilDone writes until its context ends: a large model takes minutes.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

// Write fails once the context has ended.
func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}
