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
	// markNames stand in answers around calls and thoughts: a reader of an answer needs to see them, and a
	// grammar to write them.
	markNames = strings.Fields(`
		<tool_call> </tool_call> [TOOL_CALLS] [CALL_ID] [ARGS] <|python_tag|> <think> </think> [THINK]
		[/THINK] <|tools_prefix|> <|tools_suffix|> <|inner_prefix|> <|inner_suffix|> <tool_calls>
		</tool_calls> <TOOLCALL> </TOOLCALL> <|tool_call|> <|START_ACTION|> <|END_ACTION|>
		<|START_THINKING|> <|END_THINKING|> <|START_RESPONSE|> <|END_RESPONSE|> <|START_TEXT|>
		<|END_TEXT|> <|message_sep|> <|role_sep|> <|function_call|> <|tool_calls_section_begin|>
		<|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|>
		<｜tool▁calls▁begin｜> <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> <｜tool▁call▁end｜> <｜tool▁sep｜>
		｜DSML｜ <|tool_calls|> <|tool_call:begin|> <|tool_call:name|> <|tool_call:args|>
		<|tool_call:end|> <|calls|> <|content|> <|think|> <|begin|> <|end|> <|channel|> <|message|>
		<|start|> <|constrain|> <|eom|> <|open|> <|close|> <|sep|> <seed:tool_call> </seed:tool_call>
		<seed:think> </seed:think> <arg_key> </arg_key> <arg_value> </arg_value> <minimax:tool_call>
		</minimax:tool_call> ]<]minimax[>[ <mm:think> </mm:think> <|tool_call> <tool_call|> <|"|>
		<|channel> <channel|> <|tool_call_start|> <|tool_call_end|>
	`)
)

// resultNames stand around the results of calls in a prompt.
var resultNames = []string{"<tool_response>", "</tool_response>", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"}

// isControl says by its name that an added token structures a prompt. Files mark most of these as special, but not
// all: Qwen's marks of calls, thoughts and gaps are not, so that decoding shows them.
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

// findKnown fills in the tokens with a role: those named by the files, and those known by name.
func (t *Tokenizer) findKnown(bos, eos, pad, unknown parley.Token) {
	t.roles.known = Special{BOS: bos, PAD: pad, Unknown: unknown, Gap: t.findGap()}
	t.finishGap()
	t.addEnd(eos)
	_, harmony := t.ID("<|return|>")
	_, solar := t.ID("<|calls|>")
	for _, name := range endNames {
		id, ok := t.ID(name)
		if !ok || !t.IsSpecial(id) {
			continue
		}
		if (harmony || solar) && name == "<|end|>" {
			continue // there it ends a message, after which another may follow
		}
		t.addEnd(id)
	}
	for _, name := range markNames {
		if id, ok := t.ID(name); ok && t.IsSpecial(id) && !slices.Contains(t.roles.known.EOS, id) {
			t.roles.marks = append(t.roles.marks, id)
		}
	}
}

func (t *Tokenizer) addEnd(id parley.Token) {
	if id != None && !slices.Contains(t.roles.known.EOS, id) {
		t.roles.known.EOS = append(t.roles.known.EOS, id)
	}
}

// findGap looks for a family's marks in the vocabulary.
func (t *Tokenizer) findGap() Gap {
	for _, family := range gapFamilies {
		g := Gap{Prefix: t.idOf(family.prefix), Suffix: t.idOf(family.suffix), Middle: t.idOf(family.middle),
			order: family.order}
		if g.Known() {
			return g
		}
	}
	return Gap{Prefix: None, Suffix: None, Middle: None, order: beforeFirst}
}

// finishGap lists what ends a gap, once its marks are certain.
func (t *Tokenizer) finishGap() {
	g := &t.roles.known.Gap
	ends := []parley.Token{g.Prefix, g.Suffix, g.Middle}
	for _, name := range gapEndNames {
		ends = append(ends, t.idOf(name))
	}
	g.Ends = nil
	for _, id := range ends {
		if id != None && g.Known() && !slices.Contains(g.Ends, id) {
			g.Ends = append(g.Ends, id)
		}
	}
}

func (t *Tokenizer) idOf(text string) parley.Token {
	if id, ok := t.ID(text); ok && text != "" {
		return id
	}
	return None
}
