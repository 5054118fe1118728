package answer

import (
	"regexp"
	"strings"

	"parley"
)

// A toolSyntax is how a model writes calls of tools: `begin call`, and more of
// the same for more calls, or `begin call, call]` for a list. It is one row of
// a table from which calls are both written, as a grammar, and read back.
type toolSyntax struct {
	name string
	// begin opens the calls. It stands before each, or before a list once.
	begin string
	// call is one call after that. $NAME, $ARGUMENTS and $ID stand for what differs.
	call string
	// between stands between two calls, before the next begin.
	between string
	// list: begin opens a list, which a bracket shuts.
	list bool
	// onlyFirst: a call can only be what the answer begins with, since what it
	// begins with is common in other text. single: there is one call at most.
	onlyFirst, single bool
	// mark may stand before begin.
	mark string
	// shortIDs: the template wants ids of nine letters and digits.
	shortIDs bool

	steps []callStep
}

// Syntaxes are the ways to write calls. The first is what models are told to
// use whose own way is not among them.
var Syntaxes = []*toolSyntax{
	{name: "hermes", begin: "<tool_call>", call: "\n{\"name\": \"$NAME\", \"arguments\": $ARGUMENTS}\n</tool_call>",
		between: "\n"},
	{
		name:      "llama",
		begin:     "{",
		call:      "\"name\": \"$NAME\", \"parameters\": $ARGUMENTS}",
		mark:      "<|python_tag|>",
		onlyFirst: true,
		single:    true,
	},
	{
		name:     "mistral",
		begin:    "[TOOL_CALLS][",
		call:     "{\"name\": \"$NAME\", \"arguments\": $ARGUMENTS}",
		between:  ", ",
		list:     true,
		shortIDs: true,
	},
	{name: "mistral-ids", begin: "[TOOL_CALLS]", call: "$NAME[CALL_ID]$ID[ARGS]$ARGUMENTS", shortIDs: true},
	{name: "mistral-args", begin: "[TOOL_CALLS]", call: "$NAME[ARGS]$ARGUMENTS", shortIDs: true},
}

func init() {
	for _, s := range Syntaxes {
		s.steps = callSteps(s.call)
	}
}

// A thoughtMarks is how a model marks what it thinks before it answers.
type thoughtMarks struct{ Open, shut string }

// ThoughtMarkers are the ways to mark thoughts.
var ThoughtMarkers = []*thoughtMarks{{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}}

// nameBytesMax bounds the name of a function or the id of a call.
const nameBytesMax = 128

// A callStep is one step in reading a call.
type callStep struct {
	kind stepKind
	b    byte
}

// A stepKind is what a step takes.
type stepKind int

const (
	stepByte stepKind = iota
	stepSpace
	stepName
	stepID
	stepArguments
)

var stepWords = map[string]stepKind{"$NAME": stepName, "$ID": stepID, "$ARGUMENTS": stepArguments}

// callSteps returns the steps that read a call. They take space wherever JSON
// does.
func callSteps(call string) (steps []callStep) {
	space := func() {
		if n := len(steps); n == 0 || steps[n-1].kind != stepSpace {
			steps = append(steps, callStep{kind: stepSpace})
		}
	}
	space()
	for call != "" {
		if word, kind, ok := leadingWord(call); ok {
			steps = append(steps, callStep{kind: kind})
			call = call[len(word):]
			continue
		}
		switch b := call[0]; {
		case isSpaceByte(b):
			space()
		case strings.IndexByte("{}:,", b) >= 0:
			space()
			steps = append(steps, callStep{b: b})
			if len(call) > 1 {
				space()
			}
		default:
			steps = append(steps, callStep{b: b})
		}
		call = call[1:]
	}
	return steps
}

// leadingWord returns the word for a part that differs with which text begins.
func leadingWord(text string) (string, stepKind, bool) {
	for word, kind := range stepWords {
		if strings.HasPrefix(text, word) {
			return word, kind, true
		}
	}
	return "", 0, false
}

// opening reports whether text, with which an answer begins, may become the
// opening of a call, and whether it is one.
func (s *toolSyntax) opening(text string) (open, whole bool) {
	for _, begin := range []string{s.begin, s.mark + s.begin} {
		open = open || strings.HasPrefix(begin, text)
		whole = whole || begin == text
	}
	return open, whole
}

// A ToolGrammar is a tool as calls of it are written.
type ToolGrammar struct {
	Name      string
	Arguments parley.Grammar
}

// oneCall writes a call of any one of the tools, after the begin.
func (s *toolSyntax) oneCall(tools []ToolGrammar) parley.Grammar {
	calls := make([]parley.Grammar, len(tools))
	for i, t := range tools {
		calls[i] = s.callOf(t)
	}
	return parley.Choice(calls...)
}

// callOf writes a call of a tool. No name holds the sign that begins the words
// for what differs.
func (s *toolSyntax) callOf(t ToolGrammar) parley.Grammar {
	var parts []parley.Grammar
	literal := ""
	for rest := s.call; rest != ""; {
		word, kind, ok := leadingWord(rest)
		switch {
		case !ok:
			literal, rest = literal+rest[:1], rest[1:]
			continue
		case kind == stepName:
			literal, rest = literal+t.Name, rest[len(word):]
			continue
		}
		part := t.Arguments
		if kind == stepID {
			part = parley.Regex("[a-zA-Z0-9]{9}")
		}
		parts = append(parts, parley.Literal(literal), part)
		literal, rest = "", rest[len(word):]
	}
	if literal != "" {
		parts = append(parts, parley.Literal(literal))
	}
	return parley.Sequence(parts...)
}

// Calls writes an answer that is nothing but calls: least, which is 0 or 1, or
// more. Each tool stands in it once if that can be, for the engine's sake.
func (s *toolSyntax) Calls(tools []ToolGrammar, least int, single bool) parley.Grammar {
	most := 0
	if single || s.single {
		most = 1
	}
	switch {
	case !s.list:
		return parley.Repeat(parley.Sequence(parley.Literal(s.begin), s.oneCall(tools), s.betweenCalls()), least, most)
	case most == 1:
		return parley.Repeat(parley.Sequence(parley.Literal(s.begin), s.oneCall(tools), parley.Literal("]")), least, 1)
	}
	more := parley.Repeat(parley.Sequence(parley.Literal(s.between), s.oneCall(tools)), 0, 0)
	return parley.Repeat(parley.Sequence(parley.Literal(s.begin), s.oneCall(tools), more, parley.Literal("]")), least,
		1)
}

// betweenCalls may stand after a call. At the end it does no harm.
func (s *toolSyntax) betweenCalls() parley.Grammar {
	if s.between == "" || s.single {
		return parley.Literal("")
	}
	return parley.Optional(parley.Literal(s.between))
}

// MayCall writes an answer in which the model decides whether it calls. Once it
// has written the begin of a call, it must write a valid one, and nothing but
// calls follows.
func (s *toolSyntax) MayCall(tools []ToolGrammar, single bool) parley.Grammar {
	if s.onlyFirst {
		calls := parley.Sequence(parley.Optional(parley.Literal(s.mark)), s.Calls(tools, 1, single))
		return parley.Choice(append(unlike(s.begin, s.mark), calls)...)
	}
	never := parley.Choice()
	text := parley.FreeText(parley.GrammarTrigger{Text: s.begin, Then: never})
	return parley.Sequence(text, s.Calls(tools, 0, single))
}

// unlike writes any text that begins with none of the openings, of which no two
// begin alike.
func unlike(openings ...string) []parley.Grammar {
	var first strings.Builder
	var texts []parley.Grammar
	for _, opening := range openings {
		first.WriteString(regexp.QuoteMeta(opening[:1]))
		for i := 1; i < len(opening); i++ {
			texts = append(texts, parley.Literal(opening[:i]),
				parley.Sequence(parley.Literal(opening[:i]), parley.Regex("[^"+regexp.QuoteMeta(opening[i:i+1])+"]"),
					parley.FreeText()))
		}
	}
	return append(texts, parley.Literal(""), parley.Sequence(parley.Regex("[^"+first.String()+"]"), parley.FreeText()))
}
