package token

import (
	"slices"
	"strings"

	"parley"
)

// Names under which vocabularies keep tokens with a role.
var (
	endNames = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|eom_id|>", "<|eot|>",
		"<end_of_turn>", "<turn|>",
		"<|END_OF_TURN_TOKEN|>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|endofresponse|>",
		"<EOT>", "[EOT]", "<eos>", "</s>"}
	// markNames stand in answers around calls and thoughts: a reader of an
	// answer needs to see them, and a grammar to write them.
	markNames = []string{"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "<|python_tag|>",
		"<think>", "</think>", "[THINK]", "[/THINK]"}
)

// resultNames stand around the results of calls in a prompt.
var resultNames = []string{"<tool_response>", "</tool_response>", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"}

// isControl says by its name that an added token structures a prompt. Files mark
// most of these as special, but not all: Qwen's marks of calls, thoughts and gaps
// are not, so that decoding shows them.
func isControl(name string) bool {
	for _, frame := range [][2]string{{"<|", "|>"}, {"<｜", "｜>"}} {
		if strings.HasPrefix(name, frame[0]) && strings.HasSuffix(name, frame[1]) {
			return true
		}
	}
	for _, family := range gapFamilies {
		if name == family.prefix || name == family.suffix || name == family.middle {
			return true
		}
	}
	return slices.Contains(markNames, name) || slices.Contains(resultNames, name) || slices.Contains(gapEndNames, name)
}

// findKnown fills in the tokens with a role: those named by the files, and
// those known by name.
func (t *Tokenizer) findKnown(bos, eos, pad, unknown parley.Token) {
	t.known = Special{BOS: bos, PAD: pad, Unknown: unknown, Gap: t.findGap()}
	t.finishGap()
	for _, name := range markNames {
		if id, ok := t.ID(name); ok && t.IsSpecial(id) {
			t.marks = append(t.marks, id)
		}
	}
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
