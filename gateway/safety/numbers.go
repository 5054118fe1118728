package safety

import "slices"

// A number is a run of digits in groups, as people write numbers of cards,
// phones and days.
type number struct {
	start, end int
	digits     [24]byte
	n          int
	// groups are the lengths of the runs of digits, separators what stood
	// between them, one for each gap.
	groups     [12]int
	g          int
	separators [12]byte
	plus       bool
	brackets   bool
	extension  bool
}

// numberAt reads the number at i and says what it is.
func numberAt(text string, i int) (Finding, bool) {
	if end := hexWallet(text, i); end > 0 {
		return pii(KindWallet, i, end)
	}
	if f, ok := ip6At(text, i); ok {
		return f, ok
	}
	if i >= 2 && text[i-1] == '.' && isDigit(text[i-2]) {
		return Finding{}, false // the end of a longer number
	}
	var w number
	if !w.read(text, i) {
		return Finding{}, false
	}
	if w.end < len(text) && isWordByte(text[w.end]) {
		return Finding{}, false
	}
	switch {
	case w.isIP():
		return pii(KindIP, w.start, w.end)
	case w.isDate():
		end := clockAfter(text, w.end)
		return pii(KindDate, w.start, end)
	case w.isCard():
		return pii(KindCard, w.start, w.end)
	case w.isSSN():
		return pii(KindSSN, w.start, w.end)
	case w.isPhone():
		return pii(KindPhone, w.start, w.end)
	}
	return Finding{}, false
}

func hexWallet(text string, i int) int {
	if i+42 > len(text) || text[i] != '0' || text[i+1] != 'x' {
		return 0
	}
	if end := run(text, i+2, isHex); end == i+42 {
		return end
	}
	return 0
}

// read takes digits with single separators between them.
func (w *number) read(text string, i int) bool {
	w.start = i
	if text[i] == '+' {
		w.plus = true
		i++
	}
	for i < len(text) {
		if text[i] == '(' && !w.brackets && w.g < 2 {
			w.brackets = true
			i++
			continue
		}
		from := i
		for i < len(text) && isDigit(text[i]) {
			if w.n == len(w.digits) {
				return false
			}
			w.digits[w.n] = text[i]
			w.n++
			i++
		}
		if i == from || w.g == len(w.groups) {
			break
		}
		w.groups[w.g] = i - from
		w.g++
		w.end = i
		next := w.separator(text, i)
		if next == 0 || w.g == len(w.separators) {
			break
		}
		w.separators[w.g-1] = text[i]
		i = next
	}
	return w.n > 0
}

// separator returns where the next group begins after what stands at i, or 0.
func (w *number) separator(text string, i int) int {
	if i >= len(text) {
		return 0
	}
	switch text[i] {
	case ')':
		if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '-') {
			i++
		}
	case 'x':
		w.extension = w.n >= 7
		if !w.extension {
			return 0
		}
	case ' ', '-', '.', '/':
	default:
		return 0
	}
	if i+1 < len(text) && (isDigit(text[i+1]) || text[i+1] == '(' && !w.brackets) {
		return i + 1
	}
	return 0
}

// same reports whether the first k separators are all b.
func (w *number) same(b byte, k int) bool {
	for _, s := range w.separators[:k] {
		if s != b {
			return false
		}
	}
	return true
}

func (w *number) value(g int) int {
	at := 0
	for k := range g {
		at += w.groups[k]
	}
	v := 0
	for _, d := range w.digits[at : at+w.groups[g]] {
		v = v*10 + int(d-'0')
	}
	return v
}

func (w *number) isIP() bool {
	if w.g != 4 || !w.same('.', 3) || w.plus || w.brackets {
		return false
	}
	for k := range 4 {
		if w.groups[k] > 3 || w.value(k) > 255 {
			return false
		}
	}
	return true
}

// isDate accepts days with a year of four digits at either end. What follows,
// as in a time, is cut off.
func (w *number) isDate() bool {
	if w.g < 3 || w.plus || w.brackets {
		return false
	}
	s := w.separators[0]
	if s != w.separators[1] || s != '-' && s != '/' && s != '.' {
		return false
	}
	isDay := func(a, b int) bool {
		return w.groups[a] <= 2 && w.groups[b] <= 2 && min(w.value(a), w.value(b)) <= 12 && max(w.value(a),
			w.value(b)) <= 31 && w.value(a) > 0 && w.value(b) > 0
	}
	ok := w.groups[0] == 4 && isDay(1, 2) || w.groups[2] == 4 && isDay(0, 1)
	if ok && w.g > 3 {
		w.end = w.start + w.groups[0] + w.groups[1] + w.groups[2] + 2
	}
	return ok
}

// clockAfter returns the end of a time that follows a day, or i.
func clockAfter(text string, i int) int {
	end := i
	if end < len(text) && (text[end] == ' ' || text[end] == 'T') {
		end++
	}
	from := end
	for parts := range 3 {
		if end+2 > len(text) || !isDigit(text[end]) || !isDigit(text[end+1]) {
			return i
		}
		end += 2
		if end >= len(text) || text[end] != ':' {
			break
		}
		if parts < 2 {
			end++
		}
	}
	if end-from < 5 {
		return i
	}
	return end
}

// isCard accepts numbers as issuers give them, with a sum that fits.
func (w *number) isCard() bool {
	if w.n < 13 || w.n > 19 || w.plus || w.brackets || w.extension || w.digits[0] < '2' || w.digits[0] > '6' {
		return false
	}
	if w.g > 1 && (w.groups[0] != 4 || !w.same(w.separators[0], w.g-1) ||
		w.separators[0] != ' ' && w.separators[0] != '-') {
		return false
	}
	return luhn(w.digits[:w.n])
}

func (w *number) isSSN() bool {
	return w.g == 3 && w.groups[0] == 3 && w.groups[1] == 2 && w.groups[2] == 4 && (w.same('-', 2) || w.same(' ', 2)) &&
		!w.plus && !w.brackets && w.value(0) > 0 && w.value(1) > 0 && w.value(2) > 0
}

func (w *number) isPhone() bool {
	if w.extension {
		return true
	}
	switch {
	case w.n < 7 || w.n > 15:
		return false
	case w.plus || w.brackets:
		return true
	case w.g == 1:
		return false
	}
	if slices.Contains(w.separators[:w.g-1], '/') {
		return false
	}
	// Groups of one digit are lists and versions, not phones.
	short := 0
	for _, n := range w.groups[:w.g] {
		if n == 1 {
			short++
		}
		if n > 8 {
			return false
		}
	}
	return short <= 1 && w.groups[w.g-1] >= 2
}

func ip6At(text string, i int) (Finding, bool) {
	end := run(text, i, func(b byte) bool { return isHex(b) || b == ':' })
	colons, group := 0, 0
	for k := i; k < end; k++ {
		if text[k] == ':' {
			colons++
			group = 0
		} else if group++; group > 4 {
			return Finding{}, false
		}
	}
	double := false
	for k := i; k+1 < end; k++ {
		double = double || text[k] == ':' && text[k+1] == ':'
	}
	if colons != 7 && !(double && colons >= 3) || text[end-1] == ':' || end < len(text) && isWordByte(text[end]) {
		return Finding{}, false
	}
	return pii(KindIP, i, end)
}

// luhn checks the number of a card: of its digits every second one from the
// right is doubled, and all digits together are a multiple of ten.
func luhn(digits []byte) bool {
	total := 0
	for k := range digits {
		d := int(digits[len(digits)-1-k] - '0')
		if k%2 == 1 {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		total += d
	}
	return total%10 == 0
}
