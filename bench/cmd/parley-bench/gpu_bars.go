package main

import (
	"fmt"
	"io"
	"math"

	"parley/bench/gpu"
)

// A gpuBar is the least rate of a load on one H200: in tokens a second, or how many times as high as
// that of another model with the same load.
type gpuBar struct {
	model, load string
	least       float64
	than        string // the other model, if not empty
}

// gpuBars are the bars of single passes. 34,783 tokens a second are 8,000 in 230 ms.
var gpuBars = []gpuBar{
	{"llama-8b:BF16", "d1x512", 228, ""},
	{"llama-8b:BF16", "d32x512", 5300, ""},
	{"llama-8b:BF16", "p8000", 34783, ""},
	{"llama-8b:Q8_0", "d1x512", 380, ""},
	{"llama-8b:Q8_0", "d32x512", 5000, ""},
	{"llama-8b:Q8_0", "d64x512", 8000, ""},
	{"llama-8b:Q4_K", "d1x512", 450, ""},
	{"llama-1b:BF16", "d1x512", 1300, ""},
	{"qwen3-0.6b:BF16", "d1x512", 1500, ""},
	{"qwen3-0.6b:BF16", "d256x512", 30000, ""},
	{"qwen3-30b-a3b:BF16", "d1x512", 250, ""},
	{"qwen3-30b-a3b:BF16", "d64x512", 4000, ""},
	{"llama-8b:F8_E4M3:fp8", "d128x1024", 1.6, "llama-8b:BF16"},
}

// A gpuMeasurement is the rate of a load of a model.
type gpuMeasurement struct {
	model string
	load  gpu.Load
	rate  float64
}

// models are the shapes to measure: those asked for, or those with a bar.
func (f *gpuFlags) models() (all []string) {
	if len(f.shapes) > 0 || len(f.loads) > 0 {
		return f.shapes
	}
	for i, b := range gpuBars {
		if i == 0 || gpuBars[i-1].model != b.model {
			all = append(all, b.model)
		}
	}
	return all
}

// loadsOf are the loads of a model to measure: those asked for, or those with a bar.
func (f *gpuFlags) loadsOf(model string) (all []string) {
	if len(f.loads) > 0 {
		return f.loads
	}
	for _, b := range gpuBars {
		if b.model == model || b.than == model {
			all = append(all, b.load)
		}
	}
	return all
}

// rateOf is what was measured with a model and load; without, nothing is enough.
func rateOf(measured []gpuMeasurement, model string, load gpu.Load) float64 {
	for _, m := range measured {
		if m.model == model && m.load == load {
			return m.rate
		}
	}
	return math.Inf(1)
}

// verdict prints what was measured beside its bar and fails if one is missed.
func verdict(out io.Writer, measured []gpuMeasurement) error {
	missed := 0
	for _, b := range gpuBars {
		load, err := parseLoad(b.load)
		if err != nil {
			return err
		}
		for _, m := range measured {
			if m.model != b.model || m.load != load {
				continue
			}
			word, least := "met", b.least
			if b.than != "" {
				least = b.least * rateOf(measured, b.than, load)
			}
			if m.rate < least {
				word = "missed"
				missed++
			}
			fmt.Fprintf(out, "%-20s %-9s %9.0f tok/s, bar %6.0f: %s\n", b.model, b.load, m.rate, least, word)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d bars are missed", missed)
	}
	return nil
}
