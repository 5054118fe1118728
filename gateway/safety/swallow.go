package safety

import "strings"

// A swallow is the rest of a finding that grew longer than a stream may hold
// back: its placeholder was shown, and what still comes of it is left out.
type swallow struct {
	kind string
	// tail is the end of what was left out, in which the mark that ends a key
	// may begin.
	tail string
}

func newSwallow(kind, text string) *swallow {
	return &swallow{kind: kind, tail: text[max(0, len(text)-len(keyEnd)+1):]}
}

// rest returns what of piece is behind the finding, and whether that has ended.
func (w *swallow) rest(piece string) (rest string, ended bool) {
	if w.kind != kindPrivateKey {
		if i := strings.IndexAny(piece, " \t\r\n"); i >= 0 {
			return piece[i:], true
		}
		return "", false
	}
	all := w.tail + piece
	if _, after, ok := strings.Cut(all, keyEnd); ok {
		return after, true
	}
	if i := strings.IndexFunc(piece, notOfKey); i >= 0 {
		return piece[i:], true
	}
	w.tail = all[max(0, len(all)-len(keyEnd)+1):]
	return "", false
}

// notOfKey reports whether no key in PEM has a character.
func notOfKey(r rune) bool {
	return r > '~' || !isAlpha(byte(r)) && !isDigit(byte(r)) && !strings.ContainsRune("+/=-:, \t\r\n", r)
}
