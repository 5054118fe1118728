package token

import "unicode/utf8"

// Byte-level vocabularies write each of the 256 bytes as one printable character: printable Latin-1 stands for
// itself, the other 68 bytes are U+0100 and up in order.
var byteToChar, charToByte = byteLevelAlphabet()

const byteLevelChars = 0x144

func byteLevelAlphabet() (chars [256]rune, bytes [byteLevelChars]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		c := rune(b)
		printable := '!' <= c && c <= '~' || 0xA1 <= c && c <= 0xAC || 0xAE <= c
		if !printable {
			c = next
			next++
		}
		chars[b] = c
		bytes[c] = int16(b)
	}
	return chars, bytes
}

// appendByteLevel appends the byte-level spelling of text.
func appendByteLevel(dst []byte, text string) []byte {
	for i := range len(text) {
		dst = utf8.AppendRune(dst, byteToChar[text[i]])
	}
	return dst
}

// appendFromByteLevel appends the bytes that text spells, or reports that text has a character outside the byte-level
// alphabet.
func appendFromByteLevel(dst []byte, text string) ([]byte, bool) {
	start := len(dst)
	for _, c := range text {
		if c >= byteLevelChars || charToByte[c] < 0 {
			return dst[:start], false
		}
		dst = append(dst, byte(charToByte[c]))
	}
	return dst, true
}
