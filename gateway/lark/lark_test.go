package lark

import (
	"regexp"
	"strings"
	"testing"
)

// patch has the shape of the grammar by which agents hand over changes of files.
const patch = `start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
`

func TestRegexp(t *testing.T) {
	for name, c := range map[string]struct {
		grammar   string
		is, isNot []string
	}{
		"patch": {patch,
			[]string{
				"*** Begin Patch\n*** Add File: a.go\n+package a\n+\n*** End Patch",
				"*** Begin Patch\n*** Update File: a\r\n*** Move to: b\n@@ f\n-x\n+y\n z\n*** End of File\n" +
					"*** End Patch\n",
				"*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch",
			},
			[]string{"", "*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
				"*** Begin Patch\n*** Add File: a\nx\n*** End Patch"}},
		"expressions": {`
			start: expr
			expr: term (SP ADD SP term)* -> add
			    | term
			term: factor (SP MUL SP factor)* -> mul
			    | factor
			factor: INT
			SP: " "
			ADD: "+"
			MUL: "*"
			%import common.INT`,
			[]string{"1", "1 + 2 * 30"}, []string{"", "1+2", "1 + ", "a"}},
		"case, ranges, counts, brackets": {`
			start: "Select"i LETTERS~2..3 [("x"
			  | "y")] _END // a comment
			LETTERS: "a".."c"
			_END: /[0-9]+/ | "\n" | "\u00e9"`,
			[]string{"selectab1", "SELECTabcx\n", "Selectccyé"},
			[]string{"select", "selecta1", "selectabcd1", "selectabxy1"}},
		"ignored": {`
			start: "let" NAME "=" NUMBER ";"
			NAME: LETTER+
			%import common (LETTER, NUMBER)
			%import common.WS -> SPACE
			%ignore SPACE`,
			[]string{"letx=1;", " let ab = 1.5e3 ;\n"}, []string{"let a b = 1;", "let x = 1 5;"}},
		"repetition by recursion": {`start: list
			list: item | list "," item
			item: "a" item | "b"`,
			[]string{"b", "aab,b,ab,b,b,b,b,b,b,b"}, []string{"", "a", "b,", ",b"}},
		"nesting": {`start: value
			value: "x" | "(" value ")"`,
			[]string{"x", "(x)", "((((x))))"}, []string{"", "(x", "x)"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := Regexp(c.grammar)
			if err != nil {
				t.Fatal(err)
			}
			re := regexp.MustCompile(`^(?:` + text + `)$`)
			for _, s := range c.is {
				if !re.MatchString(s) {
					t.Errorf("%q is not matched by %s", s, text)
				}
			}
			for _, s := range c.isNot {
				if re.MatchString(s) {
					t.Errorf("%q is matched by %s", s, text)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "there is no rule called start",
		`start: "a`:                         "line 1: \" is not closed",
		`start: other`:                      `line 1: there is no rule or terminal called "other"`,
		"start: \"a\"\nstart: \"b\"":        `line 2: "start" is defined twice`,
		"start: A\nA: \"x\" A":              "", // a repetition without an end
		"start: A\nA: \"x\" A \"y\" | \"\"": `the terminal "A" refers to itself`,
		`start: (A`:                         "a bracket is not closed",
		`start: _sep{A, B}`:                 `the template "_sep" is not supported`,
		`%declare A`:                        "%declare is not supported",
		`%import python.NAME`:               `%import from "python" is not supported`,
		`%import common.NOPE`:               `there is no terminal "NOPE" in common`,
		`start: /(?=a)b/`:                   "invalid or unsupported Perl syntax",
		`start: /a$/`:                       "an anchor in an expression is not supported",
		`start: "a" "x".."ab"`:              "is not one of two characters in order",
		`start: "a"~5..2`:                   "a repetition of 5 to 2",
		`start: start`:                      "no text matches it",
		`start: $`:                          `"$" is not a part of a grammar`,
		"start: " + strings.Repeat(`"abcdefgh" `, 1000): "more than 3072 bytes",
	} {
		if _, err := Regexp(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func FuzzRegexp(f *testing.F) {
	f.Add(patch)
	f.Add("start: (\"a\" | start)* [x]\nx: /b/i ~ 1..3\n%ignore \" \"")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := Regexp(text); err == nil {
			if _, err := regexp.Compile(got); err != nil && !strings.Contains(err.Error(), "too large") &&
				!strings.Contains(err.Error(), "repeat") {
				t.Errorf("%q became %q: %v", text, got, err)
			}
		}
	})
}
