package safety

import "strings"

// forms appends what rules find in text: secrets and personal data that has a
// form. Findings do not overlap: what begins first wins, of those the longest.
func forms(to []Finding, text string) []Finding {
	begin := len(to)
	for i := 0; i < len(text); {
		b := text[i]
		if signs[b]&formStart == 0 || signs[b]&formInside == 0 && i > 0 && isWordByte(text[i-1]) {
			i++
			continue
		}
		f, ok := formAt(text, i)
		if !ok {
			i++
			continue
		}
		to = append(to, f)
		i = max(f.End, i+1)
	}
	return withoutOverlaps(to, begin)
}

// What a byte may be the sign of.
const (
	// formStart bytes are where something with a form may be recognized,
	// formInside ones even after a letter.
	formStart = 1 << iota
	formInside
	// titleStart, webStart and assignedStart bytes begin a title, an address of
	// the web, and the name of a secret.
	titleStart
	webStart
	assignedStart
)

// signs says for every byte what it may begin. Most are looked at
// once and no further.
var signs = func() (t [256]uint8) {
	mark := func(bytes string, flag uint8) {
		for _, b := range []byte(bytes) {
			t[b] |= flag
		}
	}
	mark("@0123456789+(-\":abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", formStart)
	mark("@-", formInside)
	mark("mMdDpP", titleStart)
	mark("hHwWfF", webStart)
	for _, name := range assigned {
		mark(name[:1]+strings.ToUpper(name[:1]), assignedStart)
	}
	return t
}()

// formAt returns what has its sign at byte i.
func formAt(text string, i int) (Finding, bool) {
	b := text[i]
	if b == '@' {
		return emailAt(text, i)
	}
	if isDigit(b) || b == '+' || b == '(' {
		return numberAt(text, i)
	}
	if f, ok := secretAt(text, i); ok {
		return f, ok
	}
	if f, ok := ibanAt(text, i); ok {
		return f, ok
	}
	if signs[b]&webStart != 0 {
		if f, ok := webAt(text, i); ok {
			return f, ok
		}
	}
	if isHex(b) || b == ':' {
		if f, ok := ip6At(text, i); ok {
			return f, ok
		}
	}
	if signs[b]&titleStart != 0 {
		if f, ok := titleAt(text, i); ok {
			return f, ok
		}
	}
	if b|0x20 == 'b' {
		return walletAt(text, i)
	}
	return Finding{}, false
}

// titleAt finds a title before a name.
func titleAt(text string, i int) (Finding, bool) {
	n := prefixFold(text[i:], "mr.", "mrs.", "ms.", "dr.", "prof.", "miss ", "mr ", "mrs ", "dr ")
	if n == 0 {
		return Finding{}, false
	}
	if text[i+n-1] == ' ' {
		if n--; i+n+1 >= len(text) || text[i+n+1] < 'A' || text[i+n+1] > 'Z' {
			return Finding{}, false
		}
	}
	return pii(KindPrefix, i, i+n)
}

func emailAt(text string, at int) (Finding, bool) {
	local := func(b byte) bool {
		return isAlpha(b) || isDigit(b) || b == '.' || b == '_' || b == '%' || b == '+' || b == '-'
	}
	start := at
	for start > 0 && at-start < 64 && local(text[start-1]) {
		start--
	}
	host := func(b byte) bool { return isAlpha(b) || isDigit(b) || b == '.' || b == '-' }
	end := run(text, at+1, host)
	for end > at && (text[end-1] == '.' || text[end-1] == '-') {
		end--
	}
	dot := -1
	for i := at + 1; i < end; i++ {
		if text[i] == '.' {
			dot = i
		}
	}
	if start == at || dot < at+2 || end-dot < 3 || !isAlpha(text[end-1]) {
		return Finding{}, false
	}
	return pii(KindEmail, start, end)
}

// ibanLengths are the lengths of account numbers by country, where known.
var ibanLengths = map[[2]byte]int{
	{'A', 'D'}: 24, {'A', 'E'}: 23, {'A', 'T'}: 20, {'B', 'E'}: 16, {'B', 'G'}: 22, {'C', 'H'}: 21, {'C', 'Y'}: 28,
	{'C', 'Z'}: 24, {'D', 'E'}: 22, {'D', 'K'}: 18, {'E', 'E'}: 20, {'E', 'S'}: 24, {'F', 'I'}: 18, {'F', 'R'}: 27,
	{'G', 'B'}: 22,
	{'G', 'R'}: 27, {'H', 'R'}: 21, {'H', 'U'}: 28, {'I', 'E'}: 22, {'I', 'S'}: 26, {'I', 'T'}: 27, {'L', 'I'}: 21,
	{'L', 'T'}: 20, {'L', 'U'}: 20, {'L', 'V'}: 21, {'M', 'C'}: 27, {'M', 'T'}: 31, {'N', 'L'}: 18, {'N', 'O'}: 15,
	{'P', 'L'}: 28,
	{'P', 'T'}: 25, {'R', 'O'}: 24, {'S', 'A'}: 24, {'S', 'E'}: 24, {'S', 'I'}: 19, {'S', 'K'}: 24, {'T', 'R'}: 26,
	{'U', 'A'}: 29,
}

func ibanAt(text string, i int) (Finding, bool) {
	if i+15 > len(text) || !isAlpha(text[i+1]) || !isDigit(text[i+2]) || !isDigit(text[i+3]) {
		return Finding{}, false
	}
	want, ok := ibanLengths[[2]byte{text[i] &^ 0x20, text[i+1] &^ 0x20}]
	if !ok {
		return Finding{}, false
	}
	var plain [34]byte
	n, end := 0, i
	for ; end < len(text) && n < want; end++ {
		switch b := text[end]; {
		case isAlpha(b):
			plain[n] = b &^ 0x20
			n++
		case isDigit(b):
			plain[n] = b
			n++
		case b != ' ' && b != '-':
			return Finding{}, false
		}
	}
	if n != want || end < len(text) && isWordByte(text[end]) || !mod97(plain[:n]) {
		return Finding{}, false
	}
	return pii(KindIBAN, i, end)
}

// mod97 checks the number of an account: rotated by four and with letters as
// numbers from 10 on it leaves 1 when divided by 97.
func mod97(account []byte) bool {
	rest := 0
	for k := range account {
		b := account[(k+4)%len(account)]
		if isDigit(b) {
			rest = (rest*10 + int(b-'0')) % 97
		} else {
			rest = (rest*100 + int(b-'A') + 10) % 97
		}
	}
	return rest == 1
}

func webAt(text string, i int) (Finding, bool) {
	n := prefixFold(text[i:], "http://", "https://", "www.", "ftp://")
	if n == 0 {
		return Finding{}, false
	}
	end := run(text, i, func(b byte) bool {
		return b > ' ' && b != '"' && b != '<' && b != '>' && b != ')' && b != '\'' && b != '`' && b != ']'
	})
	for end > i && (text[end-1] == '.' || text[end-1] == ',' || text[end-1] == '!' || text[end-1] == '?' ||
		text[end-1] == ':' || text[end-1] == ';') {
		end--
	}
	if end-i < n+4 {
		return Finding{}, false
	}
	return pii(KindURL, i, end)
}

func walletAt(text string, i int) (Finding, bool) {
	end := run(text, i, func(b byte) bool { return isAlpha(b) || isDigit(b) })
	n := end - i
	if n >= 39 && n <= 62 && prefixFold(text[i:], "bc1q", "bc1p") > 0 {
		return pii(KindWallet, i, end)
	}
	return Finding{}, false
}
