package jinja

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

// kindOf returns the kind of a template error.
func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// small are limits that every hostile template below must run into.
var small = Limits{Steps: 200_000, MemoryBytes: 8 << 20, OutputBytes: 1 << 20, Depth: 1000}

func renderSmall(source string) (string, error) {
	tmpl, err := Parse("hostile", source, Options{})
	if err != nil {
		return "", err
	}
	return tmpl.Render(Context{Vars: NewMap(), Now: dataNow, Limits: small})
}

// TestLimits renders templates that would hang or eat memory.
func TestLimits(t *testing.T) {
	grow := func(step string) string {
		return "{% set ns = namespace(x='ab', l=[1]) %}{% for i in range(90000) %}{% set " + step + " %}{% endfor %}"
	}
	for name, source := range map[string]string{
		"loops":             `{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}`,
		"empty loops":       `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`,
		"macro recursion":   `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`,
		"default recursion": `{% macro m(x=m()) %}{% endmacro %}{{ m() }}`,
		"loop recursion":    `{% macro m() %}{% for x in [1] if m() %}{% endfor %}{% endmacro %}{{ m() }}`,
		"mutual recursion":  `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ (((a()))) }}{% endmacro %}{{ a() }}`,
		"doubling string":   grow("ns.x = ns.x + ns.x"),
		"doubling concat":   grow("ns.x = ns.x ~ ns.x"),
		"doubling list":     grow("ns.l = ns.l + ns.l"),
		"nested list":       grow("ns.l = [ns.l]") + "{{ ns.l }}",
		"shared list": "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] " +
			"%}{% endfor %}{{ ns.l }}",
		"shared json": "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% " +
			"endfor %}{{ ns.l|tojson }}",
		"shared compare": "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, " +
			"ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
		"shared order": "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, " +
			"ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l < ns.m }}",
		"shared text": "{% set ns = namespace(l=['a'] * 1000) %}{% for i in range(9) %}{% set ns.l = [ns.l] * 100 " +
			"%}{% endfor %}{{ '{}'.format(ns.l) }}",
		"iterator tower": grow("ns.l = ns.l|map('string')") + "{{ ns.l|list }}",
		"repeat string":  `{{ "abc" * 999999999 }}`,
		"repeat list":    `{{ [1, 2] * 999999999 }}`,
		"repeat huge":    `{{ "abc" * 9223372036854775807 }}`,
		"range":          `{{ range(999999999)|list }}`,
		"range overflow": `{{ range(-9223372036854775807, 9223372036854775807)|list }}`,
		"indent":         `{{ ("a\n" * 10000)|indent(100000) }}`,
		"json indent":    `{{ [[[1]]]|tojson(indent=999999999) }}`,
		"replace":        `{% set a = "a" * 100000 %}{{ a.replace("a", a) }}`,
		"replace filter": `{% set a = "a" * 100000 %}{{ a|replace("", a) }}`,
		"join":           `{% set a = "a" * 100000 %}{{ a.join(a) }}`,
		"join filter":    `{% set a = "a" * 100000 %}{{ a|join(a) }}`,
		"capture":        `{% set x %}{% for i in range(99999) %}0123456789012345{% endfor %}{% endset %}`,
		"output":         `{% for i in range(99999) %}0123456789012345{% endfor %}`,
		"split":          `{% set a = "a," * 100000 %}{% for i in range(99999) %}{% set b = a.split(",") %}{% endfor %}`,
		"sort":           `{% set a = range(90000)|list %}{% for i in range(99999) %}{% set b = a|sort(reverse=true) %}{% endfor %}`,
		"search":         `{% set a = "é" * 100000 %}{% for i in range(99999) %}{% set b = a[90000] %}{% endfor %}`,
		"strftime":       `{{ strftime_now("%Y" * 400000) }}`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := renderSmall(source)
			if kindOf(err) != LimitError {
				t.Errorf("got %d bytes and error %v, want a limit error", len(out), err)
			}
		})
	}
}

// TestDefaultLimits checks that a caller who sets nothing, or one field, has
// all the others bounded too.
func TestDefaultLimits(t *testing.T) {
	if got := (Limits{}).withDefaults(); got != defaultLimits {
		t.Errorf("no limits become %+v, want %+v", got, defaultLimits)
	}
	want := defaultLimits
	want.Depth = 7
	if got := (Limits{Depth: 7, Steps: -1}).withDefaults(); got != want {
		t.Errorf("a depth alone becomes %+v, want %+v", got, want)
	}
}

// TestParseNesting parses sources that nest or chain without end.
func TestParseNesting(t *testing.T) {
	const n = 100_000
	for name, source := range map[string]string{
		"parentheses": "{{ " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " }}",
		"lists":       "{{ " + strings.Repeat("[", n) + strings.Repeat("]", n) + " }}",
		"dicts":       "{{ " + strings.Repeat("{1:", n) + "1" + strings.Repeat("}", n) + " }}",
		"signs":       "{{ " + strings.Repeat("-", n) + "1 }}",
		"nots":        "{{ " + strings.Repeat("not ", n) + "1 }}",
		"conditions":  "{{ " + strings.Repeat("1 if 0 else ", n/2) + "1 }}",
		"blocks":      strings.Repeat("{% if 1 %}", n),
		"filters":     "{{ 1" + strings.Repeat("|string", n) + " }}",
		"attributes":  "{{ a" + strings.Repeat(".a", n) + " }}",
		"calls":       "{{ a" + strings.Repeat("()", n) + " }}",
		"postfix if":  "{{ 1" + strings.Repeat(" if 1", n) + " }}",
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := Parse("deep", source, Options{})
			if err == nil {
				_, err = tmpl.Render(Context{})
			}
			if err == nil {
				t.Error("rendered, want an error")
			}
		})
	}
	sum := "{{ 1" + strings.Repeat(" + 1", 20_000) + " }}"
	if got, err := renderPlain(sum, NewMap()); err != nil || got != "20001" {
		t.Errorf("a long sum gives %q, %v", got, err)
	}
	if _, err := Parse("long", strings.Repeat("x", sourceBytesMax+1), Options{}); kindOf(err) != SyntaxError {
		t.Errorf("an overlong source gives %v", err)
	}
}

func TestErrorPlaces(t *testing.T) {
	for _, c := range []struct {
		source string
		kind   Kind
		line   int
	}{
		{"a\nb\n{{ nosuch.x }}", UndefinedError, 3},
		{"a\n{% if 1 %}\n{{ 'a' + 1 }}{% endif %}", TypeError, 3},
		{"{% macro m() %}\n\n{{ none + 1 }}{% endmacro %}\n\n{{ m() }}", TypeError, 3},
		{"\n{% for x in 5 %}{% endfor %}", TypeError, 2},
		{"\n\n{{ raise_exception('no') }}", Raised, 3},
		{"\n{{ [].append(1) }}", SecurityError, 2},
		{"\n\n{{ 1 + }}", SyntaxError, 3},
		{"\n{% nosuch %}", SyntaxError, 2},
		{"\n{{ 1|nosuch }}", SyntaxError, 2},
		{"\n{{ 'a'.index('b') }}", ValueError, 2},
		{"{#- c\n\n -#}\n{{ nosuch() }}", UndefinedError, 4},
		{"\n{% set x = 1 // 0 %}", RuntimeError, 2},
	} {
		_, err := renderPlain(c.source, NewMap())
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Line != c.line || e.Template != "test" {
			t.Errorf("%q: got %v, want %s on line %d", c.source, err, c.kind, c.line)
		}
	}
}

// TestConcurrentRenders renders one template from many goroutines.
func TestConcurrentRenders(t *testing.T) {
	tmpl, err := Parse("shared",
		`{% set ns = namespace(n=0) %}{% macro m(x) %}<{{ x }}>{% endmacro %}{% for x in l %}{% set ns.n = ns.n + x %}{{ m(x) }}{% endfor %}{{ ns.n }}{{ d|tojson }}`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	vars := NewMap()
	vars.Set("l", NewList(1, 2, 3))
	object, err := FromJSON([]byte(`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10}`))
	if err != nil {
		t.Fatal(err)
	}
	vars.Set("d", object)
	want, err := tmpl.Render(Context{Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if got, err := tmpl.Render(Context{Vars: vars}); err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
		})
	}
	group.Wait()
}
