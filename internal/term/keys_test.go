package term

import (
	"slices"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for bytes, want := range map[string][]Key{
		"aé世":        {{Insert, "a"}, {Insert, "é"}, {Insert, "世"}},
		"\r\n\t\x7f": {{Kind: Enter}, {Kind: Newline}, {Kind: Complete}, {Kind: Backspace}},
		"\x01\x05\x15\x0b\x17\x19": {{Kind: Home}, {Kind: End}, {Kind: KillToStart}, {Kind: KillToEnd},
			{Kind: KillWordLeft}, {Kind: Yank}},
		"\x03\x04":                       {{Kind: Interrupt}, {Kind: EndOfInput}},
		"\x1b[A\x1bOB\x1b[C\x1b[D":       {{Kind: Up}, {Kind: Down}, {Kind: Right}, {Kind: Left}},
		"\x1b[1;5C\x1bb\x1b\x7f\x1b\r":   {{Kind: WordRight}, {Kind: WordLeft}, {Kind: KillWordLeft}, {Kind: Newline}},
		"\x1b[13;2u\x1b[27;2;13~":        {{Kind: Newline}, {Kind: Newline}},
		"\x1b\x1b[A":                     {{Kind: Escape}, {Kind: Up}},
		"\x1b[200~a\rb\x03\tc\x1b[201~d": {{Insert, "a\nb\tc"}, {Insert, "d"}},
		"\x1b[200~\x1b[20\x1b[201~":      {{Insert, "[20"}},
		"\x1b[999X\x1b[5~x":              {{Insert, "x"}},
		"\xff\xfex":                      {{Insert, "x"}},
		"\x00\x1cx":                      {{Insert, "x"}},
		"\u0085x":                        {{Insert, "x"}},
	} {
		var whole, torn Keys
		if got := whole.Decode([]byte(bytes)); !slices.Equal(got, want) {
			t.Errorf("%q gave %v, want %v", bytes, got, want)
		}
		var got []Key
		for i := range len(bytes) {
			got = append(got, torn.Decode([]byte{bytes[i]})...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q byte by byte gave %v, want %v", bytes, got, want)
		}
	}
}

func TestLoneEscape(t *testing.T) {
	var k Keys
	if got := k.Decode([]byte("\x1b")); len(got) != 0 || !k.Waiting() {
		t.Fatalf("an escape gave %v at once", got)
	}
	if got := k.Flush(); !slices.Equal(got, []Key{{Kind: Escape}}) || k.Waiting() {
		t.Errorf("after a while it gave %v", got)
	}
	k.Decode([]byte("\x1b[1;"))
	if got := k.Flush(); len(got) != 0 {
		t.Errorf("half a sequence gave %v", got)
	}
}

func TestEndlessKeysAreBounded(t *testing.T) {
	var k Keys
	k.Decode([]byte("\x1b[" + strings.Repeat("1;", 1000)))
	if len(k.pending) > sequenceBytesMax {
		t.Errorf("%d bytes of a sequence were kept", len(k.pending))
	}
	k = Keys{}
	k.Decode([]byte(pasteBegin))
	for range 20 {
		k.Decode(make([]byte, 1<<20))
	}
	if len(k.pasted)+len(k.pending) > pasteBytesMax+len(pasteEnd) {
		t.Errorf("%d bytes of a paste were kept", len(k.pasted))
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x1b[A\x1b[200~x\ry\x1b[201~"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, torn Keys
		want := whole.Decode(b)
		cut = min(max(cut, 0), len(b))
		got := append(torn.Decode(b[:cut]), torn.Decode(b[cut:])...)
		if !slices.Equal(got, want) && len(b) <= sequenceBytesMax {
			t.Errorf("%q cut at %d gave %v, whole %v", b, cut, got, want)
		}
		e := NewEditor(nil)
		for _, k := range want {
			if strings.ContainsFunc(k.Text, func(r rune) bool { return r != '\n' && r != '\t' && isControl(r) }) {
				t.Errorf("%q gave the text %q", b, k.Text)
			}
			e.Press(k)
			if e.at < 0 || e.at > len(e.text) {
				t.Fatalf("after %v the cursor is at %d of %d", k, e.at, len(e.text))
			}
			layout("> ", "- ", e.text, e.at, 7)
		}
	})
}
