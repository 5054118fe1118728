package dialect

// An objectScan finds the end of a JSON object.
type objectScan struct {
	depth           int
	quoted, escaped bool
}

// ends takes the next byte and reports whether it closes the object.
func (s *objectScan) ends(b byte) bool {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted:
		s.escaped, s.quoted = b == '\\', b != '"'
	case b == '"':
		s.quoted = true
	case b == '{' || b == '[':
		s.depth++
	case b == '}' || b == ']':
		s.depth--
		return s.depth == 0
	}
	return false
}

// skips takes a byte of what follows a member, up to the brace that closes the object the member is in: whether it took
// it, and whether that is over.
func (s *objectScan) skips(b byte) (took, moved bool) {
	switch {
	case s.depth == 0 && b != ',':
		return isSpaceByte(b), !isSpaceByte(b)
	case s.depth == 0:
		s.depth = 1
		return true, false
	}
	if over := *s; over.ends(b) {
		return false, true
	}
	s.ends(b)
	return true, false
}

// A Match looks for one pattern in a stream of bytes. It is the algorithm of Knuth, Morris and Pratt: matched is how
// much of the pattern the stream now ends with, and no byte is looked at twice.
type Match struct {
	pattern string
	// shorter[i] is the length of the longest proper prefix of the pattern that its first i+1 bytes end with.
	shorter []int
	matched int
}

// NewMatch looks for a pattern from the first byte on.
func NewMatch(pattern string) Match {
	m := Match{pattern: pattern, shorter: make([]int, len(pattern))}
	for i, k := 1, 0; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = m.shorter[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		m.shorter[i] = k
	}
	return m
}

// Pattern returns what is looked for.
func (m *Match) Pattern() string { return m.pattern }

// Matched returns how many of the last bytes could begin the pattern.
func (m *Match) Matched() int { return m.matched }

// Advance takes the next byte and reports whether the pattern is complete. After that it begins anew.
func (m *Match) Advance(b byte) bool {
	for m.matched > 0 && m.pattern[m.matched] != b {
		m.matched = m.shorter[m.matched-1]
	}
	if m.pattern[m.matched] == b {
		m.matched++
	}
	if m.matched < len(m.pattern) {
		return false
	}
	m.matched = 0
	return true
}
