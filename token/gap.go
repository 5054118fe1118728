package token

import "parley"

// A Gap says how a model is asked for the text between two others: with which marks, and in which order. The zero
// value, and one that lacks a mark, is of a model that was not trained for it.
type Gap struct {
	// Prefix and Suffix stand before the texts on both sides of the gap, Middle where the model begins to fill
	// it; [None] where a vocabulary has no such mark.
	Prefix, Suffix, Middle parley.Token
	// Ends are tokens that models write when the gap is filled, beside those that end any text: the marks, and
	// what separates files.
	Ends []parley.Token

	order gapOrder
}

// A gapOrder says in which order the marks P, S and M and the texts before (b) and after (a) the gap are written.
type gapOrder string

// The orders that models were trained with. Where the text before the gap comes last, an editor's next keystroke
// extends what was computed for the one before; otherwise all that follows the cursor is computed again.
const (
	beforeFirst gapOrder = "PbSaM"
	afterFirst  gapOrder = "SaPbM"
	afterInside gapOrder = "PSaMb"
	afterBare   gapOrder = "SaPb"
)

// gapFamilies are the marks of the models that have any. The first family whose marks are all in a vocabulary counts.
var gapFamilies = []struct {
	prefix, suffix, middle string
	order                  gapOrder
}{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", beforeFirst},   // Qwen, CodeGemma, Granite
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", afterInside},         // StarCoder
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", afterInside},         // SantaCoder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", beforeFirst},         // DeepSeek
	{"<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>", beforeFirst},         // DeepSeek's descendants
	{"▁<PRE>", "▁<SUF>", "▁<MID>", afterInside},                           // Code Llama
	{"<PRE>", "<SUF>", "<MID>", afterInside},                              // Code Llama, converted
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", afterFirst}, // CodeGeeX
	{"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", afterFirst},    // Seed-Coder
	{"[PREFIX]", "[SUFFIX]", "", afterBare},                               // Codestral
}

// gapEndNames are tokens after which a gap is filled.
var gapEndNames = []string{"<|fim_pad|>", "<fim_pad>", "<|file_sep|>", "<file_sep>", "<|file_separator|>",
	"<|repo_name|>", "<repo_name>", "▁<EOT>"}

// Known reports whether the model has all the marks it needs.
func (g *Gap) Known() bool {
	return g.order != "" && g.Prefix != None && g.Suffix != None && (g.Middle != None || g.order == afterBare)
}

// AfterFirst reports whether the text after the gap is written first.
func (g *Gap) AfterFirst() bool { return g.order != beforeFirst }

// Reordered returns g with the text after the gap written first, or last, as is wanted, whatever the family was
// trained with. A family that has one order only keeps it.
func (g Gap) Reordered(afterComesFirst bool) Gap {
	switch {
	case g.order == afterBare || g.AfterFirst() == afterComesFirst:
	case afterComesFirst:
		g.order = afterFirst
	default:
		g.order = beforeFirst
	}
	return g
}

// Join puts the texts on both sides of the gap and the marks in order. The model's answer continues the result.
func (g *Gap) Join(before, after []parley.Token) []parley.Token {
	joined := make([]parley.Token, 0, len(before)+len(after)+3)
	for _, part := range g.order {
		switch part {
		case 'P':
			joined = append(joined, g.Prefix)
		case 'S':
			joined = append(joined, g.Suffix)
		case 'M':
			joined = append(joined, g.Middle)
		case 'b':
			joined = append(joined, before...)
		case 'a':
			joined = append(joined, after...)
		}
	}
	return joined
}
