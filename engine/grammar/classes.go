package grammar

// classes are a set of kinds of characters, one bit for each.
type classes uint64

const (
	// classCharacter are the characters beyond ASCII, whole; classFragment is
	// any part of one that is not.
	classCharacter classes = 1 << 62
	classFragment  classes = 1 << 63
	asciiClasses           = classCharacter - 1
	asciiEnd               = 0x80
)

// classOf gives each ASCII character its class: punctuation stands alone,
// because grammars are about punctuation, and small letters, great ones and hex
// digits among them stand together.
var classOf = func() (of [asciiEnd]classes) {
	next := 6
	for b := range of {
		c := byte(b)
		switch {
		case c >= 'g' && c <= 'z':
			of[b] = 1 << 0
		case c >= 'G' && c <= 'Z':
			of[b] = 1 << 1
		case c >= 'a' && c <= 'f':
			of[b] = 1 << 2
		case c >= 'A' && c <= 'F':
			of[b] = 1 << 3
		case c >= '0' && c <= '9':
			of[b] = 1 << 4
		case c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7F:
			of[b] = 1 << 5
		default:
			of[b] = 1 << next
			next++
		}
	}
	return of
}()
