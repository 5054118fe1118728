package term

import (
	"slices"
	"strings"
	"testing"
)

// press types keys as a terminal sends them, and returns the last outcome.
func press(e *Editor, keys string) (last EditorAction) {
	var k Keys
	for _, key := range k.Decode([]byte(keys)) {
		last = e.Press(key)
	}
	return last
}

// drawn is the text with a bar where the cursor is.
func drawn(e *Editor) string { return string(e.text[:e.at]) + "|" + string(e.text[e.at:]) }

func TestEditing(t *testing.T) {
	for keys, want := range map[string]string{
		"hello":                               "hello|",
		"hello\x1b[D\x1b[Dx":                  "helx|lo",
		"hello\x01X\x05Y":                     "XhelloY|",
		"one two\x17three":                    "one three|",
		"one two\x17\x19\x19":                 "one twotwo|",
		"one two\x1bb\x1bb\x1bd":              "| two",
		"one two\x01\x1bf\x0b":                "one|",
		"one\x15two\x19":                      "twoone|",
		"ab\x14":                              "ba|",
		"a\x14":                               "a|",
		"abc\x1b[D\x14":                       "acb|",
		"one\ntwo":                            "one\ntwo|",
		"one\x1b\rtwo":                        "one\ntwo|",
		"one\\\rtwo":                          "one\ntwo|",
		"long\nab\x1b[A":                      "lo|ng\nab",
		"ab\nlonger\x1b[A\x1b[B":              "ab\nlo|nger",
		"one\ntwo\x01\x7f":                    "one|two",
		"one\ntwo\x1b[A\x05\x0b":              "one|two",
		"one\ntwo\x15":                        "one\n|",
		"ab\x01\x04":                          "|b",
		"ab\x01\x1b[3~":                       "|b",
		"e\u0301x\x1b[D\x7f":                  "|x",
		"👩\u200d💻x\x1b[D\x1b[D":               "|👩\u200d💻x",
		"世界\x02\x08":                          "|界",
		"\"\"\"one\rtwo":                      "\"\"\"one\ntwo|",
		"\x1b[200~a\rb\x1b[201~c":             "a\nbc|",
		"x\x1b[200~a\rb\x1b[201~\x1b[D\x1b[D": "xa|\nb",
	} {
		e := NewEditor(nil)
		press(e, keys)
		if got := drawn(e); got != want {
			t.Errorf("%q gave %q, want %q", keys, got, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for keys, want := range map[string]EditorAction{
		"x\r": Submitted, "\r": Submitted, "x\\\r": Edited, `"""x` + "\r": Edited, `"""x"""` + "\r": Submitted,
		"x\x03": Interrupted, "\x04": Ended, "x\x04": Edited, "\x0c": Cleared, "\x1a": Suspended, "\x07": Elsewhere,
		"\x1b[200~x\r\x1b[201~": Edited, "x\n": Edited,
	} {
		if got := press(NewEditor(nil), keys); got != want {
			t.Errorf("%q gave %v, want %v", keys, got, want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", `"""a"""`: "a", "\"\"\"\na\nb\n\"\"\"": "a\nb", `"""`: `"""`, `""""""`: "", ` """x""" `: "x",
		`say """x"""`: `say """x"""`,
	} {
		if got := Unquote(text); got != want {
			t.Errorf("%q gave %q, want %q", text, got, want)
		}
	}
}

func TestBrowsingHistory(t *testing.T) {
	h := &History{}
	for _, entry := range []string{"first", "two\nlines", "third", "third", " secret", ""} {
		if err := h.Add(entry); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(h.entries, []string{"first", "two\nlines", "third"}) {
		t.Fatalf("the history is %q", h.entries)
	}
	const up, down = "\x1b[A", "\x1b[B"
	for keys, want := range map[string]string{
		up:                         "third|",
		up + up:                    "two\nlines|",
		up + up + up:               "two|\nlines", // within the text first
		up + up + up + up:          "first|",
		up + up + up + up + up:     "first|",
		"\x10\x10\x10":             "first|",
		"draft" + up + down:        "draft|",
		"draft" + up + down + down: "draft|",
		up + "!" + down:            "|",
		"\x12two":                  "two\nlines|",
		"\x12ir\x12":               "first|",
		"\x12ir\x05!":              "third!|",
		"d\x12first\x03":           "d|",
		"\x12zzz":                  "|",
	} {
		e := NewEditor(h)
		press(e, keys)
		if got := drawn(e); got != want {
			t.Errorf("%q gave %q, want %q", keys, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	e := NewEditor(nil)
	e.Complete = func(before string) (out []string) {
		for _, o := range []string{"/model ", "/mode ", "/clear ", "/süd", "/süß"} {
			if strings.HasPrefix(o, before) {
				out = append(out, o)
			}
		}
		return out
	}
	for keys, want := range map[string]string{"/c\t": "/clear |", "/m\t": "/mode|", "/x\t": "/x|", "/s\t": "/sü|"} {
		e.Set("")
		press(e, keys)
		if got := drawn(e); got != want {
			t.Errorf("%q gave %q, want %q", keys, got, want)
		}
	}
}
