package lark

import (
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
)

// A grammar is what was read: its rules and terminals by their names.
type grammar struct {
	rules map[string]*expression
	// ignored may stand between terminals.
	ignored []*expression
}

// An expression is one of: a fixed expression, a reference by name, a sequence, a choice, or a repetition.
type expression struct {
	kind  expressionKind
	fixed *syntax.Regexp
	name  string
	parts []*expression
	// least and most bound a repetition; a most of -1 means any number.
	least, most int
	line        int
}

type expressionKind int

const (
	fixed expressionKind = iota
	reference
	sequence
	choice
	repetition
)

// parse reads the text of a grammar.
func parse(text string) (*grammar, error) {
	words, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{words: words, grammar: grammar{rules: map[string]*expression{}}}
	for p.peek().kind != wordEnd && p.err == nil {
		p.statement()
	}
	return &p.grammar, p.err
}

type parser struct {
	words []word
	grammar
	// brackets counts those that are open.
	brackets int
	err      error
}

func (p *parser) peek() word { return p.words[0] }

// take returns the next word; the last one stays.
func (p *parser) take() word {
	w := p.words[0]
	if w.kind != wordEnd {
		p.words = p.words[1:]
	}
	return w
}

// sign takes a sign if it is the next word.
func (p *parser) sign(text string) bool {
	if w := p.peek(); w.kind != wordSign || w.text != text {
		return false
	}
	p.take()
	return true
}

func (p *parser) fail(line int, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
	}
	p.words = p.words[len(p.words)-1:]
}

// name takes a name, which must be the next word.
func (p *parser) name() string {
	w := p.take()
	if w.kind != wordName {
		p.fail(w.line, "expected a name, but got %q", w.text)
	}
	return w.text
}

// statement reads a rule, a terminal or a directive.
func (p *parser) statement() {
	w := p.peek()
	switch {
	case w.kind == wordLine:
		p.take()
	case w.kind == wordSign && strings.HasPrefix(w.text, "%"):
		p.directive(p.take())
	default:
		for p.sign("?") || p.sign("!") {
		}
		p.rule(p.name(), w.line)
	}
}

func (p *parser) directive(w word) {
	switch w.text {
	case "%ignore":
		p.ignored = append(p.ignored, p.choice())
	case "%import":
		p.imports(w.line)
	default:
		p.fail(w.line, "%s is not supported", w.text)
	}
}

// imports reads what follows %import: common.NAME, common.NAME -> OTHER or common (NAME, NAME).
func (p *parser) imports(line int) {
	p.sign(".")
	if from := p.name(); from != "common" {
		p.fail(line, "%%import from %q is not supported, only from common", from)
	}
	if p.sign("(") {
		for !p.sign(")") && p.err == nil {
			name := p.name()
			p.common(name, name, line)
			p.sign(",")
		}
		return
	}
	if !p.sign(".") {
		p.fail(line, "%%import needs the name of a terminal")
	}
	name := p.name()
	as := name
	if p.sign("->") {
		as = p.name()
	}
	p.common(name, as, line)
}

func (p *parser) common(name, as string, line int) {
	text, ok := common[name]
	if !ok {
		p.fail(line, "there is no terminal %q in common", name)
		return
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		p.fail(line, "%v", err)
	}
	p.define(as, &expression{fixed: re, line: line}, line)
}

func (p *parser) rule(name string, line int) {
	if p.sign(".") { // a priority, by which Lark's parser chooses between readings
		p.sign("-")
		p.take()
	}
	if p.sign("{") {
		p.fail(line, "the template %q is not supported", name)
	}
	if !p.sign(":") {
		p.fail(line, "expected ':' after %q", name)
	}
	p.define(name, p.choice(), line)
}

func (p *parser) define(name string, e *expression, line int) {
	if p.rules[name] != nil {
		p.fail(line, "%q is defined twice", name)
	}
	p.rules[name] = e
}

// continues reports whether the next line continues the alternatives of a rule, and moves there.
func (p *parser) continues() bool {
	n := 0
	for p.words[n].kind == wordLine {
		n++
	}
	if w := p.words[n]; w.kind == wordSign && w.text == "|" {
		p.words = p.words[n:]
		return true
	}
	return false
}

// choice reads alternatives.
func (p *parser) choice() *expression {
	e := &expression{kind: choice, line: p.peek().line}
	p.continues()
	p.sign("|")
	for {
		e.parts = append(e.parts, p.sequence())
		if p.sign("->") {
			p.name() // how a tree would call it
		}
		if !p.sign("|") && (!p.continues() || !p.sign("|")) {
			break
		}
	}
	if len(e.parts) == 1 {
		return e.parts[0]
	}
	return e
}

func (p *parser) sequence() *expression {
	e := &expression{kind: sequence, line: p.peek().line}
	for p.err == nil {
		w := p.peek()
		switch {
		case w.kind == wordLine || w.kind == wordEnd,
			w.kind == wordSign && strings.Contains("|)]->", w.text):
			return e
		}
		e.parts = append(e.parts, p.repetition())
	}
	return e
}

// repetition reads one part and what says how often it stands there.
func (p *parser) repetition() *expression {
	line := p.peek().line
	e := &expression{kind: repetition, line: line, parts: []*expression{p.atom()}}
	switch {
	case p.sign("?"):
		e.least, e.most = 0, 1
	case p.sign("*"):
		e.least, e.most = 0, -1
	case p.sign("+"):
		e.least, e.most = 1, -1
	case p.sign("~"):
		e.least = p.number()
		if e.most = e.least; p.sign("..") {
			e.most = p.number()
		}
		if e.most < e.least {
			p.fail(line, "a repetition of %d to %d", e.least, e.most)
		}
	default:
		return e.parts[0]
	}
	return e
}

func (p *parser) number() int {
	w := p.take()
	n, err := strconv.Atoi(w.text)
	if w.kind != wordNumber || err != nil || n > 1000 {
		p.fail(w.line, "expected a number up to 1000, but got %q", w.text)
	}
	return n
}

func (p *parser) atom() *expression {
	w := p.take()
	switch {
	case w.kind == wordName:
		if p.sign("{") {
			p.fail(w.line, "the template %q is not supported", w.text)
		}
		return &expression{kind: reference, name: w.text, line: w.line}
	case w.kind == wordString:
		if p.sign("..") {
			return p.characters(w, p.take())
		}
		return p.regexp(w, syntax.Literal, p.unescape(w))
	case w.kind == wordRegexp:
		return p.regexp(w, syntax.Perl, w.text)
	case w.kind == wordSign && w.text == "(":
		return p.closed(p.inner(), ")", w.line)
	case w.kind == wordSign && w.text == "[":
		e := p.closed(p.inner(), "]", w.line)
		return &expression{kind: repetition, parts: []*expression{e}, most: 1, line: w.line}
	}
	p.fail(w.line, "%q stands where a part of a rule should be", w.text)
	return &expression{kind: sequence}
}

// inner reads alternatives between brackets, which may stand on several lines.
func (p *parser) inner() *expression {
	if p.brackets++; p.brackets > bracketsMax {
		p.fail(p.peek().line, "more than %d brackets are open", bracketsMax)
		return &expression{kind: sequence}
	}
	defer func() { p.brackets-- }()
	depth := 0
	for i := range p.words {
		w := p.words[i]
		switch {
		case w.kind == wordSign && (w.text == "(" || w.text == "["):
			depth++
		case w.kind == wordSign && (w.text == ")" || w.text == "]"):
			depth--
		}
		if depth < 0 {
			kept := make([]word, 0, len(p.words))
			for _, w := range p.words[:i] {
				if w.kind != wordLine {
					kept = append(kept, w)
				}
			}
			p.words = append(kept, p.words[i:]...)
			break
		}
	}
	return p.choice()
}

func (p *parser) closed(e *expression, sign string, line int) *expression {
	if !p.sign(sign) {
		p.fail(line, "a bracket is not closed by %q", sign)
	}
	return e
}

// characters reads a range such as "a".."z".
func (p *parser) characters(from, to word) *expression {
	low, high := []rune(p.unescape(from)), []rune(p.unescape(to))
	if to.kind != wordString || len(low) != 1 || len(high) != 1 || low[0] > high[0] {
		p.fail(from.line, "the range %q to %q is not one of two characters in order", from.text, to.text)
		return &expression{kind: sequence}
	}
	return &expression{fixed: &syntax.Regexp{Op: syntax.OpCharClass, Rune: []rune{low[0], high[0]}}, line: from.line}
}

// unescape returns what a string means.
func (p *parser) unescape(w word) string {
	var b strings.Builder
	for rest := w.text; rest != ""; {
		if strings.HasPrefix(rest, `\/`) {
			b.WriteByte('/')
			rest = rest[2:]
			continue
		}
		r, _, tail, err := strconv.UnquoteChar(rest, '"')
		if err != nil {
			p.fail(w.line, "%q has an escape that is not known", w.text)
			break
		}
		b.WriteRune(r)
		rest = tail
	}
	return b.String()
}

// regexp makes an expression of text by the flags behind it.
func (p *parser) regexp(w word, flags syntax.Flags, text string) *expression {
	for _, flag := range w.flags {
		switch flag {
		case 'i':
			flags |= syntax.FoldCase
		case 's':
			flags |= syntax.DotNL
		case 'u', 'l':
		default:
			p.fail(w.line, "the flag %q of an expression is not supported", string(flag))
		}
	}
	re, err := syntax.Parse(text, flags)
	if err != nil {
		p.fail(w.line, "%v", err)
		return &expression{kind: sequence}
	}
	if where := unheld(re); where != "" {
		p.fail(w.line, "%s in an expression is not supported", where)
	}
	return &expression{fixed: dots(re), line: w.line}
}

// unheld names a part of an expression whose meaning depends on what stands around it.
func unheld(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText:
		return "an anchor"
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return "a word boundary"
	}
	for _, sub := range re.Sub {
		if where := unheld(sub); where != "" {
			return where
		}
	}
	return ""
}

// dots lets a dot take all characters but a line feed, as in Python; elsewhere it leaves out others, too.
func dots(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpAnyCharNotNL {
		return &syntax.Regexp{Op: syntax.OpCharClass, Rune: []rune{0, '\n' - 1, '\n' + 1, 0x10FFFF}}
	}
	for i := range re.Sub {
		re.Sub[i] = dots(re.Sub[i])
	}
	return re
}
