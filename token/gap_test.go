package token

import (
	"slices"
	"strings"
	"testing"

	"parley"
)

// gapVocabulary returns a vocabulary that has these marks behind the ten tokens
// of [ggufMeta].
func gapVocabulary(t *testing.T, marks ...string) *Tokenizer {
	t.Helper()
	tokens := append([]string{"<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "▁a", "ab", "[T]"}, marks...)
	scores, kinds := make([]float32, len(tokens)), []int32{2, 3, 3, 6, 1, 1, 1, 1, 1, 4}
	copy(scores, []float32{0, 0, 0, 0, -5, -6, -7, -1, -2})
	for range marks {
		kinds = append(kinds, 3)
	}
	tok, err := FromGGUF(ggufMeta(map[string]any{"tokens": tokens, "scores": scores, "token_type": kinds}))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestGapOrders(t *testing.T) {
	for _, c := range []struct {
		marks, order, afterFirst, beforeFirst string
	}{
		{"<|fim_prefix|> <|fim_suffix|> <|fim_middle|>", "P b S a M", "S a P b M", "P b S a M"},
		{"<fim_prefix> <fim_suffix> <fim_middle>", "P S a M b", "P S a M b", "P b S a M"},
		{"<｜fim▁begin｜> <｜fim▁hole｜> <｜fim▁end｜>", "P b S a M", "S a P b M", "P b S a M"},
		{"▁<PRE> ▁<SUF> ▁<MID>", "P S a M b", "P S a M b", "P b S a M"},
		{"<[fim-prefix]> <[fim-suffix]> <[fim-middle]>", "S a P b M", "S a P b M", "P b S a M"},
		{"[PREFIX] [SUFFIX]", "S a P b", "S a P b", "S a P b"},
	} {
		tok := gapVocabulary(t, strings.Fields(c.marks)...)
		gap := tok.Special().Gap
		if !gap.Known() {
			t.Errorf("%s are not found", c.marks)
			continue
		}
		written := func(g Gap) string {
			names := map[parley.Token]string{g.Prefix: "P", g.Suffix: "S", g.Middle: "M", 5: "b", 6: "a"}
			var parts []string
			for _, id := range g.Join([]parley.Token{5}, []parley.Token{6}) {
				parts = append(parts, names[id])
			}
			return strings.Join(parts, " ")
		}
		for _, w := range []struct{ got, want string }{
			{written(gap), c.order}, {written(gap.Reordered(true)), c.afterFirst},
			{written(gap.Reordered(false)), c.beforeFirst}} {
			if w.got != w.want {
				t.Errorf("%s: %s, want %s", c.marks, w.got, w.want)
			}
		}
		for mark := range strings.FieldsSeq(c.marks) {
			if id, _ := tok.ID(mark); !slices.Contains(gap.Ends, id) {
				t.Errorf("%s does not end a gap", mark)
			}
		}
	}
}

func TestGapUnknown(t *testing.T) {
	for _, marks := range [][]string{nil, {"<fim_prefix>", "<fim_suffix>"},
		{"<fim_prefix>", "[SUFFIX]", "<|fim_middle|>"}, {"[PREFIX]"}} {
		if gap := gapVocabulary(t, marks...).Special().Gap; gap.Known() || len(gap.Ends) > 0 {
			t.Errorf("%q are taken for marks: %+v", marks, gap)
		}
	}
	if (&Gap{}).Known() {
		t.Error("the zero value has marks")
	}
}

func TestEncodeInner(t *testing.T) {
	tok := gapVocabulary(t, "<0xE2>", "<0x98>", "<0xBA>")
	first, err := tok.Encode("ab", Options{})
	inner, innerErr := tok.EncodeInner("ab")
	if err != nil || innerErr != nil || !slices.Equal(first, []parley.Token{7, 6}) ||
		!slices.Equal(inner, []parley.Token{8}) {
		t.Errorf("got %v %v %v %v: only the first text begins with a space", first, inner, err, innerErr)
	}
	level := tiny(t)
	for _, text := range []string{"", " x", "\tif a:\n", "é☺"} {
		plain, err := level.Encode(text, Options{})
		inner, innerErr := level.EncodeInner(text)
		if err != nil || innerErr != nil || !slices.Equal(plain, inner) {
			t.Errorf("%q is %v, within a text %v", text, plain, inner)
		}
	}
}
