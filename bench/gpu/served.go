package gpu

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/bench/llamacpp"
	"parley/internal/load"
	"parley/model/weights"
	"parley/sim/traffic"
)

// Served computes a batch through HTTP: `parley serve` with a model file of random
// weights, and as many streams at once as there are requests, sent by this process. It
// returns how long that took, and what the engine says of its passes.
func Served(ctx context.Context, parley string, shape weights.Shape, quant weights.DType, device string,
	batch Batch) (took time.Duration, described string, err error) {
	dir, err := os.MkdirTemp("", "parley-gpu-*")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.gguf")
	if err := writeModel(path, shape, quant); err != nil {
		return 0, "", err
	}
	server, err := llamacpp.StartParley(ctx, parley, path, "--data", dir, "--device", device,
		"--kv-type", "bf16", "--tpot-target", "10s", "--speculate", "off", "--log-level", "error",
		"--queue-wait", "30m", "--first-token-max", "30m")
	if err != nil {
		return 0, "", err
	}
	defer server.Stop()
	var plan load.Plan
	for i, r := range batch.requests() {
		ask := traffic.Request{
			Prompt:       []traffic.Part{{Role: traffic.User, Key: uint64(i + 1), Tokens: r.prompt}},
			OutputTokens: r.output,
		}
		plan.Users = append(plan.Users, one(ask))
	}
	warm := traffic.Request{Prompt: []traffic.Part{{Role: traffic.User, Key: 1 << 20, Tokens: 64}}, OutputTokens: 8}
	plan.WarmUp = one(warm)
	result, err := server.Run(ctx, plan)
	if err != nil {
		return 0, "", err
	}
	sums, err := server.Metrics(ctx)
	if err != nil {
		return 0, "", err
	}
	return result.Elapsed, describeServed(sums), nil
}

// describeServed says what the engine of a server did.
func describeServed(sums map[string]float64) string {
	passes := sums["parley_engine_step_seconds_count"]
	return fmt.Sprintf("%.0f passes of %.1f tokens in %.2f s, %.0f launched ahead, "+
		"the device waited %.2f s for the host, %.0f preemptions",
		passes, sums["parley_engine_step_tokens_sum"]/passes, sums["parley_engine_step_seconds_sum"],
		sums["parley_engine_steps_ahead_total"], sums["parley_engine_host_seconds_total"],
		sums["parley_engine_preemptions_total"])
}

func one(r traffic.Request) iter.Seq[traffic.Request] { return slices.Values([]traffic.Request{r}) }

func writeModel(path string, shape weights.Shape, quant weights.DType) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := weights.WriteRandom(f, shape, quant, 1, func(int64, int64) {}); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
