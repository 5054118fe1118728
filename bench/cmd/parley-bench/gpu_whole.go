package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/bench/gpu"
	"parley/model/weights"
)

// A wholeCheck is a measurement of more than single passes, with its bar on one H200.
type wholeCheck struct {
	name string
	run  func(ctx context.Context, f *gpuFlags) (wholeResult, error)
}

// A wholeResult is what was measured, in a line for people.
type wholeResult struct {
	text string
	met  bool
}

// The work of the checks: 256 requests with prompts and answers of 100 to 1,024
// tokens; 200 prompts of 8,000 tokens over 64 streams; 1 GB of blocks.
var (
	offlineBatch  = gpu.Batch{Requests: 256, Shortest: 100, Longest: 1024}
	gapTarget     = 50 * time.Millisecond
	gapStreams    = 64
	gapPrompts    = 200
	gapPrompt     = 8000
	copyBytes     = int64(1 << 30)
	copyMost      = 1.2
	loadMost      = 1.3
	servedLeast   = 0.9
	offlineTokens = 360_000 // more than all requests of the batch together
)

var wholeChecks = []wholeCheck{
	{"offline-0.6b", func(ctx context.Context, f *gpuFlags) (wholeResult, error) {
		return offlineCheck(ctx, f, "qwen3-0.6b", 25000)
	}},
	{"offline-14b", func(ctx context.Context, f *gpuFlags) (wholeResult, error) {
		return offlineCheck(ctx, f, "qwen3-14b", 6500)
	}},
	{"served-0.6b", func(ctx context.Context, f *gpuFlags) (wholeResult, error) {
		return servedCheck(ctx, f, "qwen3-0.6b")
	}},
	{"served-14b", func(ctx context.Context, f *gpuFlags) (wholeResult, error) {
		return servedCheck(ctx, f, "qwen3-14b")
	}},
	{"load-8b", loadCheck},
	{"gaps", gapCheck},
	{"copies", copyCheck},
	{"overlap", overlapCheck},
}

func newGPUWhole(f *gpuFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whole [CHECK...]",
		Short: "Measure the engine, a served model and copies of blocks on a GPU, against bars",
		Long: `Measure more than single passes: 256 requests through the engine (offline) and through
` + "`parley serve`" + ` (served, as a share of offline), the gaps of 64 streams while 200 prompts of
8,000 tokens arrive (gaps), 1 GB of blocks copied to host memory and back (copies), and passes
while blocks are restored (overlap).
Without names, all are measured; the command fails if a bar is missed.`,
		Example: `  parley-bench gpu whole
  parley-bench gpu whole offline-0.6b served-0.6b`,
		ValidArgs: checkNames(),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWhole(cmd.Context(), cmd.OutOrStdout(), f, args)
		},
	}
	cmd.Flags().IntVar(&f.device, "device", 0, "`NUMBER` of the GPU")
	cmd.Flags().StringVar(&f.parley, "parley", "parley", "`PATH` of the program that serves")
	return cmd
}

func checkNames() (names []string) {
	for _, c := range wholeChecks {
		names = append(names, c.name)
	}
	return names
}

// runWhole runs the named checks, all without names.
func runWhole(ctx context.Context, out io.Writer, f *gpuFlags, names []string) error {
	var missed []string
	for _, c := range wholeChecks {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		result, err := c.run(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		word := "met"
		if !result.met {
			word = "missed"
			missed = append(missed, c.name)
		}
		fmt.Fprintf(out, "%-13s %s: %s\n", c.name, result.text, word)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d bars are missed: %s", len(missed), strings.Join(missed, ", "))
	}
	return nil
}

// offline computes the batch twice, so that kernels are compiled and graphs recorded
// before what is measured, and returns output tokens a second of the second run.
func offline(ctx context.Context, f *gpuFlags, shape string) (rate float64, err error) {
	b, err := openBench(f, shape, offlineTokens, 0)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	var took time.Duration
	for run := range 2 {
		if took, err = b.Offline(ctx, offlineBatch, run); err != nil {
			return 0, err
		}
	}
	rate = float64(offlineBatch.OutputTokens()) / took.Seconds()
	if f.offline == nil {
		f.offline = map[string]float64{}
	}
	f.offline[shape], f.engine = rate, b.Described()
	return rate, nil
}

func openBench(f *gpuFlags, name string, tokens int, target time.Duration) (*gpu.Bench, error) {
	shape, err := weights.ShapeNamed(name)
	if err != nil {
		return nil, err
	}
	ck, err := weights.RandomCheckpoint(shape, weights.BF16, 1)
	if err != nil {
		return nil, err
	}
	return gpu.Open(ck, f.device, tokens, target)
}

func offlineCheck(ctx context.Context, f *gpuFlags, shape string, least float64) (wholeResult, error) {
	rate, err := offline(ctx, f, shape)
	text := fmt.Sprintf("%.0f tok/s of 256 requests, bar %.0f; %s", rate, least, f.engine)
	return wholeResult{text, rate >= least}, err
}

// servedCheck compares with the engine alone, which is measured first if it was not.
func servedCheck(ctx context.Context, f *gpuFlags, name string) (wholeResult, error) {
	alone, ok := f.offline[name]
	var err error
	if !ok {
		if alone, err = offline(ctx, f, name); err != nil {
			return wholeResult{}, err
		}
	}
	shape, err := weights.ShapeNamed(name)
	if err != nil {
		return wholeResult{}, err
	}
	device := fmt.Sprintf("cuda:%d", f.device)
	took, described, err := gpu.Served(ctx, f.parley, shape, weights.BF16, device, offlineBatch)
	if err != nil {
		return wholeResult{}, err
	}
	rate := float64(offlineBatch.OutputTokens()) / took.Seconds()
	text := fmt.Sprintf("%.0f tok/s through HTTP, %.2f of %.0f offline, bar %.2f; %s",
		rate, rate/alone, alone, servedLeast, described)
	return wholeResult{text, rate/alone >= servedLeast}, nil
}

func gapCheck(ctx context.Context, f *gpuFlags) (wholeResult, error) {
	b, err := openBench(f, "llama-8b", gpu.GapTokens(gapStreams, gapPrompt), gapTarget)
	if err != nil {
		return wholeResult{}, err
	}
	defer b.Close()
	g, err := b.Arrivals(ctx, gapStreams, gapPrompts, gapPrompt)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	text := fmt.Sprintf("gaps p50 %.1f, p99 %.1f, p99.9 %.1f, longest %.1f ms while %d prompts of %d tokens arrive, "+
		"bar p99.9 %.0f ms", ms(g.P50), ms(g.P99), ms(g.P999), ms(g.Most), gapPrompts, gapPrompt, ms(2*gapTarget))
	return wholeResult{text, g.P999 <= 2*gapTarget}, err
}

// loadCheck compares with a plain copy of the same bytes from memory that is not pinned.
func loadCheck(_ context.Context, f *gpuFlags) (wholeResult, error) {
	shape, err := weights.ShapeNamed("llama-8b")
	if err != nil {
		return wholeResult{}, err
	}
	ck, err := weights.RandomCheckpoint(shape, weights.BF16, 1)
	if err != nil {
		return wholeResult{}, err
	}
	l, err := gpu.MeasureLoad(ck, f.device)
	text := fmt.Sprintf("%.1f GB of weights in %.2f s, as plain copies in %.2f s: %.2f times, bar %.2f",
		float64(l.Bytes)/1e9, l.Model.Seconds(), l.Plain.Seconds(), l.Ratio(), loadMost)
	return wholeResult{text, err == nil && l.Ratio() <= loadMost}, err
}

func copyCheck(_ context.Context, f *gpuFlags) (wholeResult, error) {
	shape, err := weights.ShapeNamed("llama-8b")
	if err != nil {
		return wholeResult{}, err
	}
	c, err := gpu.MeasureCopies(&shape.Config, f.device, copyBytes)
	text := fmt.Sprintf("%d MiB in blocks to host memory %v and back %v, in one piece both ways %v: %.2f times, "+
		"bar %.2f; restored in %.1f ms a GB", c.Bytes>>20, c.Offload, c.Restore, c.Plain, c.Ratio(), copyMost,
		float64(c.RestorePerGB().Microseconds())/1000)
	return wholeResult{text, err == nil && c.Ratio() <= copyMost}, err
}

// overlapMost is how many times as long a pass may take while blocks are restored.
const overlapMost = 1.25

func overlapCheck(_ context.Context, f *gpuFlags) (wholeResult, error) {
	shape, err := weights.ShapeNamed("qwen3-0.6b")
	if err != nil {
		return wholeResult{}, err
	}
	ck, err := weights.RandomCheckpoint(shape, weights.BF16, 1)
	if err != nil {
		return wholeResult{}, err
	}
	o, err := gpu.MeasureOverlap(ck, f.device, gpu.Load{Batch: 32, Context: 512}, copyBytes)
	ratio := float64(o.Restored) / float64(max(o.Alone, 1))
	text := fmt.Sprintf("a pass of 32 sequences %v, while %d MiB of blocks are restored in %v %v: %.2f times, bar %.2f",
		o.Alone, o.Bytes>>20, o.Copies, o.Restored, ratio, overlapMost)
	return wholeResult{text, err == nil && ratio <= overlapMost}, err
}
