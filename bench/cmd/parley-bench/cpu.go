package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/bench/llamacpp"
	"parley/compute/cpu"
	"parley/model/weights"
)

// cpuFlags are what bench cpu can be told.
type cpuFlags struct {
	llamaBench, llamaServer string
	parley                  string
	models, keep, numerics  string
	only                    []string
	threads, rounds         int
	json                    bool

	// What the processes that it starts are told.
	measure          string
	prompt, generate int
	burn             bool
}

func newCPU() *cobra.Command {
	f := &cpuFlags{}
	cmd := &cobra.Command{
		Use:   "cpu",
		Short: "Compare with llama.cpp on this machine, against bars",
		Long: `Compare Parley with llama.cpp on this machine: the same files, the same number of
threads, in turns. Build llama.cpp first, and leave the machine alone meanwhile.

The bare networks are compared as llama-bench does it (a prompt of 512 tokens, and 128
tokens one by one), then the servers: 8 streams, a prompt that is mostly cached, 64
streams while long prompts come, a busy neighbour, memory, start. Random models of real
shapes are written first, some 8 GB, and kept for the next time.

Each check has a bar. Its result is the median over the rounds, with the interval in
which the true median lies with the probability printed beside it: five rounds give at
most 93.75%, six 96.9%. A check is met if the whole interval is beyond the bar, missed
if none of it is, and unclear otherwise. The exit code is 1 if any check is missed.`,
		Example: `  parley-bench cpu --llama-bench ~/llama.cpp/build/bin/llama-bench --llama-server ~/llama.cpp/build/bin/llama-server
  parley-bench cpu --only decode,prefill --rounds 9        the bare networks alone
  parley-bench cpu --only llama-135m --keep bench/results  the small model, kept in bench/results
  parley-bench cpu chart bench/results/2026-11-15-peer.json > peer.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	cmd.AddCommand(newCPUChart())
	return cmd
}

func (f *cpuFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	addParley(flags, &f.parley)
	flags.StringVar(&f.llamaBench, "llama-bench", "llama-bench", "`PATH` of llama.cpp's llama-bench")
	flags.StringVar(&f.llamaServer, "llama-server", "llama-server", "`PATH` of llama.cpp's llama-server")
	flags.StringVar(&f.models, "models", modelsDir(), "keep random models in this `DIRECTORY`")
	flags.StringVar(&f.keep, "keep", "",
		"keep the report in this `DIRECTORY`, as text and as JSON under today's date, beside those of the same day")
	flags.StringVar(&f.numerics, "numerics", cpu.Exact.String(), "compute with `exact` or fast numerics")
	flags.StringSliceVar(&f.only, "only", nil, "run only the checks with one of these `WORDS` in their names")
	flags.IntVar(&f.threads, "threads", runtime.NumCPU(), "compute with this `NUMBER` of threads, on both sides")
	flags.IntVar(&f.rounds, "rounds", 6, "measure everything this `NUMBER` of times")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.StringVar(&f.measure, "measure", "", "measure this model alone and print its speed")
	flags.IntVar(&f.prompt, "prompt", 512, "with --measure, tokens of the prompt")
	flags.IntVar(&f.generate, "generate", 128, "with --measure, tokens to generate")
	flags.BoolVar(&f.burn, "burn", false, "keep a processor busy until the input ends")
	for _, hidden := range []string{"measure", "prompt", "generate", "burn"} {
		if err := flags.MarkHidden(hidden); err != nil {
			panic(err) // the flag does not exist: a mistake in this file
		}
	}
}

// modelsDir is where random models are kept by default.
func modelsDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "parley", "bench")
}

func (f *cpuFlags) run(cmd *cobra.Command) error {
	switch {
	case f.burn:
		return llamacpp.Burn(cmd.InOrStdin(), cmd.OutOrStdout())
	case f.measure != "":
		return f.measureAlone(cmd.OutOrStdout())
	}
	lab, err := f.lab(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	report, err := lab.Run(cmd.Context())
	if report == nil || len(report.Results) == 0 {
		return interruptedOr(cmd.Context(), err)
	}
	report.Program, report.Machine = program(), machineText()
	err = errors.Join(interruptedOr(cmd.Context(), err), f.keepReport(report))
	if f.json {
		err = errors.Join(err, printJSON(cmd.OutOrStdout(), report))
	} else {
		err = errors.Join(err, report.WriteText(cmd.OutOrStdout()))
	}
	if missed := report.Missed(); len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("missed: %s", strings.Join(missed, ", ")))
	}
	return err
}

func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the report is of a part of the run: %w", errInterrupted)
	}
	return err
}

// lab returns where the comparison takes place.
func (f *cpuFlags) lab(messages io.Writer) (*llamacpp.Lab, error) {
	if !slices.Contains(numericsNames, f.numerics) {
		return nil, fmt.Errorf("--numerics %s: expected one of %s: %w", f.numerics, strings.Join(numericsNames, ", "),
			errUsage)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &llamacpp.Lab{
		Self:    self,
		Models:  f.models,
		Threads: f.threads,
		Fast:    f.numerics == cpu.Fast.String(),
		Rounds:  f.rounds,
		Only:    f.only,
		Log: func(format string, args ...any) {
			fmt.Fprintf(messages, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
		},
	}
	if l.Parley, err = findParley(f.parley); err != nil {
		return nil, err
	}
	var missing [2]error
	l.LlamaBench, missing[0] = exec.LookPath(f.llamaBench)
	l.LlamaServer, missing[1] = exec.LookPath(f.llamaServer)
	if err := errors.Join(missing[:]...); err != nil {
		return nil, fmt.Errorf("%w: build llama.cpp, and say where with --llama-bench and --llama-server", err)
	}
	return l, nil
}

// measureAlone is what the comparison starts as a process of its own.
func (f *cpuFlags) measureAlone(out io.Writer) error {
	numerics, err := cpu.ParseNumerics(f.numerics)
	if err != nil {
		return err
	}
	ck, err := weights.Open(f.measure)
	if err != nil {
		return err
	}
	defer ck.Close()
	speed, err := llamacpp.Measure(ck, cpu.Options{Threads: f.threads, Numerics: numerics},
		llamacpp.Length{Prompt: f.prompt, Generate: f.generate})
	if err != nil {
		return err
	}
	return printJSON(out, speed)
}

var numericsNames = []string{cpu.Exact.String(), cpu.Fast.String()}

// keepReport writes the report under today's date, if it is to be kept.
func (f *cpuFlags) keepReport(r *llamacpp.Report) error {
	if f.keep == "" {
		return nil
	}
	if err := os.MkdirAll(f.keep, 0o755); err != nil {
		return err
	}
	base := unusedBase(filepath.Join(f.keep, r.Started.UTC().Format(time.DateOnly)+"-peer"), ".txt", ".json")
	return errors.Join(
		writeFile(base+".txt", r.WriteText),
		writeFile(base+".json", func(w io.Writer) error { return printJSON(w, r) }))
}

// unusedBase returns base, or base with a number behind it if a file with one of
// the endings is there already.
func unusedBase(base string, endings ...string) string {
	taken := func(base string) bool {
		return slices.ContainsFunc(endings, func(ending string) bool {
			_, err := os.Lstat(base + ending)
			return err == nil
		})
	}
	name := base
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

func newCPUChart() *cobra.Command {
	return &cobra.Command{
		Use:   "chart REPORT.json",
		Short: "Draw a kept report as an SVG picture",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			report, err := llamacpp.ReadReport(f)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			plot, err := report.Plot()
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return plot.WriteSVG(cmd.OutOrStdout())
		},
	}
}
