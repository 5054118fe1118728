package llamacpp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
)

// A Speed is how fast a network is, in tokens a second. What was not measured
// is 0.
type Speed struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
}

// llamaTest is one of the tests that llama-bench -o json prints. The rest of
// its members do not matter here.
type llamaTest struct {
	Prompt     int       `json:"n_prompt"`
	Generated  int       `json:"n_gen"`
	Nanosecond []float64 `json:"samples_ns"`
}

// parseLlama reads what llama-bench -o json printed.
func parseLlama(output []byte) (s Speed, err error) {
	var tests []llamaTest
	if err := json.Unmarshal(output, &tests); err != nil {
		return s, fmt.Errorf("llama-bench printed no list of tests: %w", err)
	}
	for _, t := range tests {
		if len(t.Nanosecond) == 0 {
			return s, errors.New("a test of llama-bench has no samples")
		}
		rate := float64(t.Prompt+t.Generated) / t.Nanosecond[0] * 1e9
		if !(rate > 0) || math.IsInf(rate, 0) {
			return s, fmt.Errorf("llama-bench computed %d tokens in %g ns", t.Prompt+t.Generated, t.Nanosecond[0])
		}
		switch {
		case t.Prompt > 0 && t.Generated == 0:
			s.Prefill = rate
		case t.Generated > 0 && t.Prompt == 0:
			s.Decode = rate
		}
	}
	return s, nil
}

// A Length says how much a bare measurement computes; 0 leaves a part out.
type Length struct{ Prompt, Generate int }

// llamaBench runs llama-bench once, with its own warm-up.
func (l *Lab) llamaBench(ctx context.Context, model string, n Length) (Speed, error) {
	output, err := output(exec.CommandContext(ctx, l.LlamaBench, "-m", model, "-t", strconv.Itoa(l.Threads),
		"-p", strconv.Itoa(n.Prompt), "-n", strconv.Itoa(n.Generate), "-r", "1", "-o", "json"))
	if err != nil {
		return Speed{}, err
	}
	s, err := parseLlama(output)
	if err != nil {
		return Speed{}, err
	}
	return s, checkMeasured(s, n)
}

// peerVersion asks llama.cpp which version it is.
func (l *Lab) peerVersion(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, l.LlamaServer, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", l.LlamaServer, err)
	}
	for line := range strings.Lines(string(said)) {
		if version, ok := strings.CutPrefix(line, "version: "); ok {
			return "llama.cpp " + strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("%s --version says %.200q: expected a line that begins with \"version: \"", l.LlamaServer,
		said)
}

func checkMeasured(s Speed, n Length) error {
	if (n.Prompt > 0) != (s.Prefill > 0) || (n.Generate > 0) != (s.Decode > 0) {
		return fmt.Errorf("%d prompt and %d generated tokens were asked for, and %g and %g tokens/s came back",
			n.Prompt, n.Generate, s.Prefill, s.Decode)
	}
	return nil
}

// output runs a program. If it fails, the error has the end of what it said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var complaints tail
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", cmd.Path, err, complaints.text())
	}
	return out, nil
}

// A tail keeps the last bytes written to it.
type tail struct{ kept []byte }

const tailBytes = 2000

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	if len(t.kept) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(t.kept))
}
