package grammar

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"parley"
)

// end is the end token of the vocabularies of these tests.
const end parley.Token = 0

// vocabularyOf returns a vocabulary of an end token, a control token, the
// single bytes that pass keep, and texts.
func vocabularyOf(keep func(b byte) bool, texts ...string) *Vocabulary {
	spell := [][]byte{nil, nil}
	for b := range 256 {
		if keep(byte(b)) {
			spell = append(spell, []byte{byte(b)})
		}
	}
	for _, text := range texts {
		spell = append(spell, []byte(text))
	}
	return NewVocabulary(len(spell), func(t parley.Token) []byte { return spell[t] }, []parley.Token{end})
}

func all(byte) bool { return true }

// pieces are tokens as vocabularies have them: words, punctuation that crosses
// the parts of a value, broken characters, and runs.
var pieces = append(
	strings.Split(
		`{" }} }, ", ": ":" ":{ "} "]  [" ][ [[ [{ {}  [] true false null tru lse 12 007 -1 1.5 e5 abc the "a "abc ab a" \" \\ \n \u00 \ud83d\ude00 "b": "b":1 }}} ]]] ,{" ,[ <tool </tool <tool_call> call> <to`, " "),
	"\n  ", "\n", ", ", "  ", ": ", "é", "日本", "\xe6\x97", "\xa5x", "\xf0\x9f", " the", "\":\"", "\", \"",
	strings.Repeat(" ", 20), "é\"", "\t", "aaaaaaaaaaaaaaaaaaaaaaaa", "ab\"}", "abc", "abc",
	strings.Repeat("a", 30), strings.Repeat("é", 20), strings.Repeat("ab ", 14)+"\"", strings.Repeat("x", 28)+"\"}",
	"\xa5"+strings.Repeat("b", 40), strings.Repeat("1", 26))

// masked are grammars of all kinds, for comparing masks with single steps.
var masked = map[string]parley.Grammar{
	"any":    parley.JSONSchema([]byte(`{}`), true),
	"object": parley.JSONObject(),
	"members": parley.JSONSchema(
		[]byte(
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"array","items":{"type":"string","maxLength":30}}},"additionalProperties":{"type":"number"}}`), true),
	"counted": parley.JSONSchema([]byte(
		`{"type":"array","items":{"type":"string","minLength":2,"maxLength":40},"minItems":2,"maxItems":100}`), true),
	"long": parley.JSONSchema([]byte(`{"type":"string","minLength":30,"maxLength":1000000}`), true),
	"tree": parley.JSONSchema(
		[]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"}}},"required":["a"]}`), true),
	"ambig": parley.JSONSchema(
		[]byte(
			`{"$defs":{"x":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},"y":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}},"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"}]}`), true),
	"pattern": parley.JSONSchema([]byte(`{"type":"string","pattern":"^(a|b\"|é)*c"}`), true),
	"number": parley.JSONSchema([]byte(`{"type":"array","items":{"type":"number","minimum":-1.5,"maximum":120}}`),
		true),
	"short": parley.JSONSchema(
		[]byte(
			`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"type":"string","minLength":3,"maxLength":28}},"required":["a","b"],"additionalProperties":false}}`), true),
	"regex":  parley.Regex(`(?i)[a-z ]+(日本)?\n*`),
	"repeat": parley.Repeat(parley.Choice(parley.Literal("ab"), parley.Literal("abc"), parley.Regex("1+")), 2, 9),
	"tools": parley.FreeText(parley.GrammarTrigger{Text: "<tool_call>",
		Then: parley.Sequence(parley.JSONObject(), parley.Literal("</tool")), Again: true}),
	"optional": parley.Sequence(parley.Optional(parley.Literal("abc")), parley.Optional(parley.JSONObject())),
}

// brute runs a token's bytes through the whole state, one place after the
// other, with none of the parts that make masks fast.
func brute(t *Matcher, token parley.Token) bool {
	if token == end {
		return t.complete
	}
	return t.Fork().Accept(token)
}

func TestMasksAgreeWithSingleSteps(t *testing.T) {
	vocabularies := map[string]*Vocabulary{
		"bytes":         vocabularyOf(all, pieces...),
		"no high bytes": vocabularyOf(func(b byte) bool { return b < 0x80 }, pieces...),
		"few bytes": vocabularyOf(func(b byte) bool {
			return strings.IndexByte(`{}[]":,ab01c<`, b) >= 0
		}, pieces...),
	}
	for kind, v := range vocabularies {
		for name, g := range masked {
			t.Run(kind+"/"+name, func(t *testing.T) {
				random := rand.New(rand.NewPCG(7, 7))
				p, err := Compile(&g)
				if err != nil {
					t.Fatal(err)
				}
				start := NewMasker(v, 1<<20).Start(p)
				for range 30 {
					walkAndCompare(t, v, start.Fork(), random, 40)
				}
			})
		}
	}
}

// walkAndCompare takes random allowed tokens, compares each mask bit with a
// single step, and finds a way to the end from wherever it stops.
func walkAndCompare(t *testing.T, v *Vocabulary, at *Matcher, random *rand.Rand, steps int) {
	t.Helper()
	var text []byte
	for range steps {
		mask := at.Mask()
		var allowed []parley.Token
		for token := range parley.Token(v.size) {
			want := brute(at, token)
			if mask.Allows(token) != want || at.Allowed(token) != want {
				t.Fatalf("after %q: token %q: mask says %v, Allowed says %v, a step says %v", text, v.spell[token],
					mask.Allows(token), at.Allowed(token), want)
			}
			if want && token != end {
				allowed = append(allowed, token)
			}
		}
		if mask.Count() == 0 {
			t.Fatalf("after %q: no token is allowed", text)
		}
		if len(allowed) == 0 {
			return
		}
		token := allowed[random.IntN(len(allowed))]
		at.Accept(token)
		text = append(text, v.spell[token]...)
	}
	finish(t, v, at, text)
}

// finish leads a matcher to the end by the bytes that are nearest to it.
func finish(t *testing.T, v *Vocabulary, at *Matcher, text []byte) {
	t.Helper()
	for range 100_000 {
		if at.Done() {
			return
		}
		best, least := parley.Token(-1), math.MaxInt
		for token := range parley.Token(v.size) {
			if token == end || len(v.spell[token]) != 1 {
				continue
			}
			if next := at.Fork(); next.Accept(token) && distance(next) < least {
				best, least = token, distance(next)
			}
		}
		if best < 0 {
			t.Fatalf("after %q: nothing leads on", text)
		}
		at.Accept(best)
		text = append(text, v.spell[best]...)
	}
	t.Fatalf("no end after %.200q", text)
}

// distance estimates how far a matcher is from the end: the bytes to the end
// of each open rule, with calls counted as one.
func distance(t *Matcher) int {
	if t.complete {
		return 0
	}
	p, least := t.program.Program, math.MaxInt
	for _, at := range t.places {
		sum := bytesLeft(p, at.node)
		for f := at.frame; f != bottom; f = t.frames[f].parent {
			sum += 10 * bytesLeft(p, t.frames[f].node)
			if r := p.nodes[t.frames[f].node].repeat; r != nil {
				sum += 10 * int(max(0, r.least-t.frames[f].count))
			}
		}
		least = min(least, sum)
	}
	return least
}

// bytesLeft is a breadth-first search for the end of a node's rule.
func bytesLeft(p *Program, from int32) int {
	if p.nodes[from].repeat != nil {
		return 1
	}
	seen, row := map[int32]bool{from: true}, []int32{from}
	for n := 1; len(row) > 0; n++ {
		var next []int32
		visit := func(to int32) {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
		for _, at := range row {
			if p.nodes[at].accept {
				return n
			}
			for _, e := range p.nodes[at].edges {
				visit(e.To)
			}
			for _, l := range p.nodes[at].calls {
				visit(l.back)
			}
		}
		row = next
	}
	return 1 << 20
}

func TestCachedMasksStayTheSame(t *testing.T) {
	v := vocabularyOf(all, pieces...)
	g := masked["members"]
	p, err := Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	small, large := NewMasker(v, 0), NewMasker(v, 1<<24)
	random := rand.New(rand.NewPCG(3, 3))
	for range 20 {
		a, b := small.Start(p), large.Start(p)
		for range 60 {
			x, y := a.Mask(), b.Mask()
			if fmt.Sprint(x.words) != fmt.Sprint(y.words) {
				t.Fatal("a small cache changes a mask")
			}
			token := parley.Token(random.IntN(v.size))
			if token != end && a.Accept(token) != b.Accept(token) {
				t.Fatal("a small cache changes a step")
			}
		}
	}
	if n := len(small.masks.young) + len(small.masks.old); n > 8 {
		t.Errorf("a small cache holds %d masks", n)
	}
	if s := large.Stats(); s.MaskMisses == 0 || s.MaskMisses >= s.Masks/2 {
		t.Errorf("%d of %d masks were computed", s.MaskMisses, s.Masks)
	}
}

func TestApply(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for _, size := range []int{1, 63, 64, 65, 200, 1000} {
		for range 50 {
			m := &Mask{words: make([]uint64, (size+63)/64), size: size}
			density := random.Float64()
			scores, dst := make([]float32, size), make([]float32, size)
			for i := range scores {
				scores[i] = random.Float32()
				if random.Float64() < density {
					m.words[i/64] |= 1 << (i % 64)
				}
			}
			m.Apply(dst, scores)
			inPlace := append([]float32(nil), scores...)
			m.Apply(inPlace, inPlace)
			for i := range scores {
				want := scores[i]
				if !m.Allows(parley.Token(i)) {
					want = float32(math.Inf(-1))
				}
				if dst[i] != want || inPlace[i] != want {
					t.Fatalf("score %d of %d is %v and in place %v, want %v", i, size, dst[i], inPlace[i], want)
				}
			}
		}
	}
}
