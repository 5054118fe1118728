package dialect

import (
	"cmp"
	"strings"
)

// A Syntax is one way to write calls of tools: `open call between call shut`. In the patterns, words that begin with
// a dollar sign stand for what differs.
type Syntax struct {
	Name string
	// Families are the models that use it, as documentation lists them.
	Families string
	// open stands before the first call and shut behind the last; both are empty if calls stand by themselves.
	open, shut string
	// call is one call. It has $NAME and $ARGUMENTS, and may have $ID or $INDEX.
	call    string
	between string
	// values says how arguments are written. If they are not one JSON object, member is one of them, with $KEY and
	// $VALUE, and memberBetween stands between two. $STRING is whether the value is a string, $TYPE its JSON type.
	values                valueKind
	member, memberBetween string
	// quoted is what may or must stand around a value that is a string.
	quoted [2]string
	// begin is what a call is recognized by. If empty, it is the beginning of open or call up to the first space or
	// word.
	begin string
	// onlyFirst: a call can only be what the answer begins with, since what it begins with is common in other text;
	// mark may stand before it. single: there is one call at most.
	onlyFirst, single bool
	mark              string
	// ids is what the template wants the ids of calls to be.
	ids idKind
	// thoughts are the marks of thoughts if the family has its own.
	thoughts *Thoughts
	// drops are marks around text that are not part of it.
	drops []string
	// head begins an answer that is text. If next is given, too, an answer is either text or calls; next would begin
	// another message.
	head, next string
	// lead stands before a call; the call is recognized without it.
	lead string
	// primer is what the prompt ends with of an answer's own syntax. notCall is a name that is not a tool's.
	primer, notCall string
	// frames says how messages inside an answer are addressed; nil if an answer is one message.
	frames *frames
	// told is a mark in the vocabulary by which models are known whose template describes tools and writes no calls.
	told string

	// first are the steps after begin, later those of further calls between open and shut.
	first, later []readStep
	parts        memberParts
}

// A valueKind is how arguments are written.
type valueKind int

const (
	// object is a JSON object.
	object valueKind = iota
	// tagged has each member between tags: strings as they are, other values as JSON.
	tagged
	// nested has elements inside elements.
	nested
	// bare is JSON with names that are not quoted, and with quotes of its own.
	bare
	// python has keyword arguments with literals of Python.
	python
)

// An idKind is what a template wants the ids of calls to be.
type idKind int

const (
	anyID idKind = iota
	nineLetters
	// nameAndIndex is functions.NAME:INDEX, where the index counts all calls of a conversation.
	nameAndIndex
)

// Thoughts are the marks around what a model thinks before it answers.
type Thoughts struct {
	Open, shut string
	// then follows the thoughts.
	then string
}

// Thinking are the ways to mark thoughts that several families share.
var Thinking = []*Thoughts{{Open: "<think>", shut: "</think>"}, {Open: "[THINK]", shut: "[/THINK]"}}

// A frames is how the messages inside an answer are addressed: header, message, and the content.
type frames struct {
	message string
	// thought is found in the header of thoughts, call in that of a call before its name.
	thought, call string
}

// nameBytesMax bounds the name of a function, the id of a call and the name of a member.
const nameBytesMax = 128

// A readStep is one step in reading a call.
type readStep struct {
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
	stepIndex
	stepArguments
	// stepRest takes further members of the JSON object that holds the arguments.
	stepRest
	stepKey
	stepType
	stepValue
)

var stepWords = map[string]stepKind{"$NAME": stepName, "$ID": stepID, "$INDEX": stepIndex, "$ARGUMENTS": stepArguments,
	"$KEY": stepKey, "$TYPE": stepType, "$STRING": stepType, "$VALUE": stepValue}

// leadingWord returns the word for a part that differs with which text begins.
func leadingWord(text string) (string, stepKind, bool) {
	for word, kind := range stepWords {
		if strings.HasPrefix(text, word) {
			return word, kind, true
		}
	}
	return "", 0, false
}

// stepsOf returns the steps that read a pattern. They take space wherever the pattern or JSON has it, except beside a
// value, where it may be a part of it.
func stepsOf(pattern string) (steps []readStep) {
	space := func() {
		if n := len(steps); n == 0 || steps[n-1].kind != stepSpace {
			steps = append(steps, readStep{kind: stepSpace})
		}
	}
	space()
	for pattern != "" {
		if word, kind, ok := leadingWord(pattern); ok {
			steps = append(steps, readStep{kind: kind})
			pattern = pattern[len(word):]
			if kind == stepArguments && strings.HasPrefix(strings.TrimSpace(pattern), "}") {
				steps = append(steps, readStep{kind: stepRest})
			}
			continue
		}
		switch b := pattern[0]; {
		case strings.HasPrefix(pattern, "\n$VALUE"):
		case isSpaceByte(b):
			space()
		case strings.IndexByte("{}:,", b) >= 0:
			space()
			steps = append(steps, readStep{b: b})
			if len(pattern) > 1 && !strings.HasPrefix(pattern[1:], "$VALUE") {
				space()
			}
		default:
			steps = append(steps, readStep{b: b})
		}
		pattern = pattern[1:]
	}
	return steps
}

// A memberParts is a member pattern taken apart for the reader: the literal before the key, the steps from the key to
// the value, and the literal that ends the value. lines: the value stands on lines of its own.
type memberParts struct {
	open  string
	steps []readStep
	end   string
	lines bool
	// shut is the literal behind the last member.
	shut string
}

// prepare fills in what follows from the patterns.
func (d *Syntax) prepare() {
	whole := d.open + d.call
	if d.begin == "" {
		d.begin = literalPrefix(cmp.Or(d.open, d.call))
	}
	d.first = stepsOf(strings.TrimPrefix(whole, d.begin))
	if d.open != "" {
		d.later = stepsOf(d.call)
	}
	_, after, _ := strings.Cut(d.call, "$ARGUMENTS")
	d.parts.shut = strings.TrimSpace(after)
	if d.values == tagged {
		d.parts.shut = literalPrefix(after)
		open, rest, _ := strings.Cut(d.member, "$KEY")
		upTo, end, _ := strings.Cut(rest, "$VALUE")
		d.parts.open, d.parts.steps = open, stepsOf("$KEY" + upTo + "$VALUE")[1:]
		d.parts.end, d.parts.lines = strings.TrimSpace(end), strings.HasSuffix(upTo, "\n")
	}
}

// literalPrefix returns what a pattern begins with up to its first space, word or later brace.
func literalPrefix(pattern string) string {
	if i := strings.IndexAny(pattern, "$ \n"); i >= 0 {
		pattern = pattern[:i]
	}
	if i := strings.IndexByte(pattern, '{'); i > 0 {
		pattern = pattern[:i]
	}
	return pattern
}

// opening reports whether text, with which an answer begins, may become the opening of a call, and whether it is one.
func (d *Syntax) opening(text string) (open, whole bool) {
	for _, begin := range []string{d.begin, d.mark + d.begin} {
		open = open || strings.HasPrefix(begin, text)
		whole = whole || begin == text
	}
	return open, whole
}

// anywhere reads calls wherever they stand.
func (d *Syntax) anywhere() *Syntax {
	changed := *d
	changed.onlyFirst = false
	return &changed
}

// isPlain reports whether answers without calls and thoughts are nothing but their text.
func (d *Syntax) isPlain() bool { return d.frames == nil && len(d.drops) == 0 }

func isSpaceByte(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.'
}
