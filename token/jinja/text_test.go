package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// authored writes a text with the author's bytes in guillemets.
func authored(t Text) string {
	var b strings.Builder
	at := 0
	for _, s := range t.Spans() {
		b.WriteString(t.text[at:s.Start] + "«" + t.text[s.Start:s.End] + "»")
		at = s.End
	}
	return b.String() + t.text[at:]
}

// TestProvenance has the operations of templates keep apart what the author
// wrote and what came with the request.
func TestProvenance(t *testing.T) {
	vars := NewMap()
	vars.Set("d", "data")
	vars.Set("wide", "d ä ta")
	vars.Set("bos", Own("<s>"))
	vars.Set("l", NewList("x", "y"))
	vars.Set("m", mustJSON(t, `{"k": "v", "n": 7}`))
	for _, c := range []struct{ source, want string }{
		{`a{{ d }}b`, `«a»data«b»`},
		{`{{ '<' + d + '>' }}`, `«<»data«>»`},
		{`{{ '<' ~ d ~ 1 ~ '>' }}`, `«<»data«1>»`},
		{`{{ bos }}{{ 'x' }}{{ 1.5 }}{{ true }}{{ none }}`, `«<s>x1.5TrueNone»`},
		{`{{ ('<a>' + d)[1:4] }}`, `«a>»d`},
		{`{{ ('ä' + wide)[0:4] }}`, `«ä»d ä`},
		{`{{ ('ab' + d)[::-1] }}`, `atadba`},
		{`{{ ('ab')[::-1] }}`, `«ba»`},
		{`{{ ('a' + d)[0] }}{{ ('a' + d)[1] }}`, `«a»d`},
		{`{{ (' <' + d + ' ')|trim }}`, `«<»data`},
		{`{{ (d + '> ').rstrip() }}{{ ('--' + d).lstrip('-') }}`, `data«>»data`},
		{`{% for p in ('<a>,' + d + ',<b>').split(',') %}{{ p }}|{% endfor %}`, `«<a>|»data«|<b>|»`},
		{`{% for p in ('XX' + 'X' + d).split('XX') %}{{ p }}|{% endfor %}`, `«|X»data«|»`},
		{`{% for p in ('<a> ' + d + '  <b>').split() %}{{ p }}{% endfor %}`, `«<a>»data«<b>»`},
		{`{% for p in ('<a>,' + d + ',<b>').rsplit(',', 1) %}{{ p }}|{% endfor %}`, `«<a>,»data«|<b>|»`},
		{`{% for p in ('<a>\n\n' + d + '\r\n<b>').splitlines() %}{{ p }}|{% endfor %}`, `«<a>||»data«|<b>|»`},
		{`{{ ('<a>' + d).removeprefix('<') }}{{ ('<a>' + d).removesuffix('ta') }}`, `«a>»data«<a>»da`},
		{`{{ d|replace('at', '<i>') }}`, `d«<i>»a`},
		{`{{ ('<a>' + d).replace('a', d) }}`, `«<»data«>»ddatatdata`},
		{`{{ ('<' + d).replace('', '-') }}`, `«-<-»d«-»a«-»t«-»a«-»`},
		{`{{ d|replace('data', d) }}`, `data`},
		{`{{ [d, '<i>', d]|join('|') }}`, `data«|<i>|»data`},
		{`{{ '|'.join([d, '<i>']) }}{{ l|join(d) }}`, `data«|<i>»xdatay`},
		{`{{ '<{}|{1}|{n}>'.format(d, 'x', n=m.n) }}{{ '{}'.format('<a>' + d) }}`, `«<»data«|x|7><a>»data`},
		{`{{ (d[0] + '{}')[1:].format('a') }}{{ (d[0] + '{}').format('a') }}`, `«a»d«a»`},
		{`{{ ('{' + d[0] + '}').format(d='<a>') }}{{ d.replace('data', '{}').format('<a>') }}`, `<a>«<a>»`},
		{`{{ '{{}}'.format() }}`, `«{}»`},
		{`{{ 'a'|upper }}{{ d|upper }}{{ ('a' + d)|upper }}`, `«A»DATAADATA`},
		{`{{ d|tojson }}{{ 'a'|tojson }}{{ {'a': ['<b>']}|tojson }}{{ {'a': d}|tojson }}`,
			`"data"«"a"{"a": ["<b>"]}»{"a": "data"}`},
		{`{{ ['<a>', d] }}{{ ['<a>', 1] }}`, `['<a>', 'data']«['<a>', 1]»`},
		{`{% macro tag(x) %}<{{ x }}>{% endmacro %}{{ tag(d) }}{{ tag('a') }}{% set y = tag(d) %}{{ y|trim }}`,
			`«<»data«><a><»data«>»`},
		{`{% set x %}<{{ d }}>{% endset %}{{ x }}{{ x|length }}`, `«<»data«>6»`},
		{`{% filter indent(2, true) %}<a>
{{ d }}<b>{% endfilter %}`, "«  <a>»\n«  »data«<b>»"},
		{`{% set ns = namespace(x='<a>') %}{% set ns.x = ns.x + d %}{{ ns.x }}`, `«<a>»data`},
		{`{% for c in '<' + d[:1] %}{{ c }}{% endfor %}`, `«<»d`},
		{`{{ m.k }}{{ m['k'] }}{{ m.get('k', '<a>') }}{{ m.get('z', '<a>') }}{{ {'<a>': d}.items()|list|first|first }}`, `vvv«<a><a>»`},
		{`{{ x|default('<a>') }}{{ d|default('<a>') }}{{ d or '<a>' }}{{ '' or '<a>' }}{{ d if d == 'data' else '<a>' }}`, `«<a>»datadata«<a>»data`},
		{`{{ '<a>' * 2 }}{{ ('<' + d) * 2 }}`, `«<a><a><»data«<»data`},
		{`{{ l|map('upper')|join('<') }}{{ ['a', d]|map('upper')|join('') }}`, `X«<»Y«A»DATA`},
		{`{{ d|safe }}{{ d|string }}{{ 5|string }}{{ '<a>'|safe }}`, `datadata«5<a>»`},
		{`{{ {'a': d}['a'] }}{{ {'a': '<a>'}['a'] }}{{ [d, '<a>'][1] }}{{ (d, '<a>')|last }}`, `data«<a><a><a>»`},
		{`{{ d.upper().lower() }}{{ d.title() }}`, `dataData`},
		{`{{ d|capitalize }}{{ d|list|join }}{{ d|reverse }}{{ d|sort|join }}`, "Datadataatadaadt"},
	} {
		tmpl, err := Parse("test", c.source, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		got, err := tmpl.RenderText(Context{Vars: vars})
		if err != nil || authored(got) != c.want {
			t.Errorf("%s:\n got %q, %v\nwant %q", c.source, authored(got), err, c.want)
		}
	}
}

// sentinel stands for text of a request: no template contains it.
const sentinel = "⟦⟧"

// TestSharedTemplatesProvenance renders every shared template with conversations
// whose strings all carry a sentinel: no byte of it may count as the author's.
func TestSharedTemplatesProvenance(t *testing.T) {
	dir := testkit.SharedData(t, "templates")
	var cases []json.RawMessage
	readJSONFile(t, filepath.Join(dir, "cases.json"), &cases)
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	rendered := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := Parse("test", string(source), Options{})
		if err != nil {
			continue // refused by jinja2 as well; see TestSharedTemplates
		}
		for _, raw := range cases {
			_, vars := caseVars(t, raw)
			messages, _ := vars.Get("messages")
			vars.Set("messages", stained(messages))
			tools, _ := vars.Get("tools")
			vars.Set("tools", stained(tools))
			got, err := tmpl.RenderText(Context{Vars: vars, Now: dataNow})
			if err != nil {
				continue
			}
			rendered++
			for _, s := range got.Spans() {
				if part := got.text[s.Start:s.End]; strings.ContainsAny(part, sentinel) {
					t.Errorf("%s: %.200q counts as the author's", filepath.Base(file), part)
				}
			}
		}
	}
	if rendered < 80 {
		t.Errorf("%d renders, want at least 80", rendered)
	}
}

// stained puts the sentinel into every string but those that templates compare.
func stained(v Value) Value {
	switch v := v.(type) {
	case string:
		return sentinel + v + sentinel
	case *List:
		out := &List{}
		for _, item := range v.Items {
			out.Items = append(out.Items, stained(item))
		}
		return out
	case *Map:
		out := NewMap()
		for _, key := range v.Keys() {
			item, _ := v.Get(key)
			if key != "role" && key != "type" {
				item = stained(item)
			}
			out.Set(key, item)
		}
		return out
	}
	return v
}

// FuzzProvenance checks for any template that no byte of the request counts as
// the author's. The request's text is of characters that the template lacks.
func FuzzProvenance(f *testing.F) {
	addSeeds(f)
	const secret = "Ωψξ"
	vars := NewMap()
	vars.Set("s", secret+" "+secret+"\n"+secret)
	vars.Set("l", NewList(int('Ω'), secret, nil))
	vars.Set("d", mustJSON(f, `{"`+secret+`": 1, "a": {"c": ["`+secret+`"]}}`))
	vars.Set("messages", mustJSON(f, `[{"role": "user", "content": "`+secret+`"}]`))
	limits := Limits{Steps: 20_000, MemoryBytes: 1 << 20, OutputBytes: 1 << 16, Depth: 300}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("fuzz", source, Options{})
		if err != nil || strings.ContainsAny(strings.ToUpper(source), "ΩΨΞ\\") {
			return
		}
		got, err := tmpl.RenderText(Context{Vars: vars, Now: dataNow, Limits: limits})
		if err != nil {
			return
		}
		end := 0
		for _, s := range got.Spans() {
			if s.Start < end || s.End <= s.Start || s.End > len(got.text) {
				t.Fatalf("%q: spans %v of %d bytes", source, got.Spans(), len(got.text))
			}
			end = s.End
			if strings.ContainsAny(got.text[s.Start:s.End], "ΩψξΨΞω") {
				t.Errorf("%q: data count as the author's: %s", source, authored(got))
			}
		}
	})
}
