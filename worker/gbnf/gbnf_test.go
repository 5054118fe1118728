package gbnf

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"parley"
)

var dump = flag.String("dump", "", "write each grammar, and its texts, into `FOLDER`, to be tried in other programs")

const opens = "<tool_call>\n{\"name\": \"weather\", \"arguments\": "

const weather = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":["integer","null"]}},` +
	`"required":["city","days"],"additionalProperties":false}`

// call is a tool call as most models write it, with arguments that a schema allows.
func call(schema string, strict bool) parley.Grammar {
	return parley.Repeat(parley.Sequence(parley.Literal("<tool_call>"),
		parley.Choice(parley.Sequence(parley.Literal("\n{\"name\": \"weather\", \"arguments\": "),
			parley.JSONSchema([]byte(schema), strict), parley.Literal("}\n</tool_call>"))),
		parley.Optional(parley.Literal("\n"))), 0, 0)
}

// cases are grammars with texts that they allow and texts that they do not.
var cases = map[string]struct {
	grammar parley.Grammar
	yes, no []string
}{
	"literal": {parley.Literal("a\"\\\n]"), []string{"a\"\\\n]"}, []string{"", "a"}},
	"regex": {parley.Regex(`(?i:yes|no)-?[^a-c\]]{2,3}\d*`), []string{"YES-zz1", "no]]"[:2] + "xy"},
		[]string{"yes-ab", "no-"}},
	"pattern": {parley.JSONSchema([]byte(`{"type":"string","pattern":"^(?:[^\\n\"]+\\n|a\\\\\"(?i:z)?)$"}`), true),
		[]string{`"ab\n"`, `"a\\\"Z"`, `"a\\\""`, `"é\t\n"`, `"\u0001\n"`}, []string{`""`, `"ab"`, "\"ab\n\"", `"\"\n"`, `"a\\Z"`}},
	"pattern without anchors": {parley.JSONSchema([]byte(`{"type":"string","pattern":"b.d"}`), true),
		[]string{`"bcd"`, `"\"xb\"d\n"`}, []string{`"bd"`, `"b\nd"`, `bcd`}},
	"choice": {parley.Choice(parley.Literal("red"), parley.Literal("green")), []string{"red", "green"},
		[]string{"redgreen", ""}},
	"object": {parley.JSONObject(), []string{`{}`, `{"a": [1, -2.5e3, {"b": null}]}`}, []string{`[]`, `{"a":}`,
		`{"a":1,}`}},
	"optional": {parley.Sequence(parley.Optional(parley.Literal("x")), parley.Literal("y")), []string{"y", "xy"},
		[]string{"xxy"}},
	"text": {parley.FreeText(parley.GrammarTrigger{Text: "<t>", Then: parley.Literal("!"), Again: true}),
		[]string{"", "a<", "<<t>!b", "<t>!<t>!"}, []string{"<t>", "a<t>b"}},
	"may call": {
		parley.Sequence(parley.FreeText(parley.GrammarTrigger{Text: "<tool_call>", Then: parley.Choice()}),
			call(weather, true)),
		[]string{
			"Hello <b>!", "",
			"I look." + opens + "{\"city\": \"Rom\", \"days\": 3}}\n</tool_call>\n",
			opens + "{\"city\":\"R\\n\",\"days\":null}}\n</tool_call>" +
				opens + "{\n  \"city\": \"é\",\n  \"days\": -1\n}}\n</tool_call>",
		},
		[]string{
			"<tool_call>", "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
			opens + "{\"days\": 3}}\n</tool_call>",
			opens + "{\"city\": \"a\", \"days\": 1, \"x\": 2}}\n</tool_call>",
		},
	},
	"optional members": {
		parley.JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"enum":["x",1]},`+
			`"c":{"const":null}},"required":["b"],"additionalProperties":false}`), true),
		[]string{`{"b":"x"}`, `{"a":true,"b":1}`, `{"b":"x","c":null}`, `{ "a":false, "b":1, "c":null }`},
		[]string{`{}`, `{"a":true}`, `{"b":2}`, `{"c":null}`, `{"b":"x",}`, `{,"b":1}`},
	},
	"other members": {
		parley.JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"number"}},"additionalProperties":{"type":"string"}}`),
			true),
		[]string{`{}`, `{"a":1}`, `{"z":"y"}`, `{"a":0.5,"z":"y","w":""}`}, []string{`{"z":1}`, `{"a":1"z":""}`},
	},
	"lists": {
		parley.JSONSchema([]byte(`{"type":"array","items":{"type":"string","minLength":1,"maxLength":2},"minItems":1,"maxItems":3}`),
			true),
		[]string{`["a"]`, `["a","bc", "é"]`}, []string{`[]`, `["abc"]`, `[""]`, `["a","a","a","a"]`},
	},
	"tree": {
		parley.JSONSchema([]byte(`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"l":{"anyOf":[{"$ref":"#/$defs/n"},`+
			`{"type":"null"}]}},"required":["l"],"additionalProperties":false}}}`), true),
		[]string{`{"l":null}`, `{"l":{"l":{"l":null}}}`}, []string{`{}`, `{"l":{}}`},
	},
	"loose": {parley.JSONSchema([]byte(`{"type":"string","format":"date"}`), false), []string{`"any"`}, []string{`1`}},
}

func TestWrite(t *testing.T) {
	for name, c := range cases {
		text, err := Write(&c.grammar)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g := parse(t, text)
		var lines strings.Builder
		for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
			for _, s := range texts {
				if got := g.accepts(s); got != want {
					t.Errorf("%s: %q is allowed: %v, want %v\n%s", name, s, got, want, text)
				}
				fmt.Fprintf(&lines, "%d %s\n", map[bool]int{true: 1}[want], strings.ReplaceAll(s, "\n", `\N`))
			}
		}
		if *dump != "" {
			file := filepath.Join(*dump, strings.ReplaceAll(name, " ", "-"))
			_ = os.WriteFile(file+".gbnf", []byte(text), 0o644)
			_ = os.WriteFile(file+".txt", []byte(lines.String()), 0o644)
		}
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 100) + "{}" + strings.Repeat("}", 100)
	for name, c := range map[string]struct {
		grammar parley.Grammar
		say     string
	}{
		"a keyword": {parley.JSONSchema([]byte(`{"type":"string","format":"date"}`), true),
			`"format" cannot be enforced`},
		"a type":          {parley.JSONSchema([]byte(`{"type":"date"}`), false), `"date" is not a type`},
		"a word boundary": {parley.Regex(`a\b`), "cannot be written"},
		"a reference":     {parley.JSONSchema([]byte(`{"$ref":"#/$defs/x"}`), false), "leads nowhere"},
		"another file":    {parley.JSONSchema([]byte(`{"$ref":"http://x"}`), false), "leads out"},
		"depth":           {parley.JSONSchema([]byte(deep), false), "more than 64 deep"},
		"two triggers": {parley.FreeText(parley.GrammarTrigger{Text: "a"}, parley.GrammarTrigger{Text: "b"}),
			"2 triggers"},
		"nothing": {parley.Grammar{}, "cannot be written"},
	} {
		if _, err := Write(&c.grammar); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rules are a parsed grammar: a plain reading of the notation, to test what is written.
type rules map[string]node

// A node takes some of a text: it returns where it may end.
type node func(g rules, text string, at int) []int

func (g rules) accepts(text string) bool {
	return slices.Contains(g["root"](g, text, 0), len(text))
}

func parse(t *testing.T, text string) rules {
	g := rules{}
	for line := range strings.Lines(text) {
		name, body, ok := strings.Cut(strings.TrimSpace(line), " ::= ")
		p := &parser{t: t, text: body}
		if g[name] = p.choice(); !ok || p.text != "" {
			t.Fatalf("%q is left of %q", p.text, line)
		}
	}
	return g
}

type parser struct {
	t    *testing.T
	text string
}

func (p *parser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.text, prefix)
	p.text = rest
	return ok
}

func (p *parser) choice() node {
	var ways []node
	for more := true; more; more = p.take("|") {
		ways = append(ways, p.sequence())
	}
	return func(g rules, text string, at int) (ends []int) {
		for _, way := range ways {
			ends = append(ends, way(g, text, at)...)
		}
		slices.Sort(ends)
		return slices.Compact(ends)
	}
}

func (p *parser) sequence() node {
	var parts []node
	for {
		p.text = strings.TrimLeft(p.text, " ")
		if p.text == "" || p.text[0] == '|' || p.text[0] == ')' {
			break
		}
		parts = append(parts, p.repeated(p.item()))
	}
	return func(g rules, text string, at int) []int {
		ends := []int{at}
		for _, part := range parts {
			next := map[int]bool{}
			for _, e := range ends {
				for _, n := range part(g, text, e) {
					next[n] = true
				}
			}
			ends = ends[:0:0]
			for e := range next {
				ends = append(ends, e)
			}
		}
		return ends
	}
}

func (p *parser) item() node {
	switch {
	case p.take("("):
		inner := p.choice()
		if !p.take(")") {
			p.t.Fatalf("a bracket is open before %q", p.text)
		}
		return inner
	case p.text[0] == '"':
		p.text = p.text[1:]
		var literal strings.Builder
		for !p.take(`"`) {
			literal.WriteString(string(p.char()))
		}
		return func(_ rules, text string, at int) []int {
			if strings.HasPrefix(text[at:], literal.String()) {
				return []int{at + len(literal.String())}
			}
			return nil
		}
	case p.take("["):
		return p.class()
	}
	n := strings.IndexAny(p.text+" ", " |)*+?{")
	name := p.text[:n]
	p.text = p.text[n:]
	return func(g rules, text string, at int) []int {
		if g[name] == nil {
			p.t.Fatalf("there is no rule %q", name)
		}
		return g[name](g, text, at)
	}
}

func (p *parser) class() node {
	not := p.take("^")
	var ranges [][2]rune
	for !p.take("]") {
		from := p.char()
		to := from
		if p.take("-") {
			if p.text[0] == ']' {
				ranges = append(ranges, [2]rune{'-', '-'})
			} else {
				to = p.char()
			}
		}
		ranges = append(ranges, [2]rune{from, to})
	}
	return func(_ rules, text string, at int) []int {
		c, n := utf8.DecodeRuneInString(text[at:])
		in := false
		for _, r := range ranges {
			in = in || c >= r[0] && c <= r[1]
		}
		if n == 0 || in == not {
			return nil
		}
		return []int{at + n}
	}
}

// char reads a character, in the escapes that all engines know.
func (p *parser) char() rune {
	if !p.take(`\`) {
		c, n := utf8.DecodeRuneInString(p.text)
		p.text = p.text[n:]
		return c
	}
	kind := p.text[0]
	p.text = p.text[1:]
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
	if digits > 0 {
		n, err := strconv.ParseUint(p.text[:digits], 16, 32)
		if err != nil {
			p.t.Fatal(err)
		}
		p.text = p.text[digits:]
		return rune(n)
	}
	plain := map[byte]rune{'n': '\n', 't': '\t', 'r': '\r', '"': '"', '\\': '\\', '[': '[', ']': ']'}
	if plain[kind] == 0 {
		p.t.Fatalf("the escape \\%c", kind)
	}
	return plain[kind]
}

func (p *parser) repeated(one node) node {
	least, most := 1, 1
	switch {
	case p.take("*"):
		least, most = 0, 1<<30
	case p.take("+"):
		most = 1 << 30
	case p.take("?"):
		least = 0
	case p.take("{"):
		bounds, rest, _ := strings.Cut(p.text, "}")
		p.text = rest
		from, to, isRange := strings.Cut(bounds, ",")
		least, _ = strconv.Atoi(from)
		if most, _ = strconv.Atoi(to); !isRange {
			most = least
		} else if to == "" {
			most = 1 << 30
		}
	}
	return func(g rules, text string, at int) (ends []int) {
		seen := map[int]bool{}
		now := []int{at}
		for n := 0; n <= most && len(now) > 0; n++ {
			var next []int
			for _, e := range now {
				if n >= least && !seen[e] {
					seen[e] = true
					ends = append(ends, e)
				} else if n >= least {
					continue
				}
				if n < most {
					next = append(next, one(g, text, e)...)
				}
			}
			slices.Sort(next)
			now = slices.Compact(next)
		}
		return ends
	}
}
