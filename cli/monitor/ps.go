package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"parley"
	"parley/cli"
	"parley/cli/remote"

	"github.com/spf13/cobra"
)

// A ServerState is what a server does now, as ps prints it.
type ServerState struct {
	URL string `json:"url"`
	// UptimeSeconds is 0 if the server does not say.
	UptimeSeconds float64      `json:"uptime_seconds"`
	Models        []modelState `json:"models"`
	// Devices are the GPUs that models or workers compute on.
	Devices []gpuState `json:"devices,omitempty"`
}

// A gpuState is how the GPU of a model, or of a worker in another process, is.
type gpuState struct {
	Model  string `json:"model,omitempty"`
	Worker string `json:"worker,omitempty"`
	parley.DeviceState
}

// A modelState is what one model does now.
type modelState struct {
	Model string `json:"model"`
	// State is ready while requests run or wait, idle without any, or as the model folder says: loading,
	// unloading, unloaded or too_large.
	State   string `json:"state"`
	Running int    `json:"running"`
	Waiting int    `json:"waiting"`
	// KVUsed is the share of the key/value pool in use, CacheHits that of the
	// prompt tokens that were cached, since the server started.
	KVUsed          float64 `json:"kv_used"`
	CacheHits       float64 `json:"cache_hits"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	tokens          float64 // written since the server started
}

// rateOver is the time over which tokens are counted.
const rateOver = time.Second

// NewPs returns the command `parley ps`.
func NewPs() *cobra.Command {
	s := &remote.Command{}
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show the load of a server: requests, memory, speed",
		Long: `Show the load of a server: for each model its state (ready: requests run or wait; idle: in
memory without any; loading, unloading, unloaded), the running and queued requests, the share of
its key/value memory in use, the cache hit rate of prompt tokens, and the tokens
generated per second, measured for one second while requests run. For each GPU the share of
time it is busy, of its bandwidth and arithmetic that passes use, memory, clocks, power,
temperature and what slows it down.

The numbers come from GET /metrics, under vLLM's names, so this also works with vLLM.`,
		Example: "  parley ps\n  parley ps --json | jq '.models[] | select(.waiting > 0)'\n  watch parley ps",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), remote.AskWait)
			defer cancel()
			c, err := s.Client()
			if err != nil {
				return err
			}
			state, err := observe(ctx, c)
			switch {
			case errors.Is(err, context.Canceled):
				return cli.ErrInterrupted
			case err != nil:
				return remote.StartHint(err)
			case s.JSON:
				return cli.PrintJSON(cmd.OutOrStdout(), state)
			}
			return state.print(cmd.OutOrStdout())
		},
	}
	s.Add(cmd)
	return cmd
}

// observe asks a server what it does, and while it does anything counts its
// tokens for a moment.
func observe(ctx context.Context, c *remote.Client) (*ServerState, error) {
	first, err := stateOf(ctx, c)
	if err != nil || !slices.ContainsFunc(first.Models, func(m modelState) bool { return m.Running+m.Waiting > 0 }) {
		return first, err
	}
	began := time.Now()
	select {
	case <-time.After(rateOver):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	second, err := stateOf(ctx, c)
	if err != nil {
		return nil, err
	}
	second.rates(first, time.Since(began))
	return second, nil
}

func stateOf(ctx context.Context, c *remote.Client) (*ServerState, error) {
	text, err := c.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	metrics := remote.ParseMetrics(text)
	s := &ServerState{URL: c.Root, Models: modelStates(metrics), Devices: gpuStates(metrics)}
	if len(s.Models) == 0 {
		return nil, fmt.Errorf("%s/metrics has no metrics of models", c.Root)
	}
	for _, m := range metrics {
		if m.Name == "process_start_time_seconds" && m.Value > 0 {
			s.UptimeSeconds = math.Round(float64(time.Now().UnixMilli())/1000 - m.Value)
		}
	}
	return s, nil
}

// rates works out how many tokens a second were written since before.
func (s *ServerState) rates(before *ServerState, elapsed time.Duration) {
	for i := range s.Models {
		m := &s.Models[i]
		for _, old := range before.Models {
			if old.Model == m.Model && m.tokens >= old.tokens {
				m.TokensPerSecond = math.Round((m.tokens-old.tokens)/elapsed.Seconds()*10) / 10
			}
		}
	}
}

func (s *ServerState) print(out io.Writer) error {
	fmt.Fprintf(out, "%s%s\n\n", s.URL, upText(s.UptimeSeconds))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tSTATE\tRUNNING\tQUEUED\tKV USED\tCACHE HITS\tTOKENS/S")
	for _, m := range s.Models {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1f%%\t%.1f%%\t%.1f\n", m.Model, m.State, m.Running, m.Waiting, 100*m.KVUsed,
			100*m.CacheHits, m.TokensPerSecond)
	}
	if err := w.Flush(); err != nil || len(s.Devices) == 0 {
		return err
	}
	fmt.Fprintln(out)
	for i := range s.Devices {
		d := &s.Devices[i]
		fmt.Fprintf(out, "%s: %s\n", d.Model+d.Worker, cli.DeviceText(&d.DeviceState))
	}
	return nil
}

func upText(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return ", up for " + (time.Duration(seconds) * time.Second).String()
}

// gpuStates puts together what the metrics say of each GPU, in the order in which they name them.
func gpuStates(metrics []remote.Metric) (states []gpuState) {
	for _, m := range metrics {
		if !parley.IsDeviceMetric(m.Name) {
			continue
		}
		label := func(name string) string { return remote.Label(m.Labels, name) }
		worker := label("worker")
		i := slices.IndexFunc(states, func(s gpuState) bool { return s.Model == m.Model && s.Worker == worker })
		if i < 0 {
			i = len(states)
			states = append(states, gpuState{Model: m.Model, Worker: worker})
		}
		states[i].SetMetric(m.Name, m.Value, label)
	}
	return states
}

// modelStates puts together what the metrics say of each model, in the order in
// which they name them.
func modelStates(metrics []remote.Metric) (states []modelState) {
	at := map[string]int{}
	asked := map[string]float64{}
	hits := map[string]float64{}
	for _, m := range metrics {
		if m.Model == "" || parley.IsDeviceMetric(m.Name) {
			continue
		}
		i, known := at[m.Model]
		if !known {
			i = len(states)
			at[m.Model] = i
			states = append(states, modelState{Model: m.Model})
		}
		s := &states[i]
		switch m.Name {
		case "vllm:num_requests_running":
			s.Running += int(m.Value)
		case "vllm:num_requests_waiting":
			s.Waiting += int(m.Value)
		case "vllm:kv_cache_usage_perc":
			s.KVUsed = max(s.KVUsed, m.Value)
		case "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count":
			s.tokens += m.Value
		case "parley_model_state":
			s.State = remote.Label(m.Labels, "state")
		case "vllm:prefix_cache_queries_total":
			asked[m.Model] += m.Value
		case "vllm:prefix_cache_hits_total":
			hits[m.Model] += m.Value
		}
	}
	for i := range states {
		s := &states[i]
		if n := asked[s.Model]; n > 0 {
			s.CacheHits = math.Round(hits[s.Model]/n*1000) / 1000
		}
		if s.State == "" || s.State == "loaded" {
			s.State = "idle"
			if s.Running+s.Waiting > 0 {
				s.State = "ready"
			}
		}
	}
	return states
}
