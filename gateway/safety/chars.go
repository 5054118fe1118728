package safety

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isAlpha(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isHex(b byte) bool { return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }

func isWordByte(b byte) bool { return isAlpha(b) || isDigit(b) || b == '_' || b >= 0x80 }

// run returns the end of the bytes from i on that ok accepts.
func run(text string, i int, ok func(byte) bool) int {
	for i < len(text) && ok(text[i]) {
		i++
	}
	return i
}

// prefixFold returns the length of the first prefix that text begins with, in
// whatever case, or 0.
func prefixFold(text string, prefixes ...string) int {
next:
	for _, p := range prefixes {
		if len(text) < len(p) {
			continue
		}
		for k := range len(p) {
			b := text[k]
			if b >= 'A' && b <= 'Z' {
				b |= 0x20
			}
			if b != p[k] {
				continue next
			}
		}
		return len(p)
	}
	return 0
}
