package lark

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// The bounds of a grammar: its text, the brackets in it that are open at once, the expression that it becomes, and how
// often a rule is written out inside of itself.
const (
	textMax     = 64 << 10
	bracketsMax = 50
	bytesMax    = 3 << 10
	depthMax    = 4
)

// Regexp returns an expression for the texts of a grammar, from end to end. Its syntax is that of package regexp.
func Regexp(text string) (string, error) {
	if len(text) > textMax {
		return "", fmt.Errorf("the grammar has %d bytes, more than %d", len(text), textMax)
	}
	g, err := parse(text)
	if err != nil {
		return "", err
	}
	if g.rules["start"] == nil {
		return "", fmt.Errorf("there is no rule called start")
	}
	var found string
	for depth := 0; depth <= depthMax; depth++ {
		w := &expander{grammar: g, depth: depth, nested: map[string]int{}}
		whole := w.whole()
		switch {
		case w.err != nil:
			return "", w.err
		case whole.Op != syntax.OpNoMatch && w.bytes <= bytesMax && len(whole.String()) <= bytesMax:
			found = whole.String()
		}
		if !w.cut || w.bytes > bytesMax {
			break
		}
	}
	if found == "" {
		return "", fmt.Errorf("it becomes an expression of more than %d bytes, or no text matches it", bytesMax)
	}
	return found, nil
}

// An expander writes a grammar out as one expression.
type expander struct {
	*grammar
	// depth is how often a rule may stand inside of itself, nested how often each does now. Cut says that it would
	// have done so more often.
	depth  int
	nested map[string]int
	cut    bool
	// bytes measures what was written. It is more than what comes of it.
	bytes int
	// ignore may stand behind a terminal.
	ignore *syntax.Regexp
	err    error
}

func (w *expander) whole() *syntax.Regexp {
	if len(w.ignored) > 0 {
		one := w.write(&expression{kind: choice, parts: w.ignored}, true)
		w.ignore = repeat(one, 0, -1)
	}
	start := w.write(&expression{kind: reference, name: "start"}, false)
	if w.ignore != nil {
		start = concat(w.ignore, start)
	}
	return start
}

// write writes an expression; inside terminals nothing is ignored.
func (w *expander) write(e *expression, terminal bool) *syntax.Regexp {
	if w.err != nil || w.bytes > bytesMax {
		return none()
	}
	w.bytes++
	switch e.kind {
	case fixed:
		w.bytes += len(e.fixed.String()) - 1
		return w.spaced(e.fixed, terminal)
	case reference:
		return w.refer(e, terminal)
	case sequence:
		all := make([]*syntax.Regexp, len(e.parts))
		for i, part := range e.parts {
			all[i] = w.write(part, terminal)
		}
		return concat(all...)
	case choice:
		all := make([]*syntax.Regexp, len(e.parts))
		for i, part := range e.parts {
			all[i] = w.write(part, terminal)
		}
		return either(all...)
	}
	return repeat(w.write(e.parts[0], terminal), e.least, e.most)
}

// spaced lets what is ignored stand behind a terminal.
func (w *expander) spaced(re *syntax.Regexp, terminal bool) *syntax.Regexp {
	if terminal || w.ignore == nil {
		return re
	}
	return concat(re, w.ignore)
}

func (w *expander) refer(e *expression, terminal bool) *syntax.Regexp {
	rule := w.rules[e.name]
	switch {
	case rule == nil:
		w.err = fmt.Errorf("line %d: there is no rule or terminal called %q", e.line, e.name)
		return none()
	case w.nested[e.name] > w.depth:
		w.cut = true
		return none()
	}
	isTerminal := strings.ToUpper(e.name) == e.name
	if isTerminal && w.nested[e.name] > 0 {
		w.err = fmt.Errorf("line %d: the terminal %q refers to itself", e.line, e.name)
		return none()
	}
	w.nested[e.name]++
	defer func() { w.nested[e.name]-- }()
	written := w.write(unrolled(e.name, rule), terminal || isTerminal)
	if isTerminal {
		return w.spaced(written, terminal)
	}
	return written
}

// unrolled returns a rule that refers to itself at its beginning alone, or at its end alone, as a repetition.
func unrolled(name string, rule *expression) *expression {
	parts := []*expression{rule}
	if rule.kind == choice {
		parts = rule.parts
	}
	var atBegin, atEnd, others []*expression
	for _, part := range parts {
		n := len(part.parts)
		switch {
		case part.kind == sequence && n > 1 && isName(part.parts[0], name):
			atBegin = append(atBegin, &expression{kind: sequence, parts: part.parts[1:]})
		case part.kind == sequence && n > 1 && isName(part.parts[n-1], name):
			atEnd = append(atEnd, &expression{kind: sequence, parts: part.parts[:n-1]})
		default:
			others = append(others, part)
		}
	}
	if (len(atBegin) == 0) == (len(atEnd) == 0) {
		return rule
	}
	once := &expression{kind: choice, parts: others}
	if len(atBegin) > 0 {
		more := &expression{kind: repetition, parts: []*expression{{kind: choice, parts: atBegin}}, most: -1}
		return &expression{kind: sequence, parts: []*expression{once, more}}
	}
	more := &expression{kind: repetition, parts: []*expression{{kind: choice, parts: atEnd}}, most: -1}
	return &expression{kind: sequence, parts: []*expression{more, once}}
}

func isName(e *expression, name string) bool { return e.kind == reference && e.name == name }

// none matches no text.
func none() *syntax.Regexp { return &syntax.Regexp{Op: syntax.OpNoMatch} }

func empty() *syntax.Regexp { return &syntax.Regexp{Op: syntax.OpEmptyMatch} }

func concat(all ...*syntax.Regexp) *syntax.Regexp {
	var parts []*syntax.Regexp
	for _, re := range all {
		switch re.Op {
		case syntax.OpNoMatch:
			return none()
		case syntax.OpEmptyMatch:
		default:
			parts = append(parts, re)
		}
	}
	switch len(parts) {
	case 0:
		return empty()
	case 1:
		return parts[0]
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: parts}
}

func either(all ...*syntax.Regexp) *syntax.Regexp {
	var parts []*syntax.Regexp
	for _, re := range all {
		if re.Op != syntax.OpNoMatch {
			parts = append(parts, re)
		}
	}
	switch len(parts) {
	case 0:
		return none()
	case 1:
		return parts[0]
	}
	return &syntax.Regexp{Op: syntax.OpAlternate, Sub: parts}
}

// repeat matches re least to most times; a most of -1 means any number.
func repeat(re *syntax.Regexp, least, most int) *syntax.Regexp {
	switch {
	case re.Op == syntax.OpEmptyMatch || most == 0 || re.Op == syntax.OpNoMatch && least == 0:
		return empty()
	case re.Op == syntax.OpNoMatch:
		return none()
	}
	return &syntax.Regexp{Op: syntax.OpRepeat, Sub: []*syntax.Regexp{re}, Min: least, Max: most}
}

// common are the terminals that Lark has in its module of that name.
var common = map[string]string{
	"DIGIT":          `[0-9]`,
	"HEXDIGIT":       `[0-9a-fA-F]`,
	"INT":            `[0-9]+`,
	"SIGNED_INT":     `[+-]?[0-9]+`,
	"DECIMAL":        `[0-9]+\.[0-9]*|\.[0-9]+`,
	"FLOAT":          `[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"SIGNED_FLOAT":   `[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)`,
	"NUMBER":         `(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"SIGNED_NUMBER":  `[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\[^\n])*"`,
	"LCASE_LETTER":   `[a-z]`,
	"UCASE_LETTER":   `[A-Z]`,
	"LETTER":         `[A-Za-z]`,
	"WORD":           `[A-Za-z]+`,
	"CNAME":          `[_A-Za-z][_A-Za-z0-9]*`,
	"WS_INLINE":      `[ \t]+`,
	"WS":             `[ \t\f\r\n]+`,
	"CR":             `\r`,
	"LF":             `\n`,
	"NEWLINE":        `(?:\r?\n)+`,
	"SH_COMMENT":     `#[^\n]*`,
	"CPP_COMMENT":    `//[^\n]*`,
	"SQL_COMMENT":    `--[^\n]*`,
}
