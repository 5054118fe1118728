// Package gbnf writes a [parley.Grammar] in GBNF, the notation of grammars that llama.cpp, vLLM and SGLang
// share.
//
// What the notation cannot express, or what this package does not translate, is an error where the grammar is
// strict. In a schema that is not strict such a point is left out, as package parley says of such schemas.
package gbnf

import (
	"fmt"
	"strconv"
	"strings"

	"parley"
)

// rulesMax bounds the rules of one grammar: engines compile them while others wait.
const rulesMax = 20000

// Write returns g in GBNF. Its first rule, root, is the whole answer.
func Write(g *parley.Grammar) (string, error) {
	w := &writer{rules: map[string]string{}}
	root, err := w.grammar(g)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "root ::= %s\n", root)
	for _, name := range w.order {
		fmt.Fprintf(&b, "%s ::= %s\n", name, w.rules[name])
	}
	return b.String(), nil
}

// A writer collects rules.
type writer struct {
	rules map[string]string
	order []string
	next  int
}

const (
	empty   = `""`
	anyText = `[^\x01]*`
)

// rule adds a rule under a new name and returns the name.
func (w *writer) rule(body string) (string, error) {
	name := w.reserve()
	return name, w.define(name, body)
}

// reserve returns a name for a rule that refers to itself.
func (w *writer) reserve() string {
	w.next++
	return "r" + strconv.Itoa(w.next)
}

func (w *writer) define(name, body string) error {
	if len(w.order) >= rulesMax {
		return fmt.Errorf("it takes more than %d rules", rulesMax)
	}
	w.rules[name] = body
	w.order = append(w.order, name)
	return nil
}

// shared adds a rule under a fixed name, once.
func (w *writer) shared(name, body string) string {
	if _, ok := w.rules[name]; !ok {
		w.rules[name] = body
		w.order = append(w.order, name)
	}
	return name
}

// grammar returns an expression for g.
func (w *writer) grammar(g *parley.Grammar) (string, error) {
	switch g.Kind {
	case parley.GrammarLiteral:
		return quote(g.Text), nil
	case parley.GrammarRegex:
		return expression(g.Text)
	case parley.GrammarObject:
		return w.object(), nil
	case parley.GrammarSchema:
		return w.schema(g)
	case parley.GrammarSequence:
		return w.join(g.Parts, " ", empty)
	case parley.GrammarChoice:
		if len(g.Parts) == 0 {
			return "", fmt.Errorf("a choice of nothing cannot be written")
		}
		return w.join(g.Parts, " | ", empty)
	case parley.GrammarRepeat:
		return w.repeat(g)
	case parley.GrammarText:
		return w.text(g)
	}
	return "", fmt.Errorf("grammars of kind %q cannot be written", g.Kind)
}

// join writes parts with a separator between them.
func (w *writer) join(parts []parley.Grammar, separator, none string) (string, error) {
	if len(parts) == 0 {
		return none, nil
	}
	texts := make([]string, len(parts))
	for i := range parts {
		var err error
		if texts[i], err = w.grammar(&parts[i]); err != nil {
			return "", err
		}
	}
	if len(texts) == 1 {
		return texts[0], nil
	}
	return "(" + strings.Join(texts, separator) + ")", nil
}

func (w *writer) repeat(g *parley.Grammar) (string, error) {
	part, err := w.grammar(&g.Parts[0])
	if err != nil {
		return "", err
	}
	name, err := w.rule(part)
	return name + times(g.Min, g.Max), err
}

// times writes how often something stands in a row; a most of 0 means no bound.
func times(least, most int) string {
	switch {
	case least == 0 && most == 0:
		return "*"
	case least == 1 && most == 0:
		return "+"
	case least == 0 && most == 1:
		return "?"
	case most == 0:
		return "{" + strconv.Itoa(least) + ",}"
	}
	return "{" + strconv.Itoa(least) + "," + strconv.Itoa(most) + "}"
}

// text writes free text. With a trigger it is the automaton that looks for it: one rule for each number of
// bytes of the trigger that the text ends with.
func (w *writer) text(g *parley.Grammar) (string, error) {
	if len(g.Triggers) == 0 {
		return anyText, nil
	}
	trigger := g.Triggers[0]
	pattern := []rune(trigger.Text)
	if len(g.Triggers) > 1 || len(pattern) == 0 {
		return "", fmt.Errorf("free text with %d triggers cannot be written", len(g.Triggers))
	}
	then := ""
	if c := trigger.Then; c.Kind != parley.GrammarChoice || len(c.Parts) > 0 {
		var err error
		if then, err = w.grammar(&c); err != nil {
			return "", err
		}
	}
	names := make([]string, len(pattern))
	for i := range names {
		names[i] = w.reserve()
	}
	for i := range pattern {
		ways := []string{empty}
		var others strings.Builder
		for j, c := range pattern {
			if strings.ContainsRune(string(pattern[:j]), c) {
				continue
			}
			others.WriteString(classRune(c))
			switch next := ended(pattern, i, c); {
			case next < len(pattern):
				ways = append(ways, quote(string(c))+" "+names[next])
			case then != "" && trigger.Again:
				ways = append(ways, quote(string(c))+" "+then+" "+names[0])
			case then != "":
				ways = append(ways, quote(string(c))+" "+then)
			}
		}
		ways = append(ways, "[^"+others.String()+"] "+names[0])
		if err := w.define(names[i], strings.Join(ways, " | ")); err != nil {
			return "", err
		}
	}
	return names[0], nil
}

// ended returns how many characters of pattern a text ends with that ended with the first n and continues
// with c.
func ended(pattern []rune, n int, c rune) int {
	text := string(pattern[:n]) + string(c)
	for k := min(n+1, len(pattern)); k > 0; k-- {
		if strings.HasSuffix(text, string(pattern[:k])) {
			return k
		}
	}
	return 0
}

// quote writes a literal.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// classRune writes a character inside brackets, in escapes that all engines read.
func classRune(c rune) string {
	switch {
	case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return string(c)
	case c < 0x80:
		return fmt.Sprintf(`\x%02X`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04X`, c)
	}
	return fmt.Sprintf(`\U%08X`, c)
}
