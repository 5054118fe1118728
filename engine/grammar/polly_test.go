package grammar_test

import (
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/internal/builtin"
	"parley/internal/testkit"
	"parley/model"
	"parley/token"
)

// A speaker is a real model that writes one answer at a time.
type speaker struct {
	*model.Model
	tokenizer *token.Tokenizer
	blocks    []int32
	logits    []float32
}

func newSpeaker(t *testing.T, name string) *speaker {
	t.Helper()
	m, _ := builtin.Find(name)
	ck, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := token.FromGGUF(ck.Meta)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	const blocks = 32
	network, err := model.Load(ck, backend, model.Limits{Rows: 128, Outputs: 1, Blocks: blocks})
	if err != nil {
		t.Fatal(err)
	}
	s := &speaker{Model: network, tokenizer: tokenizer, logits: make([]float32, network.Vocab())}
	for i := range int32(blocks) {
		s.blocks = append(s.blocks, i)
	}
	return s
}

// room is how many tokens fit the speaker's memory.
func (s *speaker) room() int { return len(s.blocks) * compute.BlockTokens }

// answer continues a prompt under a grammar until the answer must end.
func (s *speaker) answer(t *testing.T, prompt []parley.Token, at *grammar.Matcher,
	seed uint64) (text []byte, whole bool, forced, right int) {
	t.Helper()
	sampler := sample.New(parley.Sampling{Temperature: 1, Seed: seed}, prompt, s.Vocab(), 0)
	var scratch sample.Scratch
	scores := make([]float32, s.Vocab())
	fresh, past := prompt, 0
	for past+len(fresh) < s.room() {
		s.Forward(&compute.Step{Tokens: fresh, Seqs: []compute.Seq{{Rows: len(fresh), Past: past, Blocks: s.blocks}},
			Outputs: []int32{int32(len(fresh) - 1)}}, s.logits)
		past += len(fresh)
		at.Mask().Apply(scores, s.logits)
		chosen, err := sampler.Choose(scores, &scratch)
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		if guess := at.Forced(nil, 1); len(guess) > 0 {
			forced++
			if guess[0] == chosen {
				right++
			}
		}
		if !at.Accept(chosen) {
			t.Fatalf("after %q: %q was offered and refused", text, s.tokenizer.Bytes(chosen))
		}
		sampler.Accept(chosen)
		if at.Final() {
			if !at.Done() {
				t.Fatalf("after %q: final and not done", text)
			}
			return append(text, s.bytesOf(chosen)...), true, forced, right
		}
		text = append(text, s.bytesOf(chosen)...)
		fresh = []parley.Token{chosen}
	}
	return text, false, forced, right
}

func (s *speaker) bytesOf(t parley.Token) []byte {
	if s.tokenizer.IsSpecial(t) {
		return nil
	}
	return s.tokenizer.Bytes(t)
}

func TestPollyWritesWhatTheSchemaAllows(t *testing.T) {
	s := newSpeaker(t, "polly-mini")
	prompt, err := s.tokenizer.Encode("Tell me about your cat as JSON.\n", token.Options{})
	if err != nil {
		t.Fatal(err)
	}
	masker := grammar.NewMasker(grammar.NewVocabulary(s.Vocab(), s.bytesOf, s.tokenizer.Special().EOS), 8<<20)
	schema := `{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":30},
		"colour":{"enum":["black","white","ginger"]},"likes":{"type":"array","items":{"type":"string","maxLength":12},"maxItems":3}},
		"required":["name","age","colour","likes"],"additionalProperties":false}`
	start := masker.Start(compile(t, parley.JSONSchema([]byte(schema), true)))
	complete, forced, right := 0, 0, 0
	for seed := range uint64(20) {
		text, whole, f, r := s.answer(t, prompt, start.Fork(), seed)
		forced, right = forced+f, right+r
		if !whole {
			continue // cut by the model's memory, as by max_tokens
		}
		complete++
		if err := testkit.ValidateJSON(schema, string(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if seed == 0 {
			t.Logf("%s", text)
		}
	}
	if complete < 15 {
		t.Errorf("only %d of 20 answers were complete", complete)
	}
	t.Logf("%d answers complete; %d of %d forced tokens were what the model chose", complete, right, forced)
}

func TestPollyCallsTools(t *testing.T) {
	s := newSpeaker(t, "polly-mini")
	prompt, err := s.tokenizer.Encode("What is the weather like?", token.Options{})
	if err != nil {
		t.Fatal(err)
	}
	masker := grammar.NewMasker(grammar.NewVocabulary(s.Vocab(), s.bytesOf, s.tokenizer.Special().EOS), 8<<20)
	arguments := `{"type":"object","properties":{"city":{"type":"string","maxLength":10}},"required":["city"],"additionalProperties":false}`
	call := parley.Sequence(parley.Literal(`<tool_call>{"name": "weather", "arguments": `),
		parley.JSONSchema([]byte(arguments), true), parley.Literal("}</tool_call>"))
	start := masker.Start(compile(t, parley.Repeat(call, 1, 2)))
	for seed := range uint64(5) {
		text, whole, _, _ := s.answer(t, prompt, start.Fork(), seed)
		if !whole {
			t.Errorf("not complete: %q", text)
		}
		if seed == 0 {
			t.Logf("%s", text)
		}
	}
}
