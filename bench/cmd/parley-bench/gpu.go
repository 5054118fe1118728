package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/bench/gpu"
	"parley/compute"
	"parley/compute/cuda"
	"parley/compute/libcuda"
	"parley/model/weights"
)

// gpuFlags are what bench gpu can be told.
type gpuFlags struct {
	device  int
	shapes  []string
	loads   []string
	kvType  string
	seconds float64
	// parley is the program that serves, and offline what was measured without it, by shape.
	parley  string
	offline map[string]float64
	engine  string // how the engine spent its time then
}

func newGPU() *cobra.Command {
	f := &gpuFlags{}
	cmd := &cobra.Command{
		Use:   "gpu",
		Short: "Measure passes of models with random weights on a GPU",
		Long: `Measure how long passes of a model take on an NVIDIA GPU: prompts, and batches of
sequences of which each gets one token. Weights are random; shapes and types are those of
published models, so nothing is downloaded. Times are medians. That of a prompt ends when
the scores of its last token are in host memory, that of a batch when the tokens are, which
the device chooses while the next pass is already queued, as the engine does it.

A load is pPROMPT (p8000: a prompt of 8,000 tokens), or dBATCHxCONTEXT (d32x512: 32
sequences with 512 tokens each behind them), or sBATCHxCONTEXT: the same with penalties, a mask
and log-probabilities for every token. With /SHARED at the end (d32x2560/2048) the first
tokens of all sequences are the same, in the same blocks. A model is a shape, a type of weights, and, if it is
not that of --kv-type, one of the key/value pool.

Without --model and --load every load with a bar for one H200 is measured, and the command
fails if a bar is missed.`,
		Example: `  parley-bench gpu
  parley-bench gpu --model llama-8b:BF16 --load d1x512,d32x512,p8000
  parley-bench gpu --model qwen3-0.6b:BF16,llama-8b:Q4_K --load d1x512`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.device, "device", 0, "`NUMBER` of the GPU")
	flags.StringSliceVar(&f.shapes, "model", nil, "`SHAPES` with their types of weights; without, those with a bar")
	flags.StringSliceVar(&f.loads, "load", nil, "`LOADS` to measure; without, those with a bar")
	flags.StringVar(&f.kvType, "kv-type", "bf16", "how the key/value pool keeps numbers: one of `f32, bf16, int8, fp8`")
	flags.Float64Var(&f.seconds, "seconds", 1, "measure each load for this many `SECONDS`")
	cmd.AddCommand(newGPUWhole(f))
	return cmd
}

// parseLoad reads pPROMPT, dBATCHxCONTEXT or sBATCHxCONTEXT, of which the latter may end with /SHARED.
func parseLoad(text string) (l gpu.Load, err error) {
	l.Special = strings.HasPrefix(text, "s")
	if rest, ok := strings.CutPrefix(text, "p"); ok {
		l.Prompt, err = strconv.Atoi(rest)
	} else if text == "" || !strings.Contains("ds", text[:1]) {
		err = fmt.Errorf("expected a letter")
	} else {
		of, shared, shares := strings.Cut(text[1:], "/")
		if _, err = fmt.Sscanf(of, "%dx%d", &l.Batch, &l.Context); err == nil && shares {
			l.Shared, err = strconv.Atoi(shared)
		}
	}
	if err != nil || l.Tokens() < 1 || l.Shared < 0 || l.Context < l.Shared {
		return l, fmt.Errorf("load %q: expected pPROMPT, dBATCHxCONTEXT[/SHARED] or sBATCHxCONTEXT[/SHARED], as in "+
			"p8000, d32x512 or d32x2560/2048", text)
	}
	return l, nil
}

func (f *gpuFlags) run(cmd *cobra.Command) error {
	kind, err := compute.ParseKVType(f.kvType)
	if err != nil {
		return err
	}
	devices, err := cuda.Devices()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(devices, func(d libcuda.Device) bool { return d.Index == f.device }); i >= 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s, %d multiprocessors, CUDA %d\n", devices[i].Name, devices[i].Multiprocessor,
			devices[i].Driver)
	}
	var measured []gpuMeasurement
	for _, model := range f.models() {
		loads, err := parseLoads(f.loadsOf(model))
		if err != nil {
			return err
		}
		results, err := f.measure(cmd, model, kind, loads)
		if err != nil {
			return err
		}
		for _, r := range results {
			measured = append(measured, gpuMeasurement{model, r.Load, r.Rate()})
		}
	}
	return verdict(cmd.OutOrStdout(), measured)
}

func parseLoads(texts []string) (loads []gpu.Load, err error) {
	for _, text := range texts {
		l, err := parseLoad(text)
		if err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	return loads, nil
}

// measure prints a table of one model.
func (f *gpuFlags) measure(cmd *cobra.Command, text string, kind compute.KVType,
	loads []gpu.Load) ([]gpu.Result, error) {
	name, typ, _ := strings.Cut(text, ":")
	typ, pool, ok := strings.Cut(typ, ":")
	shape, err := weights.ShapeNamed(name)
	if err != nil {
		return nil, err
	}
	if ok {
		if kind, err = compute.ParseKVType(pool); err != nil {
			return nil, err
		}
	}
	rounded := typ == weights.F8E4M3.String() // numbers are made as BF16 and rounded when they are loaded
	quant := weights.BF16
	if !rounded {
		if quant, err = weights.ParseDType(typ); err != nil {
			return nil, err
		}
	}
	ck, err := weights.RandomCheckpoint(shape, quant, 1)
	if err != nil {
		return nil, err
	}
	setup := gpu.Setup{Device: f.device, KV: kind, RoundFP8: rounded}
	results, load, err := gpu.MeasurePasses(ck, setup, loads, time.Duration(f.seconds*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s, loaded in %.1f s\n", text, load.Seconds())
	for _, r := range results {
		fmt.Fprintf(out, "  %-32s %9.3f ms %10.0f tok/s\n", r.Load, float64(r.Pass.Microseconds())/1000, r.Rate())
	}
	return results, nil
}
