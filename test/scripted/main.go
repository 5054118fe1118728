// Command scripted is a Parley worker for tests of agents: the engine of the product
// with a script in the place of the network. Scheduling, the cache, grammars, stop
// strings and the wire are the product's own; the script decides what a capable model
// would want to say. It is not part of the product: nothing but a test builds it.
//
// The script is a JSON list of rules. The first rule whose texts are all in the prompt
// decides:
//
//	[{"has": ["run the command"], "lacks": ["PROOF-42"], "say": "<tool_call>…</tool_call>"}]
//
// The program reads it again for each answer, writes a model file whose context is long
// enough for agents, prints one line of JSON that says where it listens, and ends with its
// standard input.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"parley"
	"parley/compute"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/model/weights"
	"parley/route/kvindex"
	"parley/token"
	"parley/worker"
	"parley/worker/wire"
)

const (
	contextTokens = 1 << 17
	blocks        = 2 * contextTokens / compute.BlockTokens
	stepTokens    = 8192
	seqs          = 16
	// wanted is the score of a token that continues the script; all others have 0.
	wanted = 1000
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("scripted: ")
	source := flag.String("source", "", "take vocabulary and template from the GGUF `FILE`")
	model := flag.String("model", "", "write the model to this `FILE`, for the gateway")
	script := flag.String("script", "", "read the rules from `FILE`")
	flag.Parse()
	if err := run(*source, *model, *script); err != nil {
		log.Fatal(err)
	}
}

func run(source, model, script string) error {
	ck, err := lengthen(source, model)
	if err != nil {
		return err
	}
	defer ck.Close()
	tokenizer, err := token.FromGGUF(ck.Tokenizer.Meta)
	if err != nil {
		return err
	}
	s := newSource(tokenizer, ck.Config.Vocab, script)
	e, err := engine.New(engine.Config{
		Model:   parley.Model{ID: "scripted", ContextTokens: contextTokens},
		Vocab:   ck.Config.Vocab,
		Ends:    tokenizer.Special().EOS,
		Bytes:   s.bytes,
		Forward: s.forward,
		Move:    s.move,
		Sched:   sched.Config{Blocks: blocks, StepTokens: stepTokens, StepOutputs: seqs, Seqs: seqs},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, routes(e)) }()
	where := map[string]string{"url": "http://" + listener.Addr().String()}
	if err := json.NewEncoder(os.Stdout).Encode(where); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
}

// lengthen writes a model file again with a longer context, and opens it.
func lengthen(source, model string) (*weights.Checkpoint, error) {
	content, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	key := []byte("llama.context_length")
	at := bytes.Index(content, key)
	if at < 0 {
		return nil, fmt.Errorf("%s has no %s", source, key)
	}
	// A value follows its type, which is 4 for 32 bits.
	binary.LittleEndian.PutUint32(content[at+len(key)+4:], contextTokens)
	if err := os.WriteFile(model, content, 0o600); err != nil {
		return nil, err
	}
	return weights.Open(model)
}

// routes are those that a gateway asks a Parley worker for.
func routes(e *engine.Engine) http.Handler {
	const instance = "scripted"
	journal := worker.NewJournal(worker.JournalKept)
	server := &wire.Server{To: e}
	mux := http.NewServeMux()
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := do(w, r); err != nil {
				log.Print(r.URL.Path, ": ", err)
				http.Error(w, string(worker.RefusalBody(err)), http.StatusInternalServerError)
			}
		})
	}
	handle("GET "+worker.AboutPath, func(w http.ResponseWriter, _ *http.Request) error {
		return json.NewEncoder(w).Encode(worker.About{
			Version:     "scripted",
			Instance:    instance,
			Models:      e.Models(),
			Blocks:      blocks,
			BlockTokens: compute.BlockTokens,
		})
	})
	handle("GET "+worker.EventsPath, func(w http.ResponseWriter, r *http.Request) error {
		return journal.Serve(w, r, instance)
	})
	handle("GET "+worker.SnapshotPath, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set(worker.InstanceHeader, instance)
		_, err := w.Write(worker.AppendEvents(nil, &kvindex.Batch{Seq: journal.Seq()}))
		return err
	})
	handle("GET "+wire.Path, server.Serve)
	return mux
}

// A scriptRule says what the answer to some prompts is.
type scriptRule struct {
	Has, Lacks []string
	Say        string
}

// A source stands in for a network. What it keeps in the pool are the tokens themselves.
type source struct {
	tokenizer *token.Tokenizer
	script    string
	ids       map[string]parley.Token // by what they add to the text
	longest   int
	pool      [][compute.BlockTokens]parley.Token
	begin     parley.Token // begins each message of a prompt
	vocab     int
}

func newSource(t *token.Tokenizer, vocab int, script string) *source {
	s := &source{
		tokenizer: t,
		script:    script,
		ids:       map[string]parley.Token{},
		pool:      make([][compute.BlockTokens]parley.Token, blocks),
		vocab:     vocab,
	}
	s.begin, _ = t.ID("<|im_start|>")
	for id := range parley.Token(t.Size()) {
		if b := s.bytes(id); len(b) > 0 {
			s.ids[string(b)] = id
			s.longest = max(s.longest, len(b))
		}
	}
	return s
}

func (s *source) bytes(id parley.Token) []byte {
	if !s.tokenizer.IsSaid(id) {
		return nil
	}
	return s.tokenizer.Bytes(id)
}

func (s *source) move(m kv.Move) error {
	s.pool[m.ToSlot] = s.pool[m.FromSlot]
	return nil
}

// forward keeps the tokens of a step, and scores what follows those of its outputs.
func (s *source) forward(step *compute.Step, logits []float32) {
	clear(logits)
	next := 0
	for _, q := range step.Seqs {
		for i := range q.Rows {
			at := q.Past + i
			s.pool[q.Blocks[at/compute.BlockTokens]][at%compute.BlockTokens] = step.Tokens[q.Row+i]
			if next < len(step.Outputs) && int(step.Outputs[next]) == q.Row+i {
				s.score(q.Blocks, at+1, logits[next*s.vocab:][:s.vocab])
				next++
			}
		}
	}
}

// score gives every token with which the script continues a score, the longer the higher:
// a grammar may refuse the one that the tokenizer would choose.
func (s *source) score(blocks []int32, length int, scores []float32) {
	history := make([]parley.Token, length)
	for i := range history {
		history[i] = s.pool[blocks[i/compute.BlockTokens]][i%compute.BlockTokens]
	}
	turn := length - 1
	for turn > 0 && history[turn] != s.begin {
		turn--
	}
	said := strings.TrimPrefix(s.tokenizer.Decode(history[turn:], true), "assistant\n")
	answer := s.answer(s.tokenizer.Decode(history[:turn], false))
	rest, follows := strings.CutPrefix(answer, said)
	if !follows {
		s.depart(said, answer, scores)
	}
	if rest == "" || !follows {
		for _, end := range s.tokenizer.Special().EOS {
			scores[end] = wanted
		}
		return
	}
	for n := 1; n <= min(len(rest), s.longest); n++ {
		if id, ok := s.ids[rest[:n]]; ok {
			scores[id] = wanted * float32(n)
		}
	}
}

// depart scores what ends an answer soon that a grammar has led away from the script.
func (s *source) depart(said, answer string, scores []float32) {
	if _, first := strings.CutPrefix(answer, said[:len(said)-1]); first {
		log.Printf("the engine said %q where the script has %q", said, answer)
	}
	for i, closing := range []string{"\"", "}", "]", "\n", "</"} {
		if id, ok := s.ids[closing]; ok {
			scores[id] = wanted/2 + float32(i)
		}
	}
}

// answer returns what the first rule that knows the prompt says.
func (s *source) answer(prompt string) string {
	content, err := os.ReadFile(s.script)
	var rules []scriptRule
	if err == nil {
		err = json.Unmarshal(content, &rules)
	}
	if err != nil {
		log.Print(err)
		return "The script cannot be read."
	}
	for _, r := range rules {
		if r.knows(prompt) {
			return r.Say
		}
	}
	return "The script has no rule for this prompt."
}

func (r *scriptRule) knows(prompt string) bool {
	for _, text := range r.Has {
		if !strings.Contains(prompt, text) {
			return false
		}
	}
	for _, text := range r.Lacks {
		if strings.Contains(prompt, text) {
			return false
		}
	}
	return true
}
