package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/fleet/discover"
	"parley/worker"
)

// A pairedEngines are servers that share requests as vLLM's and SGLang's do, and check what the
// protocols of both demand: keys and values are read once, by the request that they were
// computed for, and from where they are.
type pairedEngines struct {
	t  *testing.T
	mu sync.Mutex
	// held are the kv_transfer_params that were given out and not used, by the id of the
	// engine and its block, with the request that they are for.
	held map[string]map[string]any
	// rooms are where SGLang's engines meet.
	rooms map[float64]*meetingRoom
	// asked is who was asked for what, in order.
	asked []string
	// faults are what engines do instead of answering, by their names.
	faults  map[string]func(w http.ResponseWriter, r *http.Request)
	numbers int
}

// A meetingRoom has the bodies of both engines.
type meetingRoom struct {
	prefill, decode map[string]any
	both            chan struct{}
}

func newPairedEngines(t *testing.T) *pairedEngines {
	return &pairedEngines{t: t, held: map[string]map[string]any{}, rooms: map[float64]*meetingRoom{},
		faults: map[string]func(http.ResponseWriter, *http.Request){}}
}

// member starts an engine and returns it as it joins.
func (e *pairedEngines) member(name string, kind worker.Kind, role parley.WorkerRole) Member {
	e.t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":%q,"max_model_len":4096}]}`, modelID)
	})
	answer, path := e.vllm, "/v1/completions"
	if kind == worker.SGLang {
		mux.HandleFunc("GET /get_server_info", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"disaggregation_mode":%q,"disaggregation_bootstrap_port":9001}`, cmp.Or(role, "null"))
		})
		answer, path = e.sglang, "/generate"
	}
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			e.t.Error(err)
		}
		e.mu.Lock()
		e.asked = append(e.asked, name)
		fault := e.faults[name]
		e.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		answer(w, r, name, role, body)
	})
	s := httptest.NewServer(mux)
	e.t.Cleanup(s.Close)
	dial := Dialer{Pool: "default", Worker: worker.Config{Kind: kind, Role: role}}
	if kind == worker.SGLang {
		dial.Worker.Role = "" // it says so itself
	}
	m, err := dial.Connect(e.t.Context(), discover.Address{Name: name, URL: s.URL})
	if err != nil {
		e.t.Fatal(err)
	}
	return m
}

// vllm answers as vLLM with a connector for keys and values does.
func (e *pairedEngines) vllm(w http.ResponseWriter, _ *http.Request, name string, role parley.WorkerRole,
	body map[string]any) {
	params, _ := body["kv_transfer_params"].(map[string]any)
	e.mu.Lock()
	defer e.mu.Unlock()
	if params["do_remote_decode"] == true {
		want := map[string]any{"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": nil,
			"remote_block_ids": nil, "remote_host": nil, "remote_port": nil}
		if role != parley.RolePrefill || body["stream"] != false || body["max_tokens"] != 1.0 ||
			body["stream_options"] != nil || body["structured_outputs"] != nil || !reflect.DeepEqual(params, want) {
			e.t.Errorf("%s is asked for a prompt with %v", name, body)
		}
		e.numbers++
		id := fmt.Sprintf("%s/%d", name, e.numbers)
		e.held[id] = body
		fmt.Fprintf(w, `{"choices":[{"index":0,"text":"x","finish_reason":"length"}],
			"usage":{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":32}},
			"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":%q,
			"remote_block_ids":[[1,2]],"remote_host":"10.0.0.1","remote_port":5600,"tp_size":1}}`,
			len(body["prompt"].([]any)), id)
		return
	}
	cached := 0
	if params != nil {
		id, _ := params["remote_engine_id"].(string)
		first := e.held[id]
		delete(e.held, id)
		if first == nil || role != parley.RoleDecode || params["do_remote_prefill"] != true ||
			params["remote_port"] != 5600.0 || !reflect.DeepEqual(params["remote_block_ids"], []any{[]any{1.0, 2.0}}) {
			e.t.Errorf("%s is told of blocks that are not there: %v", name, params)
		}
		for _, same := range []string{"prompt", "request_id", "cache_salt", "model"} {
			if !reflect.DeepEqual(first[same], body[same]) {
				e.t.Errorf("%s differs: %v was computed, %v is decoded", same, first[same], body[same])
			}
		}
		cached = len(body["prompt"].([]any))
	}
	logprobs := ""
	if body["logprobs"] != nil {
		logprobs = `,"logprobs":{"tokens":["a"],"token_logprobs":[-0.5],"top_logprobs":[{"token_id:7":-0.5}]}`
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"token_ids\":[7]%s}]}\n\n"+
		"data: {\"choices\":[{\"index\":0,\"text\":\"\",\"token_ids\":[],\"finish_reason\":\"stop\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1,"+
		"\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\ndata: [DONE]\n\n",
		logprobs, len(body["prompt"].([]any)), cached)
}

// sglang answers as SGLang does: neither engine before it has met the other.
func (e *pairedEngines) sglang(w http.ResponseWriter, r *http.Request, name string, role parley.WorkerRole,
	body map[string]any) {
	number, ok := body["bootstrap_room"].(float64)
	if !ok || body["bootstrap_host"] != "127.0.0.1" || body["bootstrap_port"] != 9001.0 {
		e.t.Errorf("%s is asked without a meeting: %v", name, body)
		return
	}
	e.mu.Lock()
	room := e.rooms[number]
	if room == nil {
		room = &meetingRoom{both: make(chan struct{})}
		e.rooms[number] = room
	}
	mine := &room.decode
	if role == parley.RolePrefill {
		mine = &room.prefill
	}
	if *mine != nil {
		e.t.Errorf("two engines for the %s of one request", role)
	}
	*mine = body
	if room.prefill != nil && room.decode != nil {
		if !reflect.DeepEqual(room.prefill, room.decode) {
			e.t.Errorf("the engines are asked for different things: %v and %v", room.prefill, room.decode)
		}
		close(room.both)
	}
	e.mu.Unlock()
	select {
	case <-room.both:
	case <-r.Context().Done():
		return
	}
	tokens, meta := "[7]", `"completion_tokens":1,`
	if body["return_logprob"] == true {
		meta += `"output_token_logprobs":[[-0.5,7,null]],"output_top_logprobs":[[[-0.5,7,null]]],`
	}
	fmt.Fprintf(w, "data: {\"index\":0,\"output_ids\":%s,\"meta_info\":{%s\"prompt_tokens\":512,\"cached_tokens\":32,"+
		"\"finish_reason\":{\"type\":\"length\",\"length\":1}}}\n\ndata: [DONE]\n\n", tokens, meta)
}

// fault has an engine do something else than answer; nil for nothing else.
func (e *pairedEngines) fault(name string, do func(w http.ResponseWriter, r *http.Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults[name] = do
}

// awaitPrompt waits until an engine computes a prompt: no engine that decodes has a token before.
func (e *pairedEngines) awaitPrompt() {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		computes := len(e.held)+len(e.rooms) > 0
		e.mu.Unlock()
		if computes {
			return
		}
		if time.Since(began) > time.Minute {
			e.t.Error("no engine was asked for the prompt")
			return
		}
	}
}

// askedNow returns who was asked, in order, and forgets it.
func (e *pairedEngines) askedNow() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := strings.Join(e.asked, " ")
	e.asked = nil
	return out
}

// breaks ends the connection of a request.
func breaks(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

// fails answers with an error of the engine.
func fails(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, `{"error":{"message":"out of memory","code":500}}`, http.StatusInternalServerError)
}

// awaitUp waits until all workers of a fleet are up.
func awaitUp(t *testing.T, f *Fleet) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(f.Standings(), func(s Standing) bool { return s.State != Up }) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%+v", f.Standings())
		}
	}
}

// promptOfLength returns a request for one token after a prompt.
func promptOfLength(n int) *parley.Request {
	r := &parley.Request{ID: "r", Model: modelID, Prompt: make([]parley.Token, n), MaxTokens: 4}
	for i := range r.Prompt {
		r.Prompt[i] = parley.Token(i % vocab)
	}
	r.Salt[0] = 1
	return r
}

// TestForeignEnginesShareRequests has engines of both kinds answer requests together that ask for
// all that is sent to them.
func TestForeignEnginesShareRequests(t *testing.T) {
	schema := parley.JSONSchema([]byte(`{"type":"object"}`), true)
	for _, kind := range []worker.Kind{worker.VLLM, worker.SGLang} {
		for name, change := range map[string]func(*parley.Request){
			"plain":    func(*parley.Request) {},
			"logprobs": func(r *parley.Request) { r.Logprobs, r.TopLogprobs = true, 1 },
			"schema":   func(r *parley.Request) { r.Grammar = &schema },
			"sampled":  func(r *parley.Request) { r.Sampling = parley.Sampling{Temperature: 1, Seed: 7, TopK: 5} },
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				e := newPairedEngines(t)
				f := newFleet(t, Config{SlowStart: -1}, e.member("prefill", kind, parley.RolePrefill),
					e.member("decode", kind, parley.RoleDecode))
				awaitUp(t, f)
				r := promptOfLength(512)
				change(r)
				attempts, got, err := travel(t.Context(), f, r)
				if err != nil {
					t.Fatal(err)
				}
				whole := gather(r, got)[0]
				if !slices.Equal(whole.Tokens, []parley.Token{7}) || len(whole.Logprobs) != 0 != r.Logprobs {
					t.Errorf("%+v", whole)
				}
				if u := got[len(got)-1].Usage; u.CachedTokens != 32 || u.PromptTokens != 512 {
					t.Errorf("usage %+v, want what the worker for prompts had cached", u)
				}
				if a := e.askedNow(); a != "prefill decode" && (kind == worker.VLLM || a != "decode prefill") {
					t.Errorf("asked %s", a)
				}
				for _, a := range attempts {
					computes := strings.Contains(a.Reason, "computes the prompt for")
					if a.End != "done" || a.Worker == "prefill" != computes ||
						a.Worker == "decode" != strings.Contains(a.Reason, "prompt computed by prefill") {
						t.Errorf("%s %q: %s", a.Worker, a.Reason, a.End)
					}
				}
				if len(attempts) != 2 || len(e.held) != 0 {
					t.Errorf("%d attempts, and %d prompts were not read", len(attempts), len(e.held))
				}
			})
		}
	}
}

// TestForeignPairsResume loses the engine that decodes after its first token: another one writes
// the rest. Of vLLM it computes the prompt together with that token itself; SGLang's cannot, so a
// worker for prompts does.
func TestForeignPairsResume(t *testing.T) {
	for kind, first := range map[worker.Kind]string{
		worker.VLLM:   `{"choices":[{"index":0,"text":"b","token_ids":[5]}]}`,
		worker.SGLang: `{"index":0,"output_ids":[5],"meta_info":{"prompt_tokens":512,"completion_tokens":1}}`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			e := newPairedEngines(t)
			f := newFleet(t, Config{SlowStart: -1}, e.member("p", kind, parley.RolePrefill),
				e.member("d1", kind, parley.RoleDecode), e.member("d2", kind, parley.RoleDecode))
			awaitUp(t, f)
			lost := func(w http.ResponseWriter, _ *http.Request) {
				e.fault("d1", nil)
				e.fault("d2", nil)
				e.awaitPrompt()
				fmt.Fprintf(w, "data: %s\n\n", first)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			e.fault("d1", lost)
			e.fault("d2", lost)
			r := promptOfLength(512)
			attempts, got, err := travel(t.Context(), f, r)
			if err != nil {
				t.Fatal(err)
			}
			if tokens := gather(r, got)[0].Tokens; !slices.Equal(tokens, []parley.Token{5, 7}) {
				t.Errorf("%v, want the token of the first engine and that of the second", tokens)
			}
			asked := strings.Fields(e.askedNow())
			slices.Sort(asked)
			want := []string{"d1", "d2", "p"}
			if kind == worker.SGLang {
				want = append(want, "p")
			}
			if !slices.Equal(asked, want) {
				t.Errorf("asked %v: %+v", asked, attempts)
			}
			if kind == worker.VLLM && len(e.held) != 1 { // of the engine that was lost
				t.Errorf("%d prompts were not read, want that of the lost engine", len(e.held))
			}
			for _, room := range e.rooms {
				if room.decode != nil && !strings.HasSuffix(fmt.Sprint(room.decode["input_ids"]), " 5]") {
					t.Errorf("the second engine is not told of the first token: %v", room.decode)
				}
			}
			for _, s := range f.Standings() {
				if s.Answering != 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestForeignPairsFail has either engine fail before the first token, in all ways and once.
func TestForeignPairsFail(t *testing.T) {
	for name, c := range map[string]struct {
		kind  worker.Kind
		who   string
		fault func(http.ResponseWriter, *http.Request)
		// last is who is asked in the end.
		last string
	}{
		"vllm prefill fails":    {worker.VLLM, "p1", fails, "d"},
		"vllm prefill breaks":   {worker.VLLM, "p1", breaks, "d"},
		"vllm without params":   {worker.VLLM, "p1", plainAnswer, "d"},
		"vllm decode breaks":    {worker.VLLM, "d", breaks, "p1"},
		"sglang prefill fails":  {worker.SGLang, "p1", fails, "p2"},
		"sglang prefill breaks": {worker.SGLang, "p1", breaks, "p2"},
		"sglang prefill aborts": {worker.SGLang, "p1", aborts, "p2"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPairedEngines(t)
			members := []Member{e.member("p1", c.kind, parley.RolePrefill), e.member("d", c.kind, parley.RoleDecode)}
			if c.kind == worker.SGLang {
				members = append(members, e.member("p2", c.kind, parley.RolePrefill))
			}
			f := newFleet(t, Config{SlowStart: -1}, members...)
			awaitUp(t, f)
			e.fault(c.who, c.fault)
			for tries := 0; ; tries++ { // until it was asked: there are two workers for prompts
				_, got, err := travel(t.Context(), f, promptOfLength(512+16*tries))
				if err != nil {
					t.Fatal(err)
				}
				if n := len(gather(&parley.Request{}, got)[0].Tokens); n != 1 {
					t.Errorf("%d tokens, want one", n)
				}
				asked := e.askedNow()
				if !strings.Contains(asked, c.who) {
					continue
				}
				if c.kind == worker.SGLang && !strings.Contains(asked, c.last) || // both are asked at once
					c.kind == worker.VLLM && !strings.HasSuffix(asked, " "+c.last) {
					t.Errorf("asked %s, want %s last", asked, c.last)
				}
				break
			}
			for _, s := range f.Standings() {
				if s.Answering != 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// plainAnswer is what vLLM without a connector for keys and values answers.
func plainAnswer(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `{"choices":[{"index":0,"text":"x","finish_reason":"length"}],"kv_transfer_params":null}`)
}

// aborts is what SGLang says when the other engine is not there.
func aborts(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `data: {"index":0,"output_ids":[],"meta_info":{"completion_tokens":0,"prompt_tokens":9,`+
		`"finish_reason":{"type":"abort","message":"KVTransferError"}}}`+"\n\ndata: [DONE]\n\n")
}

// TestForeignPairsAreCancelled has the client leave while the engines compute the prompt, and while they
// decode: both are told.
func TestForeignPairsAreCancelled(t *testing.T) {
	for _, kind := range []worker.Kind{worker.VLLM, worker.SGLang} {
		for _, at := range []string{"prefill", "decode"} {
			t.Run(string(kind)+"/"+at, func(t *testing.T) {
				e := newPairedEngines(t)
				f := newFleet(t, Config{SlowStart: -1}, e.member("prefill", kind, parley.RolePrefill),
					e.member("decode", kind, parley.RoleDecode))
				awaitUp(t, f)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left := make(chan struct{})
				e.fault(at, func(_ http.ResponseWriter, r *http.Request) {
					cancel()
					<-r.Context().Done()
					close(left)
				})
				if _, err := hear(ctx, f, promptOfLength(512)); err == nil {
					t.Error("an answer came although the client had left")
				}
				<-left
				for began := time.Now(); ; time.Sleep(time.Millisecond) {
					if !slices.ContainsFunc(f.Standings(), func(s Standing) bool { return s.Answering > 0 }) {
						break
					}
					if time.Since(began) > time.Minute {
						t.Fatalf("%+v", f.Standings())
					}
				}
				e.fault(at, nil)
				if _, err := hear(t.Context(), f, promptOfLength(512)); err != nil {
					t.Errorf("the next request: %v", err)
				}
			})
		}
	}
}

// TestForeignRolesAlone has requests that one engine answers, and those that none can.
func TestForeignRolesAlone(t *testing.T) {
	type members []parley.WorkerRole
	for name, c := range map[string]struct {
		kind    worker.Kind
		roles   members
		tokens  int
		change  func(*parley.Request)
		cfg     Config
		asked   string
		refused parley.Code
	}{
		"short prompt": {kind: worker.VLLM, roles: members{parley.RolePrefill, parley.RoleDecode}, tokens: 64,
			asked: "decode"},
		"no worker for prompts": {kind: worker.VLLM, roles: members{parley.RoleDecode}, tokens: 512, asked: "decode"},
		"no worker that decodes": {kind: worker.VLLM, roles: members{parley.RolePrefill}, tokens: 512,
			asked: "prefill"},
		"transfers off": {kind: worker.VLLM, roles: members{parley.RolePrefill, parley.RoleDecode}, tokens: 512,
			cfg: Config{NoTransfers: true}, asked: "decode"},
		"short prompt, sglang": {kind: worker.SGLang, roles: members{parley.RolePrefill, parley.RoleDecode}, tokens: 16,
			asked: "decode prefill"},
		"no worker for prompts, sglang": {kind: worker.SGLang, roles: members{parley.RoleDecode}, tokens: 512,
			refused: parley.Unavailable},
		"no worker that decodes, sglang": {kind: worker.SGLang, roles: members{parley.RolePrefill}, tokens: 512,
			refused: parley.Unavailable},
		"choices, sglang": {kind: worker.SGLang, roles: members{parley.RolePrefill, parley.RoleDecode}, tokens: 512,
			change: func(r *parley.Request) { r.Choices = 2 }, refused: parley.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPairedEngines(t)
			c.cfg.SlowStart, c.cfg.EmptyWait, c.cfg.WaitMax = -1, 10*time.Millisecond, 10*time.Millisecond
			var joined []Member
			for _, role := range c.roles {
				joined = append(joined, e.member(string(role), c.kind, role))
			}
			f := newFleet(t, c.cfg, joined...)
			awaitUp(t, f)
			r := promptOfLength(c.tokens)
			if c.change != nil {
				c.change(r)
			}
			_, err := hear(t.Context(), f, r)
			if c.refused != "" {
				if parley.CodeOf(err) != c.refused {
					t.Errorf("error %v, want %s", err, c.refused)
				}
				return
			}
			asked := strings.Fields(e.askedNow())
			if slices.Sort(asked); err != nil || strings.Join(asked, " ") != c.asked {
				t.Errorf("asked %v, want %s; error %v", asked, c.asked, err)
			}
		})
	}
}

// TestForeignRolesBesideOurs has workers of ours with roles in the same pool: each worker that decodes
// gets prompts from its own kind alone.
func TestForeignRolesBesideOurs(t *testing.T) {
	e := newPairedEngines(t)
	var mu sync.Mutex
	ours := map[string]int{}
	said := func(name string) scripted {
		return func(_ context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
			mu.Lock()
			ours[name]++
			mu.Unlock()
			if r.Handoff != nil || name == "our-decode" && (r.Fetch == nil || r.Fetch.Worker != "our-prefill") {
				t.Errorf("%s is asked with %+v and %+v", name, r.Handoff, r.Fetch)
			}
			answers(yield, nil, 0)
		}
	}
	f := newFleet(t, Config{SlowStart: -1}, e.member("prefill", worker.VLLM, parley.RolePrefill),
		e.member("decode", worker.VLLM, parley.RoleDecode),
		said("our-prefill").member("our-prefill", parley.RolePrefill),
		said("our-decode").member("our-decode", parley.RoleDecode))
	awaitUp(t, f)
	for i := range 16 {
		r := promptOfLength(512)
		r.ID, r.Prompt[0] = fmt.Sprint(i), parley.Token(i)
		if _, err := hear(t.Context(), f, r); err != nil {
			t.Fatal(err)
		}
	}
	asked := strings.Fields(e.askedNow())
	theirs := map[string]int{}
	for _, name := range asked {
		theirs[name]++
	}
	if theirs["prefill"] != theirs["decode"] || ours["our-prefill"] != ours["our-decode"] ||
		theirs["decode"]+ours["our-decode"] != 16 || theirs["decode"] == 0 || ours["our-decode"] == 0 {
		t.Errorf("theirs %v, ours %v", theirs, ours)
	}
}

// TestForeignPairsAreHedged has a pair that does not begin be outrun by another one.
func TestForeignPairsAreHedged(t *testing.T) {
	for _, kind := range []worker.Kind{worker.VLLM, worker.SGLang} {
		t.Run(string(kind), func(t *testing.T) {
			e := newPairedEngines(t)
			f := newFleet(t, Config{SlowStart: -1, HedgeAfter: time.Millisecond},
				e.member("prefill", kind, parley.RolePrefill), e.member("d1", kind, parley.RoleDecode),
				e.member("d2", kind, parley.RoleDecode))
			awaitUp(t, f)
			e.fault("d1", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			for i := range 8 { // until the one that stands still was asked first
				r := promptOfLength(512)
				r.Prompt[0] = parley.Token(i)
				if _, err := hear(t.Context(), f, r); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(e.askedNow(), "d1") {
					return
				}
			}
		})
	}
}

// TestPromptErrorsNameTheWorker wants the errors of a pair to name who failed.
func TestPromptErrorsNameTheWorker(t *testing.T) {
	err := &promptError{"p", 0, parley.Errorf(parley.Unavailable, "gone")}
	if !strings.Contains(err.Error(), "worker p for the prompt: gone") || parley.CodeOf(err) != parley.Unavailable ||
		errors.Unwrap(err) == nil {
		t.Error(err)
	}
}
