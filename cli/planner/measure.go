package planner

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"time"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/builtin"
	"parley/model"
	"parley/model/weights"
)

// bandwidthBytes is more than the caches of a processor hold.
const bandwidthBytes = 512 << 20

// measureBandwidth returns the bytes per second that all processors read from
// memory, the best of a few passes. Looking for a byte that is not there reads
// with the widest instructions of the processor.
func measureBandwidth() (float64, error) {
	memory := bytes.Repeat([]byte{1}, bandwidthBytes)
	threads := runtime.NumCPU()
	best := time.Duration(0)
	for range 4 {
		found := make([]bool, threads)
		var readers sync.WaitGroup
		begun := time.Now()
		for k := range threads {
			part := memory[k*len(memory)/threads : (k+1)*len(memory)/threads]
			readers.Go(func() { found[k] = bytes.IndexByte(part, 2) >= 0 })
		}
		readers.Wait()
		took := time.Since(begun)
		for _, wrong := range found {
			if wrong {
				return 0, errors.New("memory does not hold what was written to it")
			}
		}
		if best == 0 || took < best {
			best = took
		}
	}
	return bandwidthBytes / best.Seconds(), nil
}

// flopsPrompt is the number of tokens computed to measure arithmetic.
const flopsPrompt = 512

// measureFlops computes a prompt with the default built-in model, once to warm
// up and once to measure. A prompt passes through all weights but the embedding
// and, except for its last token, the output projection.
func measureFlops() (flops float64, err error) {
	ck, err := builtin.Models()[0].Open()
	if err != nil {
		return 0, err
	}
	defer ck.Close()
	backend, err := cpu.New(cpu.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	blocks := flopsPrompt / compute.BlockTokens
	limits := model.Limits{Rows: flopsPrompt, Outputs: 1, Blocks: blocks, KV: compute.KVBF16}
	network, err := model.Load(ck, backend, limits)
	if err != nil {
		return 0, err
	}
	step := compute.Step{Tokens: make([]parley.Token, flopsPrompt), Outputs: []int32{flopsPrompt - 1}}
	places := make([]int32, blocks)
	for i := range places {
		places[i] = int32(i)
	}
	step.Seqs = []compute.Seq{{Rows: flopsPrompt, Blocks: places}}
	logits := make([]float32, network.Vocab())
	network.Forward(&step, logits)
	begun := time.Now()
	network.Forward(&step, logits)
	return 2 * passedParameters(ck) * flopsPrompt / time.Since(begun).Seconds(), nil
}

func passedParameters(ck *weights.Checkpoint) (n float64) {
	for _, part := range weights.Describe(ck).Classes {
		if part.Name != "embedding" && part.Name != "output" {
			n += float64(part.Parameters)
		}
	}
	return n
}
