package token

import (
	"slices"

	"parley"
)

// Names under which vocabularies keep tokens with a role. The first that is
// present counts.
var (
	fimPrefixNames = []string{"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<|fim_begin|>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "[PREFIX]"}
	fimSuffixNames = []string{"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<|fim_hole|>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "[SUFFIX]"}
	fimMiddleNames = []string{"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<|fim_end|>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "[MIDDLE]"}
	endNames       = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|eom_id|>", "<|eot|>", "<end_of_turn>", "<turn|>",
		"<|END_OF_TURN_TOKEN|>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|endofresponse|>", "<EOT>", "[EOT]", "<eos>", "</s>"}
)

// findKnown fills in the tokens with a role: those named by the files, and
// those known by name.
func (t *Tokenizer) findKnown(bos, eos, pad, unknown parley.Token) {
	t.known = Special{BOS: bos, PAD: pad, Unknown: unknown, FIMPrefix: t.firstNamed(fimPrefixNames),
		FIMSuffix: t.firstNamed(fimSuffixNames), FIMMiddle: t.firstNamed(fimMiddleNames)}
	t.addEnd(eos)
	_, harmony := t.ID("<|return|>")
	for _, name := range endNames {
		id, ok := t.ID(name)
		if !ok || !t.IsSpecial(id) {
			continue
		}
		if harmony && name == "<|end|>" {
			continue // there it ends a message, after which another may follow
		}
		t.addEnd(id)
	}
}

func (t *Tokenizer) addEnd(id parley.Token) {
	if id != None && !slices.Contains(t.known.EOS, id) {
		t.known.EOS = append(t.known.EOS, id)
	}
}

// firstNamed returns the first of the names that is a token.
func (t *Tokenizer) firstNamed(names []string) parley.Token {
	for _, name := range names {
		if id, ok := t.ID(name); ok {
			return id
		}
	}
	return None
}
