package term

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A Kind says what a key does.
type Kind int

// What keys do. Several keys may do the same.
const (
	// Insert puts Key.Text at the cursor: a character or a paste.
	Insert Kind = iota
	// Enter ends the input, unless it is not complete yet; Newline never ends it.
	Enter
	Newline
	// Complete asks for the rest of a word.
	Complete
	// These move the cursor.
	Left
	Right
	Up
	Down
	Home
	End
	WordLeft
	WordRight
	// These move through the history only.
	Previous
	Next
	// These delete; what the Kill keys and the word keys delete can be put back
	// with Yank.
	Backspace
	Delete
	KillWordLeft
	KillWordRight
	KillToStart
	KillToEnd
	Yank
	Transpose
	// Search looks through the history, Escape ends that.
	Search
	Escape
	// Interrupt is Ctrl-C, EndOfInput Ctrl-D.
	Interrupt
	EndOfInput
	// Redraw clears the screen, Suspend stops the program, OtherEditor edits in
	// the user's own editor.
	Redraw
	Suspend
	OtherEditor
)

// A Key is one key that was pressed, or one paste.
type Key struct {
	Kind Kind
	Text string // of Insert
}

// Limits of what is kept of input that never ends.
const (
	sequenceBytesMax = 32
	pasteBytesMax    = 8 << 20
)

// Keys turns the bytes that a terminal sends into keys. Its zero value is ready.
type Keys struct {
	pending []byte // the beginning of a key
	pasting bool
	pasted  []byte
}

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Decode returns the keys that are complete with b. A beginning waits for the
// next call.
func (k *Keys) Decode(b []byte) (keys []Key) {
	k.pending = append(k.pending, b...)
	for len(k.pending) > 0 {
		if k.pasting {
			if !k.paste(&keys) {
				return keys
			}
			continue
		}
		key, n, known := next(k.pending)
		if n == 0 {
			if len(k.pending) <= sequenceBytesMax {
				return keys
			}
			n, known = 1, false // no key is that long
		}
		k.pasting = string(k.pending[:n]) == pasteBegin
		k.pending = k.pending[n:]
		if known {
			keys = append(keys, key)
		}
	}
	return keys
}

// Waiting reports whether the beginning of a key waits for more. Where nothing
// follows soon, it was the escape key alone, and Flush says so.
func (k *Keys) Waiting() bool { return len(k.pending) > 0 && !k.pasting }

// Flush gives up waiting for the rest of a key.
func (k *Keys) Flush() []Key {
	lone := len(k.pending) == 1 && k.pending[0] == escape
	k.pending = nil
	if lone {
		return []Key{{Kind: Escape}}
	}
	return nil
}

// paste takes bytes of a paste, and reports whether its end has come.
func (k *Keys) paste(keys *[]Key) bool {
	text, rest, ended := bytes.Cut(k.pending, []byte(pasteEnd))
	if !ended {
		// The end may have begun.
		keep := min(len(k.pending), len(pasteEnd)-1)
		text, rest = k.pending[:len(k.pending)-keep], k.pending[len(k.pending)-keep:]
	}
	if room := pasteBytesMax - len(k.pasted); len(text) > room {
		text = text[:room]
	}
	k.pasted = append(k.pasted, text...)
	k.pending = bytes.Clone(rest)
	if ended {
		*keys = append(*keys, Key{Insert, plainText(string(k.pasted))})
		k.pasting, k.pasted = false, nil
	}
	return ended
}

// plainText is pasted text with line breaks of one kind and without control
// characters.
func plainText(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && isControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

const escape = 0x1b

// next returns the key at the start of b, how many bytes it has and whether it
// means anything; 0 bytes if it is not complete.
func next(b []byte) (key Key, n int, known bool) {
	switch c := b[0]; {
	case c == escape:
		return escaped(b)
	case c < 0x20 || c == 0x7f:
		kind, ok := controls[c]
		return Key{Kind: kind}, 1, ok
	case !utf8.FullRune(b):
		return Key{}, 0, false
	}
	r, n := utf8.DecodeRune(b)
	return Key{Insert, string(b[:n])}, n, (r != utf8.RuneError || n > 1) && !isControl(r)
}

// controls are the keys that are one byte. Enter sends a carriage return and
// Ctrl-J a line feed.
var controls = map[byte]Kind{
	'\r': Enter, '\n': Newline, '\t': Complete, 0x7f: Backspace, ctrl('h'): Backspace,
	ctrl('a'): Home, ctrl('b'): Left, ctrl('c'): Interrupt, ctrl('d'): EndOfInput, ctrl('e'): End, ctrl('f'): Right,
	ctrl('g'): OtherEditor, ctrl('k'): KillToEnd, ctrl('l'): Redraw, ctrl('n'): Next, ctrl('p'): Previous,
	ctrl('r'): Search,
	ctrl('t'): Transpose, ctrl('u'): KillToStart, ctrl('w'): KillWordLeft, ctrl('y'): Yank, ctrl('z'): Suspend,
}

func ctrl(letter byte) byte { return letter & 0x1f }

// alts are keys pressed together with Alt, which sends an escape first.
var alts = map[byte]Kind{
	'\r': Newline, '\n': Newline, 'b': WordLeft, 'f': WordRight, 'd': KillWordRight, 0x7f: KillWordLeft,
	ctrl('h'): KillWordLeft,
}

// sequences are what follows the escape of the other keys, as the usual
// terminals send it.
var sequences = map[string]Kind{
	"[A": Up, "[B": Down, "[C": Right, "[D": Left, "[H": Home, "[F": End,
	"OA": Up, "OB": Down, "OC": Right, "OD": Left, "OH": Home, "OF": End,
	"[1~": Home, "[7~": Home, "[4~": End, "[8~": End, "[3~": Delete,
	"[1;5C": WordRight, "[1;5D": WordLeft, "[1;3C": WordRight, "[1;3D": WordLeft, "[3;5~": KillWordRight,
	"[3;3~":  KillWordRight,
	"[13;2u": Newline, "[27;2;13~": Newline, // Shift-Enter, where the terminal distinguishes it from Enter
}

// escaped returns the key of a sequence that begins with an escape.
func escaped(b []byte) (Key, int, bool) {
	n := sequenceLen(b)
	switch n {
	case 0:
		return Key{}, 0, false
	case 1:
		return Key{Kind: Escape}, 1, true
	}
	if kind, ok := sequences[string(b[1:n])]; ok {
		return Key{Kind: kind}, n, true
	}
	if kind, ok := alts[b[1]]; ok && n == 2 {
		return Key{Kind: kind}, n, true
	}
	return Key{}, n, false
}

// sequenceLen returns how long the sequence at the start of b is; 0 if its end
// has not come yet.
func sequenceLen(b []byte) int {
	switch {
	case len(b) < 2:
		return 0
	case b[1] == escape:
		return 1
	case b[1] == 'O':
		return min(len(b), 3) / 3 * 3
	case b[1] != '[':
		return 2
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			return i + 1
		}
	}
	return 0
}
