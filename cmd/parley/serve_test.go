package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server is the real program, run as a user would.
type server struct {
	cmd   *exec.Cmd
	url   string
	lines chan string // what it prints after the ready line
	ready time.Duration
}

var readyLine = regexp.MustCompile(`ready on (https?://[^\s"]+)`)

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	return startServerIn(t, t.TempDir(), args...)
}

// startServerIn starts a server that keeps its data in a directory.
func startServerIn(t *testing.T, data string, args ...string) *server {
	t.Helper()
	exe, err := exec.LookPath("parley") // testscript.Main put this test binary there
	if err != nil {
		t.Fatal(err)
	}
	s := &server{lines: make(chan string, 1000)}
	s.cmd = exec.CommandContext(t.Context(), exe,
		append([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, args...)...)
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go s.read(out, found)
	select {
	case s.url = <-found:
		s.ready = time.Since(began)
	case <-time.After(time.Minute):
		t.Fatal("the server was not ready within a minute")
	}
	if s.url == "" {
		t.Fatalf("the server ended: %v", s.cmd.Wait())
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

func (s *server) read(out io.Reader, found chan<- string) {
	defer close(s.lines)
	defer close(found)
	for scan := bufio.NewScanner(out); scan.Scan(); {
		if m := readyLine.FindStringSubmatch(scan.Text()); m != nil {
			found <- m[1]
		}
		s.lines <- scan.Text()
	}
}

// stream opens a long streaming answer and returns its body.
func (s *server) stream(t *testing.T, tokens int) io.ReadCloser {
	t.Helper()
	body := fmt.Sprintf(
		`{"model":"polly","stream":true,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":"Tell me a story."}]}`, tokens)
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost,
		s.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	return resp.Body
}

func TestServeTalks(t *testing.T) {
	s := startServer(t)
	t.Logf("ready after %v", s.ready)
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Model   string
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, s)
	for line := range s.lines {
		if strings.Contains(line, "msg=request") {
			if !strings.Contains(line, "cache_miss=short") {
				t.Errorf("the log does not say why nothing was cached: %s", line)
			}
			break
		}
	}
	if answer.Model != "polly" || len(answer.Choices) != 1 ||
		!strings.Contains(answer.Choices[0].Message.Content, "Paris") {
		t.Errorf("%+v", answer)
	}
}

// checkMetrics wants the engine's numbers, under our names and vLLM's.
func checkMetrics(t *testing.T, s *server) {
	t.Helper()
	text := s.metrics(t)
	for _, want := range []string{
		`parley_engine_answers_total{finished_reason="stop",model_name="polly"} 1`,
		`vllm:request_success_total{finished_reason="stop",model_name="polly"} 1`,
		`vllm:e2e_request_latency_seconds_bucket{model_name="polly",le="7680"} 1`,
		`vllm:request_prompt_tokens_bucket{model_name="polly",le="2000"} 1`,
		`vllm:request_generation_tokens_count{model_name="polly"} 1`,
		`vllm:request_params_n_bucket{model_name="polly",le="1"} 1`,
		`parley_engine_prefix_misses_total{model_name="polly",reason="short"} 1`,
		`parley_engine_repairs_total{model_name="polly"} 0`,
		`vllm:num_requests_running{model_name="polly"} 0`, `vllm:kv_cache_usage_perc{model_name="polly"} 0`,
		`vllm:time_to_first_token_seconds_count{model_name="polly"} 1`,
		`parley_engine_waiting{class="free",model_name="polly"} 0`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("/metrics does not say %s", want)
		}
	}
}

func (s *server) metrics(t *testing.T) []byte {
	t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s", resp.Status)
	}
	return bodyOf(t, resp)
}

func TestInterruptLetsAnswersFinish(t *testing.T) {
	s := startServer(t)
	body := s.stream(t, 600)
	defer body.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(body, first); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for line := range s.lines {
		if strings.Contains(line, "Draining: running answers may finish") {
			break
		}
	}
	rest, err := io.ReadAll(body)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the running answer ended with %v and %q", err, rest[max(0, len(rest)-200):])
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestSecondInterruptEndsAtOnce(t *testing.T) {
	s := startServer(t)
	body := s.stream(t, 1900)
	defer body.Close()
	for range 2 {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for line := range s.lines {
			if strings.Contains(line, "Draining: running answers may finish") {
				break
			}
		}
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("the server ended with %v, want exit code %d", err, exitInterrupted)
	}
	if rest, err := io.ReadAll(body); err == nil && strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Error("the running answer was complete: nothing was interrupted")
	}
}

func TestDrainIsBounded(t *testing.T) {
	s := startServer(t, "--drain", "1ms")
	body := s.stream(t, 1900)
	defer body.Close()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	var cut bool
	for line := range s.lines {
		cut = cut || strings.Contains(line, "were cut")
	}
	if !cut {
		t.Error("the server did not say that it cut an answer")
	}
}

func TestAddressInUse(t *testing.T) {
	s := startServer(t)
	err := run([]string{"serve", "--addr", strings.TrimPrefix(s.url, "http://")})
	if err != exitFailed {
		t.Errorf("a second server on the address exits with %d", err)
	}
}
