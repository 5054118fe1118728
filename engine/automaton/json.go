package automaton

// The rules that every program begins with, under the same numbers, so that
// what is known of their nodes is known for all programs.
const (
	RuleChar    RuleID = iota // one character between the quotes of a string
	RuleString                // any string
	RuleNumber                // any number
	RuleInteger               // any integer
	RuleValue                 // any value
	RuleObject                // any object
	RuleArray                 // any array
	BuiltinRules
)

// Char takes one character of a string, in any spelling. A surrogate is one
// half of a character, so it comes in pairs.
func (s *Sketch) Char(from int32) int32 {
	end := s.Node()
	for _, part := range [][2]rune{{' ', '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, EveryRune[1]}} {
		s.raw(from, end, part[0], part[1])
	}
	escape := s.span(from, '\\', '\\')
	for _, c := range []byte(`"\/bfnrt`) {
		s.Link(s.span(escape, c, c), end)
	}
	unit := s.span(escape, 'u', 'u')
	s.Link(s.hex(s.hex(s.hex(s.hex(unit, hexNotD), hexAny), hexAny), hexAny), end)
	d := s.hex(unit, "ddDD")
	s.Link(s.hex(s.hex(s.hex(d, "07"), hexAny), hexAny), end)
	low := s.Literal(s.hex(s.hex(s.hex(d, "89abAB"), hexAny), hexAny), `\u`)
	s.Link(s.hex(s.hex(s.hex(s.hex(low, "ddDD"), "cfCF"), hexAny), hexAny), end)
	return end
}

// The ranges of hexadecimal digits, and those without d, with which all
// surrogates begin.
const (
	hexAny  = "09afAF"
	hexNotD = "09acACefEF"
)

// hex takes one byte of the ranges.
func (s *Sketch) hex(from int32, ranges string) int32 {
	to := s.Node()
	for i := 0; i+1 < len(ranges); i += 2 {
		s.add(from, arc{kind: takesByte, lo: ranges[i], hi: ranges[i+1], to: to})
	}
	return to
}

// Text takes any string, with its quotes.
func (s *Sketch) Text(from int32) int32 {
	inside := s.Star(s.Literal(from, `"`), s.Char)
	return s.Literal(inside, `"`)
}

func (s *Sketch) digits(from int32, least, most int) int32 {
	return s.Times(from, least, most, func(from int32) int32 { return s.span(from, '0', '9') })
}

// Integer takes an integer without needless zeros, after an optional sign.
func (s *Sketch) Integer(from int32, sign string) int32 {
	positive := func(from int32) int32 { return s.digits(s.span(from, '1', '9'), 0, wholeDigitsMax-1) }
	return s.either(from,
		func(from int32) int32 { return s.Literal(from, "0") },
		positive,
		func(from int32) int32 { return positive(s.Literal(from, sign)) })
}

// Number takes any number.
func (s *Sketch) Number() int32 {
	signed := s.maybe(0, func(from int32) int32 { return s.Literal(from, "-") })
	whole := s.either(signed,
		func(from int32) int32 { return s.Literal(from, "0") },
		func(from int32) int32 { return s.digits(s.span(from, '1', '9'), 0, wholeDigitsMax-1) })
	fraction := s.maybe(whole, func(from int32) int32 {
		return s.digits(s.Literal(from, "."), 1, fractionDigitsMax)
	})
	return s.maybe(fraction, func(from int32) int32 {
		from = s.maybe(s.hex(from, "eeEE"), func(from int32) int32 { return s.hex(from, "++--") })
		return s.digits(from, 1, 2)
	})
}

// AnyValue takes any JSON value.
func (s *Sketch) AnyValue() int32 {
	end := s.Literals(0, []string{"true", "false", "null"})
	for _, rule := range []RuleID{RuleString, RuleNumber, RuleObject, RuleArray} {
		s.Link(s.Call(0, rule), end)
	}
	return end
}

// space takes a space or nothing.
func (s *Sketch) space(from int32) int32 {
	return s.maybe(from, func(from int32) int32 { return s.Literal(from, " ") })
}

// Comma takes a comma and at most a space.
func (s *Sketch) Comma(from int32) int32 { return s.space(s.Literal(from, ",")) }

// Colon takes a colon and at most a space.
func (s *Sketch) Colon(from int32) int32 { return s.space(s.Literal(from, ":")) }

// List takes any number of members between brackets.
func (s *Sketch) List(from int32, open, shut byte, member func(from int32) int32) int32 {
	first := s.span(from, open, open)
	start := s.Node()
	s.Link(first, start)
	last := member(start)
	s.Link(s.Comma(last), start)
	end := s.Node()
	s.Link(first, end)
	s.Link(last, end)
	return s.span(end, shut, shut)
}
