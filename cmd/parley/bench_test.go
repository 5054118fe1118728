package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"parley/cli/bench"
	"parley/internal/load"
)

// benched runs parley bench in this process and returns what it printed.
func benched(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, messages bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"bench"}, args...))
	root.SetOut(&out)
	root.SetErr(&messages)
	err := root.ExecuteContext(t.Context())
	if messages.Len() > 0 {
		t.Errorf("bench is not quiet without a terminal: %q", messages.String())
	}
	return out.String(), err
}

const tinyTrace = `{"timestamp": 0, "input_length": 1300, "output_length": 400, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 1030, "output_length": 300, "hash_ids": [0, 1, 3]}
{"timestamp": 3000, "input_length": 120000, "output_length": 900, "hash_ids": [0, 9]}
`

func TestBenchMeasuresARealServer(t *testing.T) {
	s := startServer(t, "--model", "polly-mini")
	trace := filepath.Join(t.TempDir(), "tiny.jsonl")
	if err := os.WriteFile(trace, []byte(tinyTrace), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct {
		args                  string
		sent, prompts, output int // prompts of -1 are not known exactly
		says                  string
	}{
		{"--users 2 --requests 6 --prompt-tokens 20 --output-tokens 7", 6, -1, 42, "closed loop: 2 users"},
		{"--rate 50 --arrival gamma --cv 2 --requests 8 --prompt-tokens 20 --output-tokens 5 --send ids", 8, 160, 40,
			"gamma arrivals with CV 2"},
		{"--rate 50 --arrival fixed --duration 200ms --prompt-tokens 4-9 --output-tokens 2 --send text", 10, -1, 20,
			"fixed arrivals"},
		{"--workload shared-prefix --groups 2 --group-users 2 --shared-tokens 30 --history-tokens 10 " +
			"--prompt-tokens 5 --output-tokens 3 --requests 6 --send ids", 6, 270, 18, "2 groups of 2 users"},
		{"--workload conversation --turns 2 --prompt-tokens 5 --output-tokens 4 --requests 6 --users 2", 6, -1, 24,
			"2 turns"},
		{"--send ids --speed 100 --scale 0.1 --trace " + trace, 2, 51 + 51 + 28 + 51 + 51 + 1, 70,
			"1 requests were left out"},
		{"--send ids --users 2 --scale 0.1 --trace " + trace, 2, 51 + 51 + 28 + 51 + 51 + 1, 70,
			"tiny.jsonl, lengths times 0.1"},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		args := append(strings.Fields(run.args), "--url", s.url, "--out", file)
		text, err := benched(t, args...)
		if err != nil || !strings.Contains(text, run.says) || !strings.Contains(text, "0 rejected, 0 failed") ||
			!strings.Contains(text, "SLO: ") {
			t.Errorf("%s: %v\n%s", run.args, err, text)
			continue
		}
		r, err := bench.OpenReport(file)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests.Completed != run.sent || len(r.Samples) != run.sent || r.Tokens.Output != run.output ||
			r.Tokens.CountedRequests != 0 ||
			(run.prompts >= 0 && r.Tokens.Prompt != run.prompts) || r.Target.Model != "polly-mini" {
			t.Errorf("%s: %+v %+v", run.args, r.Requests, r.Tokens)
		}
		for _, sample := range r.Samples {
			if sample.TTFT <= 0 || sample.Total < sample.TTFT || sample.Outcome != load.Completed {
				t.Errorf("%s: %+v", run.args, sample)
			}
		}
	}
	if _, err := benched(t, "--url", s.url, "--prompt-tokens", "4000"); err == nil ||
		!strings.Contains(err.Error(), "fits the context of 2048 tokens of polly-mini") {
		t.Errorf("too long a prompt: %v", err)
	}
	if _, err := benched(t, "--url", s.url, "--model", "nobody"); err == nil ||
		!strings.Contains(err.Error(), "nobody") {
		t.Errorf("an unknown model: %v", err)
	}
	if text, err := benched(t, "--url", s.url, "--requests", "2", "--output-tokens", "2", "--json"); err != nil ||
		!strings.Contains(text, `"schema": "parley-bench/1"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// The tenth request is never answered; instead the user loses patience.
func TestBenchInterruptedReportsWhatItHas(t *testing.T) {
	var calls atomic.Int64
	patienceLost := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"slow"}]}`)
			return
		}
		if r.Method == http.MethodGet { // metrics, which it has none of
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 10 {
			close(patienceLost)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w,
			"data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), exe, "bench", "--url", server.URL, "--users", "1", "--requests", "100",
		"--warmup", "0", "--out", file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-patienceLost
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("bench ended with %v, want exit code %d", err, exitInterrupted)
	}
	r, err := bench.OpenReport(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !r.Interrupted || r.Requests.Completed != 9 || r.Requests.Unfinished != 1 || r.Tokens.CountedRequests != 9 {
		t.Errorf("%+v %+v", r.Requests, r.Tokens)
	}
	for _, want := range []string{"the run was interrupted", "9 answers came without usage", "1 unfinished"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
