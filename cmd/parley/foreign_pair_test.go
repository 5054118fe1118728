package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A simulatedPair is a gateway with doubles of vLLM: one computes prompts, and two decode.
type simulatedPair struct {
	*crew
	prefill *door
	decode  [2]*door
	asked   int
}

func newSimulatedPair(t *testing.T) *simulatedPair {
	t.Helper()
	path := filepath.Join(t.TempDir(), "safety.yaml")
	policy := `safety:
  default: {input: {pii: redact, secrets: block}, restore: false, refusal: "Not here."}
`
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &simulatedPair{}
	workers := make([]string, 0, 3)
	for i, role := range []string{"prefill", "decode", "decode"} {
		d := newDoor(t, startChatSimulator(t, "--mode", "echo"))
		if i == 0 {
			p.prefill = d
		} else {
			p.decode[i-1] = d
		}
		workers = append(workers, fmt.Sprintf("{url: %q, kind: vllm, role: %s}", d.URL, role))
	}
	p.crew = frontOf(t, "model: polly-mini\nsafety_policy: "+path+"\npools: [{name: foreign, purpose: any, workers: ["+
		strings.Join(workers, ", ")+"]}]\n")
	p.ready(3)
	return p
}

// ask asks a long question that was not asked before; more are further members of the request.
func (p *simulatedPair) ask(what, more string, stream bool) (int, string) {
	p.t.Helper()
	p.asked++
	question := fmt.Sprint("Question ", p.asked, ". ", what, strings.Repeat(fmt.Sprintf(" And %d more?", p.asked), 120))
	return post(p.t, p.front.url+"/v1/chat/completions", fmt.Sprintf(
		`{"model":"polly-mini","temperature":0,"max_tokens":600,"stream":%v,`+
			`"messages":[{"role":"user","content":%q}]%s}`,
		stream, question, more))
}

// divided wants the newest request to have been computed by two workers, or by one.
func (p *simulatedPair) divided(want bool) {
	p.t.Helper()
	record := p.lastRequest()
	if strings.Contains(record, "computes the prompt for") != want {
		p.t.Errorf("divided is %v, want %v: %s", !want, want, record)
	}
}

// worker returns the worker behind a door.
func (p *simulatedPair) worker(d *door) *hand {
	return &hand{addr: strings.TrimPrefix(d.URL, "http://")}
}

// TestSimulatorPairServesRequests has doubles of vLLM divide requests with tools and under a safety
// policy, lose one that decodes, and drain one half after the other.
func TestSimulatorPairServesRequests(t *testing.T) {
	p := newSimulatedPair(t)
	tools := `,"tools":[` + shellTool("shell", false) + `]`
	for _, stream := range []bool{false, true} {
		required := tools + `,"tool_choice":"required"`
		for name, more := range map[string]string{"plain": "", "tools": tools, "required": required} {
			status, text := p.ask("What is the capital of France?", more, stream)
			if status != http.StatusOK || strings.Contains(text, `"error"`) ||
				!strings.Contains(text, `"finish_reason":"`) {
				t.Errorf("%s, stream %v: %d %s", name, stream, status, text)
			}
			p.divided(true)
		}
	}
	// The doubles answer with the tokens of the prompt that they were sent: the same if the addresses were replaced.
	said := [2]string{}
	for i, address := range []string{"jane.roe@example.org", "john.richard.doe@example.com"} {
		p.asked = 100
		status, text := p.ask("Write to "+address+".", "", false)
		_, rest, _ := strings.Cut(text, `"content":"`)
		said[i], _, _ = strings.Cut(rest, `"`)
		if status != http.StatusOK || said[i] == "" {
			t.Errorf("%s: %d %s", address, status, text)
		}
	}
	if said[0] != said[1] {
		t.Errorf("the prompts differ in an address that was to be replaced: %q, %q", said[0], said[1])
	}
	before := p.prefill.asked.Load() + p.decode[0].asked.Load() + p.decode[1].asked.Load()
	status, text := p.ask("Use AKIAIOSFODNN7EXAMPLE and ghp_abcdefghijklmnopqrstuvwxyz0123456789.", "", true)
	after := p.prefill.asked.Load() + p.decode[0].asked.Load() + p.decode[1].asked.Load()
	if status != http.StatusBadRequest || !strings.Contains(text, "Not here.") || after != before {
		t.Errorf("a secret, %d requests sent: %d %s", after-before, status, text)
	}
	p.lose()
	p.drain()
}

// lose cuts the answers of the workers that decode: before their first token another worker is asked, and
// after it the client is told, because these doubles send texts and no tokens to resume from.
func (p *simulatedPair) lose() {
	p.t.Helper()
	for _, after := range []int64{0, 2000} {
		for _, d := range p.decode {
			d.cutAfter.Store(after)
		}
		moved := p.moved()
		status, text := p.ask("Tell me a story.", "", true)
		whole := status == http.StatusOK && strings.Contains(text, "[DONE]") && !strings.Contains(text, `"error"`)
		if after == 0 && (!whole || p.moved() == moved) || after > 0 && !strings.Contains(text, "cannot be resumed") {
			p.t.Errorf("cut after %d bytes, %d moves: %d %s", after, p.moved()-moved, status, text)
		}
		for _, d := range p.decode {
			d.cutAfter.Store(-1)
		}
		p.settle("up", 3)
	}
}

// drain takes out each half, and both workers of one.
func (p *simulatedPair) drain() {
	p.t.Helper()
	for name, c := range map[string]struct {
		doors   []*door
		divided bool
	}{
		"the worker for prompts": {[]*door{p.prefill}, false},
		"one that decodes":       {p.decode[:1], true},
		"both that decode":       {p.decode[:], false},
		"one of each":            {[]*door{p.prefill, p.decode[1]}, false},
	} {
		for _, d := range c.doors {
			p.tell(p.worker(d), "drain")
		}
		p.settle("draining", len(c.doors))
		status, text := p.ask("What is drained?", "", true)
		if status != http.StatusOK || !strings.Contains(text, "[DONE]") || strings.Contains(text, `"error"`) {
			p.t.Errorf("without %s: %d %s", name, status, text)
		}
		p.divided(c.divided)
		for _, d := range c.doors {
			p.tell(p.worker(d), "resume")
		}
		p.settle("up", 3)
	}
}
