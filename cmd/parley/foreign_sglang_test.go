package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/fleet"
)

// An sglangPair is a gateway with servers that share requests as SGLang's do: one for prompts, and two
// that decode. Both halves of a request are given the same body, and neither answers before it has met
// the other in the room that the body names. The tokens are those of a real worker.
type sglangPair struct {
	*crew
	tokens  string // where the worker with the model listens
	prefill *sglangServer
	decode  [2]*sglangServer

	call []parley.Token // what is said under a grammar
	// cutAfter is after how many tokens the next answer is cut off, and holdAfter after how many it stands
	// still; 0 for never.
	cutAfter, holdAfter atomic.Int64

	mu    sync.Mutex
	rooms map[float64]*sglangRoom
}

// An sglangRoom has the bodies of both servers.
type sglangRoom struct {
	bodies [2]map[string]any // of the one for prompts, and of the one that decodes
	both   chan struct{}
}

// An sglangServer is one of a pair.
type sglangServer struct {
	*httptest.Server
	pair *sglangPair
	role parley.WorkerRole
	// asked and left count requests, and those whose reader left before the end.
	asked, left atomic.Int64
}

func newSGLangPair(t *testing.T) *sglangPair {
	t.Helper()
	p := &sglangPair{tokens: startWorker(t).url, rooms: map[float64]*sglangRoom{}}
	p.prefill = p.start(t, parley.RolePrefill)
	workers := []string{fmt.Sprintf("{url: %q, kind: sglang}", p.prefill.URL)}
	for i := range p.decode {
		p.decode[i] = p.start(t, parley.RoleDecode)
		workers = append(workers, fmt.Sprintf("{url: %q, kind: sglang}", p.decode[i].URL))
	}
	p.crew = frontOf(t, "model: polly-mini\npools: [{name: foreign, purpose: any, workers: ["+
		strings.Join(workers, ", ")+"]}]\n")
	p.ready(3)
	return p
}

func (p *sglangPair) start(t *testing.T, role parley.WorkerRole) *sglangServer {
	t.Helper()
	s := &sglangServer{pair: p, role: role}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"polly-mini","max_model_len":2048}]}`)
	})
	mux.HandleFunc("GET /get_server_info", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"disaggregation_mode":%q,"disaggregation_bootstrap_port":9001}`, role)
	})
	mux.HandleFunc("POST /generate", func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if err := s.generate(w, r, body); err != nil {
			t.Errorf("%s: %v", cmp.Or(role, "both"), err)
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// meet waits until the other half of a request has come. It reports false if the client leaves before.
func (s *sglangServer) meet(ctx context.Context, body map[string]any) (met bool, err error) {
	number, ok := body["bootstrap_room"].(float64)
	if !ok || body["bootstrap_host"] != "127.0.0.1" || body["bootstrap_port"] != 9001.0 {
		return false, fmt.Errorf("asked without a meeting: %v", body)
	}
	half, other := 0, 1
	if s.role == parley.RoleDecode {
		half, other = 1, 0
	}
	s.pair.mu.Lock()
	room := s.pair.rooms[number]
	if room == nil {
		room = &sglangRoom{both: make(chan struct{})}
		s.pair.rooms[number] = room
	}
	switch {
	case room.bodies[half] != nil:
		err = fmt.Errorf("two servers for the %s of one request", s.role)
	case room.bodies[other] != nil && !reflect.DeepEqual(room.bodies[other], body):
		err = fmt.Errorf("the servers are asked for different things: %v and %v", room.bodies[other], body)
	case room.bodies[other] != nil:
		close(room.both)
	}
	room.bodies[half] = body
	s.pair.mu.Unlock()
	if err != nil {
		return false, err
	}
	select {
	case <-room.both:
		return true, nil
	case <-ctx.Done():
		s.left.Add(1)
		return false, nil
	}
}

// generate answers as SGLang does.
func (s *sglangServer) generate(w http.ResponseWriter, r *http.Request, body map[string]any) error {
	met, err := s.meet(r.Context(), body)
	if err != nil || !met {
		return err
	}
	if s.role == parley.RolePrefill {
		fmt.Fprintf(w, "data: {\"index\":0,\"output_ids\":[0],\"meta_info\":{\"completion_tokens\":1,"+
			"\"prompt_tokens\":%d,\"cached_tokens\":0,\"finish_reason\":{\"type\":\"length\",\"length\":1}}}\n\n"+
			"data: [DONE]\n\n", len(body["input_ids"].([]any)))
		return nil
	}
	return s.decodeTo(w, r, body)
}

// decodeTo writes what the model says, token by token.
func (s *sglangServer) decodeTo(w http.ResponseWriter, r *http.Request, body map[string]any) error {
	ids := []parley.Token{}
	send := func(more []parley.Token, finish string) error {
		ids = append(ids, more...)
		event, err := json.Marshal(map[string]any{"index": 0, "output_ids": ids, "meta_info": map[string]any{
			"completion_tokens": len(ids), "prompt_tokens": len(body["input_ids"].([]any)), "cached_tokens": 0,
			"finish_reason": json.RawMessage(finish)}})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "data: %s\n\n", event)
		_ = http.NewResponseController(w).Flush()
		if due(&s.pair.cutAfter, len(ids)) {
			panic(http.ErrAbortHandler)
		}
		if due(&s.pair.holdAfter, len(ids)) {
			<-r.Context().Done()
			s.left.Add(1)
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	params := body["sampling_params"].(map[string]any)
	if params["ebnf"] != nil {
		for _, id := range s.pair.call[s.pair.called(body):] {
			if err := send([]parley.Token{id}, "null"); err != nil {
				return err
			}
		}
		if err := send(nil, `{"type":"stop","matched":null}`); err != nil {
			return err
		}
	} else if err := s.pair.say(r.Context(), body, send); err != nil {
		return err
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	return nil
}

// due reports once whether there are as many tokens as a number says.
func due(after *atomic.Int64, tokens int) bool {
	n := after.Load()
	return n > 0 && int64(tokens) >= n && after.CompareAndSwap(n, 0)
}

// say has the worker with the model answer, and passes its tokens on. It ends early when ctx does.
func (p *sglangPair) say(ctx context.Context, body map[string]any,
	send func(more []parley.Token, finish string) error) error {
	params := body["sampling_params"].(map[string]any)
	ask := map[string]any{"model": "polly-mini", "prompt": body["input_ids"], "stream": true, "return_token_ids": true,
		"temperature": params["temperature"]}
	if most := params["max_new_tokens"].(float64); most < math.MaxInt32 {
		ask["max_tokens"] = most
	}
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.tokens+"/v1/completions", bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				TokenIDs []parley.Token `json:"token_ids"`
				Finish   string         `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || len(chunk.Choices) == 0 {
			return fmt.Errorf("%s: %w", data, err)
		}
		finish := "null"
		if c := &chunk.Choices[0]; c.Finish != "" {
			finish = fmt.Sprintf(`{"type":%q}`, c.Finish)
		}
		if err := send(chunk.Choices[0].TokenIDs, finish); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}

// ask asks a long question that was not asked before; more are further members of the request.
func (p *sglangPair) ask(number int, at, more string, stream bool) toolAnswer {
	p.t.Helper()
	question := fmt.Sprint("Question ", number, ". What is the capital of France?",
		strings.Repeat(fmt.Sprintf(" And %d more?", number), 100))
	return askToolsOf(p.t, at, question, more, stream)
}

// TestSGLangPairServesRequests has servers with SGLang's protocol divide requests behind a gateway: what they
// say is what the model says alone, also when one that decodes is lost in the middle, with tools, and after
// clients that left.
func TestSGLangPairServesRequests(t *testing.T) {
	p := newSGLangPair(t)
	alone := startServer(t, "--model", "polly-mini", "--log-level", "error")
	for number, stream := range []bool{false, true} {
		want := p.ask(number, alone.url, `"max_tokens":40`, stream)
		got := p.ask(number, p.front.url, `"max_tokens":40`, stream)
		if got.Status != http.StatusOK || got.Text != want.Text || got.Finish != want.Finish || want.Text == "" {
			t.Errorf("stream %v: %+v, want %+v", stream, got, want)
		}
		if record := p.lastRequest(); !strings.Contains(record, "computes the prompt for") {
			t.Errorf("the request was not divided: %s", record)
		}
	}
	p.useTools()
	p.lose(alone.url)
	p.leave(alone.url)
}

// called returns how many tokens of the call the prompt of a body ends with.
func (p *sglangPair) called(body map[string]any) int {
	prompt := body["input_ids"].([]any)
	for n := len(p.call); n > 0; n-- {
		same := n <= len(prompt)
		for i := 0; same && i < n; i++ {
			same = prompt[len(prompt)-n+i] == float64(p.call[i])
		}
		if same {
			return n
		}
	}
	return 0
}

// useTools has the servers call a tool under the grammar that they are sent.
func (p *sglangPair) useTools() {
	p.t.Helper()
	status, text := post(p.t, p.front.url+"/tokenize", fmt.Sprintf(
		`{"model":"polly-mini","add_special_tokens":false,"prompt":%q}`,
		"<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"word\": \"Paris\", \"n\": 7}}\n</tool_call>"))
	var tokens struct{ Tokens []parley.Token }
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || status != http.StatusOK || len(tokens.Tokens) == 0 {
		p.t.Fatalf("%d %s", status, text)
	}
	p.call = tokens.Tokens
	tools := `"max_tokens":200,"tools":[` + shellTool("shell", true) + `],"tool_choice":"required"`
	for _, stream := range []bool{false, true} {
		got := p.ask(10, p.front.url, tools, stream)
		want := []calledTool{{Name: "shell", Arguments: `{"word": "Paris", "n": 7}`}}
		if got.Status != http.StatusOK || got.Finish != "tool_calls" || !slices.Equal(got.Calls, want) {
			p.t.Errorf("stream %v: %+v, want %+v", stream, got, want)
		}
		// What was said under a grammar cannot be the prompt of the rest: the client is told.
		p.cutAfter.Store(6)
		if got := p.ask(11, p.front.url, tools, stream); got.Error == "" || got.Finish != "" {
			p.t.Errorf("cut off, stream %v: %+v, want an error", stream, got)
		}
	}
}

// lose cuts the answer of a server that decodes after its first tokens: another one writes the
// rest, after a prompt that has what was said.
func (p *sglangPair) lose(alone string) {
	p.t.Helper()
	for number, cut := range []int64{1, 2, 5} {
		for _, stream := range []bool{false, true} {
			want := p.ask(20+number, alone, `"max_tokens":40`, stream)
			moved, prompts, decodes := p.moved(), p.prefill.asked.Load(), p.decodes()
			p.cutAfter.Store(cut)
			got := p.ask(20+number, p.front.url, `"max_tokens":40`, stream)
			if got.Status != http.StatusOK || got.Text != want.Text || got.Finish != want.Finish {
				p.t.Errorf("cut after %d tokens, stream %v: %+v, want %+v", cut, stream, got, want)
			}
			if p.cutAfter.Load() != 0 || p.moved() != moved+1 || p.prefill.asked.Load() != prompts+2 ||
				p.decodes() != decodes+2 {
				p.t.Errorf("cut after %d tokens: %d moves, %d prompts, %d decoded", cut, p.moved()-moved,
					p.prefill.asked.Load()-prompts, p.decodes()-decodes)
			}
		}
	}
}

// decodes returns how many requests the servers that decode were asked.
func (p *sglangPair) decodes() int64 { return p.decode[0].asked.Load() + p.decode[1].asked.Load() }

// leave has clients hang up after the first token: the server that decodes is told, and the next request is
// answered.
func (p *sglangPair) leave(alone string) {
	p.t.Helper()
	p.holdAfter.Store(1)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	body := fmt.Sprintf(`{"model":"polly-mini","temperature":0,"stream":true,"max_tokens":40,`+
		`"messages":[{"role":"user","content":%q}]}`, strings.Repeat("Who leaves? ", 100))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.front.url+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		p.t.Fatal(err)
	}
	cancel()
	busy := func(s fleet.Standing) bool { return s.Answering > 0 }
	for until := time.Now().Add(time.Minute); p.decode[0].left.Load()+p.decode[1].left.Load() == 0 ||
		slices.ContainsFunc(p.standings(), busy); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatalf("the servers were not told that the client has left: %+v", p.standings())
		}
	}
	want, got := p.ask(30, alone, `"max_tokens":8`, true), p.ask(30, p.front.url, `"max_tokens":8`, true)
	if got.Status != http.StatusOK || got.Text != want.Text {
		p.t.Errorf("after a client that left: %+v, want %+v", got, want)
	}
}
