package grammar

import (
	"strings"
	"testing"

	"parley"
)

// match reports whether a grammar takes text as a whole.
func match(t testing.TB, m *Masker, g parley.Grammar, text string) bool {
	t.Helper()
	p, err := Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	at := m.Start(p)
	for i := range len(text) {
		if !at.Accept(parley.Token(text[i]) + 2) {
			return false
		}
	}
	return at.Done()
}

func TestTakesAndRefuses(t *testing.T) {
	schema := func(s string) parley.Grammar { return parley.JSONSchema([]byte(s), true) }
	for _, c := range []struct {
		g          parley.Grammar
		yes, no    []string
		commonName string
	}{
		{schema(`{}`),
			[]string{`1`, `-0.5e10`, `"a\u00e9\ud83d\ude00"`, `{"a": [1, {}]}`, `[1,{"b":2, "c": []}]`, `null`},
			[]string{``, `01`, `1.`, `"\ud83d"`, `"\ude00"`, "\"\x01\"", `{"a":1,}`, `[1 ,2]`, `{a:1}`, `[  1]`, `tru`,
				"\"\xff\""}, "any"},
		{schema(`{"type":"integer","minimum":-5,"maximum":105}`), []string{"-5", "0", "9", "10", "99", "100", "105"},
			[]string{"-6", "106", "110", "200", "1000", "-0", "1.0", "00"}, "integers"},
		{schema(`{"type":"integer","minimum":98,"maximum":1001}`), []string{"98", "99", "100", "999", "1000", "1001"},
			[]string{"97", "1002", "9", "-98"}, "lengths differ"},
		{schema(`{"type":"integer","maximum":-98}`), []string{"-98", "-99", "-100", "-123456"},
			[]string{"-97", "-9", "98", "0"}, "negative"},
		{schema(`{"type":"number","minimum":0.25,"exclusiveMaximum":1.5}`),
			[]string{"0.25", "0.250", "0.3", "1", "1.0", "1.49", "1.4999"},
			[]string{"0.2", "0.249", "0.2499999", "1.5", "1.50", "2", "-1", "0"}, "numbers"},
		{schema(`{"type":"number","exclusiveMinimum":-2.5,"maximum":0}`), []string{"-2.49", "-2", "0", "0.0", "-0.1"},
			[]string{"-2.5", "-2.50", "0.1", "-3", "1"}, "across zero"},
		{schema(`{"type":"integer","multipleOf":7}`), []string{"0", "7", "-14", "98", "700"},
			[]string{"1", "15", "-6"}, "multiples"},
		{schema(`{"type":"number","multipleOf":0.25}`), []string{"0", "1", "0.5", "0.25", "-3.75", "2.0", "2.50"},
			[]string{"0.1", "0.3", "0.255"}, "fractions"},
		{schema(`{"type":"integer","minimum":1e2,"maximum":1.5e2}`), []string{"100", "150"}, []string{"99", "151"},
			"exponents"},
		{schema(`{"type":"string","pattern":"b"}`), []string{`"b"`, `"abc"`, `"\n\"b\\"`}, []string{`""`, `"ac"`, `b`},
			"contains"},
		{schema(`{"type":"string","pattern":"^b|c$"}`), []string{`"bx"`, `"xc"`, `"b"`, `"c"`},
			[]string{`"xb"`, `"cx"`, `"xbx"`}, "anchors"},
		{schema(`{"type":"string","pattern":"^\\u0041[^a-z]$"}`), []string{`"A1"`, `"A\""`, `"A日"`},
			[]string{`"Aa"`, `"A"`, `"A12"`}, "escapes"},
		{schema(`{"type":"string","minLength":2,"maxLength":3}`), []string{`"ab"`, `"日本語"`, `"\n\u00e9"`,
			`"\ud83d\ude00a"`}, []string{`"a"`, `"abcd"`, `"日本語!"`}, "characters"},
		{schema(`{"type":"string","pattern":"^a+$","minLength":2,"maxLength":3}`), []string{`"aa"`, `"aaa"`},
			[]string{`"a"`, `"aaaa"`, `"ab"`}, "pattern and lengths"},
		{schema(`{"type":"string","format":"date"}`), []string{`"2024-02-28"`, `"2024-12-31"`, `"2023-04-30"`},
			[]string{`"2024-02-30"`, `"2024-04-31"`, `"2024-13-01"`, `"2024-1-1"`}, "dates"},
		{schema(`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3}`), []string{"[1]", "[1, 2,3]"},
			[]string{"[]", "[\n 1]", "[1,  2]", "[ 1]", "[1 ]", "[1,2,3,4]", "[1,]", "[,1]"}, "arrays"},
		{schema(`{"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"minItems":1}`),
			[]string{"[null]", "[null,true]", `[null,true,"x",{}]`}, []string{"[]", "[true]", "[null,null]"}, "tuples"},
		{schema(
			`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]}`),
			[]string{`{"b":null}`, `{"a":null,"b":null}`, `{"b":null, "c": null}`, `{"a":null,"b":null,"c":null}`},
			[]string{`{}`, `{"a":null}`, `{"b":null,"a":null}`, `{"b":null,"d":null}`, `{"b":null,}`}, "members"},
		{schema(`{"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"type":"integer"}}`),
			[]string{`{}`, `{"a":null}`, `{"x":1}`, `{"a":null,"ab":1,"":2}`},
			[]string{`{"a":1}`, `{"x":null}`, `{"x":1,"a":1}`, `{"\u0061":1}`}, "others"},
		{schema(
			`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"maximum":3},"b":{"type":"null"}},"additionalProperties":false}]}`),
			[]string{`{"a":3}`, `{"a":1,"b":null}`}, []string{`{"a":4}`, `{"b":null}`, `{}`}, "all of"},
		{parley.Sequence(parley.Literal("<a>"), parley.Choice(parley.Literal("x"), parley.Literal("xy")),
			parley.Optional(parley.Literal("z"))), []string{"<a>x", "<a>xy", "<a>xz", "<a>xyz"},
			[]string{"<a>", "<a>z", "x"}, "sequence"},
		{parley.Repeat(parley.Literal("ab"), 2, 3), []string{"abab", "ababab"}, []string{"", "ab", "abababab", "aba"},
			"repeat"},
		{parley.Repeat(parley.Literal("ab"), 3, 0), []string{"ababab", strings.Repeat("ab", 50)}, []string{"abab"},
			"no bound"},
		{masked["tools"], []string{"", "hello <b> there", "<tool_call", "hi <tool_call>{}</tool",
			"<tool_call>{\"a\": 1}</tool and <tool_call>{}</tool", "<<tool_call>{}</tool"},
			[]string{"<tool_call>", "<tool_call>x", "<tool_call>{}", "<tool_call>[]</tool", "<<tool_call>no"},
			"triggers"},
		{parley.Regex(`a(b|c)+d?`), []string{"ab", "abcbd"}, []string{"a", "xab", "abx"}, "regex"},
	} {
		t.Run(c.commonName, func(t *testing.T) {
			m := NewMasker(vocabularyOf(all), 1<<20)
			for _, text := range c.yes {
				if !match(t, m, c.g, text) {
					t.Errorf("refuses %q", text)
				}
			}
			for _, text := range c.no {
				if match(t, m, c.g, text) {
					t.Errorf("takes %q", text)
				}
			}
		})
	}
}

func TestRecursionEndsByClosing(t *testing.T) {
	v := vocabularyOf(all)
	g := parley.JSONSchema(
		[]byte(
			`{"$defs":{"l":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/l"},{"type":"integer"}]},"minItems":1}},"$ref":"#/$defs/l"}`), true)
	p, err := Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	at := NewMasker(v, 1<<20).Start(p)
	depth := 0
	for ; at.Accept('[' + 2); depth++ {
		if depth > 10*framesMax {
			t.Fatal("there is no bound")
		}
	}
	if depth < 60 {
		t.Errorf("only %d nested values", depth)
	}
	finish(t, v, at, nil)
}

func TestForkGoesItsOwnWay(t *testing.T) {
	v := vocabularyOf(all)
	g := parley.Choice(parley.Literal("ab"), parley.Literal("cd"))
	p, err := Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	a := NewMasker(v, 1<<20).Start(p)
	b := a.Fork()
	if !a.Accept('a'+2) || !b.Accept('c'+2) || a.Accept('d'+2) || !a.Accept('b'+2) || !b.Accept('d'+2) {
		t.Error("forks do not go their own ways")
	}
	if !a.Final() || !a.Mask().Allows(end) || a.Mask().Count() != 1 {
		t.Error("a complete text does not end")
	}
	if !a.Accept(end) || a.Accept(end) || a.Mask().Count() != 0 || !a.Final() {
		t.Error("an ended text goes on")
	}
}

func TestForced(t *testing.T) {
	v := vocabularyOf(all, `"name`, `":`, "true")
	g := parley.JSONSchema([]byte(`{"type":"object","properties":{"name":{"const":true}},"required":["name"]}`), true)
	p, err := Compile(&g)
	if err != nil {
		t.Fatal(err)
	}
	at := NewMasker(v, 1<<20).Start(p)
	spell := func(tokens []parley.Token) (text string) {
		for _, token := range tokens {
			text += string(v.spell[token]) + "|"
		}
		return text
	}
	if got := spell(at.Forced(nil, 9)); got != `{|"name|":|` {
		t.Errorf("at the start %q is forced", got)
	}
	at.Accept('{' + 2)
	at.Accept('"' + 2)
	if got := spell(at.Forced(nil, 9)); got != `n|a|m|e|":|` {
		t.Errorf("in the name %q is forced", got)
	}
	if got := at.Forced(nil, 2); len(got) != 2 {
		t.Errorf("%d tokens where 2 were asked for", len(got))
	}
}
