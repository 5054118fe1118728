package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
)

// A serverState is what a server does now, as ps prints it.
type serverState struct {
	URL string `json:"url"`
	// UptimeSeconds is 0 if the server does not say.
	UptimeSeconds float64      `json:"uptime_seconds"`
	Models        []modelState `json:"models"`
}

// A modelState is what one model does now.
type modelState struct {
	Model   string `json:"model"`
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

func newPs() *cobra.Command {
	s := &serverCommand{}
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show the load of a server: requests, memory, speed",
		Long: `Show the load of a server: for each model the running and queued requests, the share of
its key/value memory in use, the cache hit rate of prompt tokens, and the tokens
generated per second, measured for one second while requests run.

The numbers come from GET /metrics, under vLLM's names, so this also works with vLLM.`,
		Example: "  parley ps\n  parley ps --json | jq '.models[] | select(.waiting > 0)'\n  watch parley ps",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), askWait)
			defer cancel()
			c, err := s.client()
			if err != nil {
				return err
			}
			state, err := observe(ctx, c)
			switch {
			case errors.Is(err, context.Canceled):
				return cli.ErrInterrupted
			case err != nil:
				return startHint(err)
			case s.asJSON:
				return cli.PrintJSON(cmd.OutOrStdout(), state)
			}
			return state.print(cmd.OutOrStdout())
		},
	}
	s.add(cmd)
	return cmd
}

// startHint says what to do where no server answers.
func startHint(err error) error {
	if errors.Is(err, load.ErrNoServer) {
		return fmt.Errorf("%w: start one with `parley serve`, or name another with --url", err)
	}
	return err
}

// observe asks a server what it does, and while it does anything counts its
// tokens for a moment.
func observe(ctx context.Context, c *client) (*serverState, error) {
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

func stateOf(ctx context.Context, c *client) (*serverState, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	metrics := parseMetrics(text)
	s := &serverState{URL: c.root, Models: modelStates(metrics)}
	if len(s.Models) == 0 {
		return nil, fmt.Errorf("%s/metrics has no metrics of models", c.root)
	}
	for _, m := range metrics {
		if m.name == "process_start_time_seconds" && m.value > 0 {
			s.UptimeSeconds = math.Round(float64(time.Now().UnixMilli())/1000 - m.value)
		}
	}
	return s, nil
}

// rates works out how many tokens a second were written since before.
func (s *serverState) rates(before *serverState, elapsed time.Duration) {
	for i := range s.Models {
		m := &s.Models[i]
		for _, old := range before.Models {
			if old.Model == m.Model && m.tokens >= old.tokens {
				m.TokensPerSecond = math.Round((m.tokens-old.tokens)/elapsed.Seconds()*10) / 10
			}
		}
	}
}

func (s *serverState) print(out io.Writer) error {
	fmt.Fprintf(out, "%s%s\n\n", s.URL, upText(s.UptimeSeconds))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tRUNNING\tQUEUED\tKV USED\tCACHE HITS\tTOKENS/S")
	for _, m := range s.Models {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f%%\t%.1f%%\t%.1f\n", m.Model, m.Running, m.Waiting, 100*m.KVUsed,
			100*m.CacheHits, m.TokensPerSecond)
	}
	return w.Flush()
}

func upText(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return ", up for " + (time.Duration(seconds) * time.Second).String()
}

// A metric is one line of what GET /metrics says.
type metric struct {
	name, model string
	value       float64
}

// parseMetrics reads the text format of Prometheus. Lines that it does not
// understand are left out: most are of no use here anyway.
func parseMetrics(text []byte) (metrics []metric) {
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, documentBytesMax)
	for scan.Scan() {
		if m, ok := parseMetric(scan.Text()); ok {
			metrics = append(metrics, m)
		}
	}
	return metrics
}

func parseMetric(line string) (m metric, ok bool) {
	end := strings.IndexAny(line, "{ ")
	if end <= 0 || strings.HasPrefix(line, "#") {
		return m, false
	}
	m.name = line[:end]
	rest := line[end:]
	if rest[0] == '{' {
		closing := labelsEnd(rest)
		if closing < 0 {
			return m, false
		}
		m.model = label(rest[1:closing], "model_name")
		rest = rest[closing+1:]
	}
	fields := strings.Fields(rest) // a time may follow the value
	if len(fields) == 0 {
		return m, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	m.value = value
	return m, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// labelsEnd returns where the labels that text begins with end; braces within
// quotation marks do not count.
func labelsEnd(text string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i
		}
	}
	return -1
}

// label returns the value of a label.
func label(labels, name string) string {
	for labels != "" {
		key, rest, ok := strings.Cut(labels, "=")
		quoted, err := strconv.QuotedPrefix(rest)
		if !ok || err != nil {
			return ""
		}
		if value, err := strconv.Unquote(quoted); err == nil && strings.TrimSpace(key) == name {
			return value
		}
		labels = strings.TrimLeft(rest[len(quoted):], ", ")
	}
	return ""
}

// modelStates puts together what the metrics say of each model, in the order in
// which they name them.
func modelStates(metrics []metric) (states []modelState) {
	at := map[string]int{}
	asked := map[string]float64{}
	hits := map[string]float64{}
	for _, m := range metrics {
		if m.model == "" {
			continue
		}
		i, known := at[m.model]
		if !known {
			i = len(states)
			at[m.model] = i
			states = append(states, modelState{Model: m.model})
		}
		s := &states[i]
		switch m.name {
		case "vllm:num_requests_running":
			s.Running += int(m.value)
		case "vllm:num_requests_waiting":
			s.Waiting += int(m.value)
		case "vllm:kv_cache_usage_perc":
			s.KVUsed = max(s.KVUsed, m.value)
		case "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count":
			s.tokens += m.value
		case "vllm:prefix_cache_queries_total":
			asked[m.model] += m.value
		case "vllm:prefix_cache_hits_total":
			hits[m.model] += m.value
		}
	}
	for i := range states {
		if n := asked[states[i].Model]; n > 0 {
			states[i].CacheHits = math.Round(hits[states[i].Model]/n*1000) / 1000
		}
	}
	return states
}
