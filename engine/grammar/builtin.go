package grammar

// A ruleID numbers a rule of a program.
type ruleID int32

// The rules that every program begins with, under the same numbers, so that
// what is known of their nodes is known for all programs.
const (
	ruleChar    ruleID = iota // one character between the quotes of a string
	ruleString                // any string
	ruleNumber                // any number
	ruleInteger               // any integer
	ruleValue                 // any value
	ruleObject                // any object
	ruleArray                 // any array
	builtinRules
)

// builtins are the machines of the built-in rules, the same for all programs.
var builtins = writeBuiltins()

func writeBuiltins() (rules [builtinRules]rule) {
	m := &meter{}
	write := func(id ruleID, how func(s *sketch) int32) {
		s := newSketch(m)
		rules[id].machine = s.machine(how(s))
	}
	write(ruleChar, func(s *sketch) int32 { return s.char(0) })
	write(ruleString, func(s *sketch) int32 { return s.text(0) })
	write(ruleNumber, (*sketch).number)
	write(ruleInteger, func(s *sketch) int32 { return s.integer(0, "-") })
	write(ruleValue, (*sketch).anyValue)
	write(ruleObject, func(s *sketch) int32 {
		member := func(from int32) int32 { return s.call(s.colon(s.call(from, ruleString)), ruleValue) }
		return s.list(0, '{', '}', member)
	})
	write(ruleArray, func(s *sketch) int32 {
		return s.list(0, '[', ']', func(from int32) int32 { return s.call(from, ruleValue) })
	})
	return rules
}

// char takes one character of a string, in any spelling. A surrogate is one
// half of a character, so it comes in pairs.
func (s *sketch) char(from int32) int32 {
	end := s.node()
	for _, part := range [][2]rune{{' ', '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, everyRune[1]}} {
		s.raw(from, end, part[0], part[1])
	}
	escape := s.span(from, '\\', '\\')
	for _, c := range []byte(`"\/bfnrt`) {
		s.link(s.span(escape, c, c), end)
	}
	unit := s.span(escape, 'u', 'u')
	s.link(s.hex(s.hex(s.hex(s.hex(unit, hexNotD), hexAny), hexAny), hexAny), end)
	d := s.hex(unit, "ddDD")
	s.link(s.hex(s.hex(s.hex(d, "07"), hexAny), hexAny), end)
	low := s.literal(s.hex(s.hex(s.hex(d, "89abAB"), hexAny), hexAny), `\u`)
	s.link(s.hex(s.hex(s.hex(s.hex(low, "ddDD"), "cfCF"), hexAny), hexAny), end)
	return end
}

// The ranges of hexadecimal digits, and those without d, with which all
// surrogates begin.
const (
	hexAny  = "09afAF"
	hexNotD = "09acACefEF"
)

// hex takes one byte of the ranges.
func (s *sketch) hex(from int32, ranges string) int32 {
	to := s.node()
	for i := 0; i+1 < len(ranges); i += 2 {
		s.add(from, arc{kind: takesByte, lo: ranges[i], hi: ranges[i+1], to: to})
	}
	return to
}

// text takes any string, with its quotes.
func (s *sketch) text(from int32) int32 {
	inside := s.star(s.literal(from, `"`), s.char)
	return s.literal(inside, `"`)
}

func (s *sketch) digits(from int32, least, most int) int32 {
	return s.times(from, least, most, func(from int32) int32 { return s.span(from, '0', '9') })
}

// integer takes an integer without needless zeros, after an optional sign.
func (s *sketch) integer(from int32, sign string) int32 {
	positive := func(from int32) int32 { return s.digits(s.span(from, '1', '9'), 0, wholeDigitsMax-1) }
	return s.either(from,
		func(from int32) int32 { return s.literal(from, "0") },
		positive,
		func(from int32) int32 { return positive(s.literal(from, sign)) })
}

// number takes any number.
func (s *sketch) number() int32 {
	signed := s.maybe(0, func(from int32) int32 { return s.literal(from, "-") })
	whole := s.either(signed,
		func(from int32) int32 { return s.literal(from, "0") },
		func(from int32) int32 { return s.digits(s.span(from, '1', '9'), 0, wholeDigitsMax-1) })
	fraction := s.maybe(whole, func(from int32) int32 {
		return s.digits(s.literal(from, "."), 1, fractionDigitsMax)
	})
	return s.maybe(fraction, func(from int32) int32 {
		from = s.maybe(s.hex(from, "eeEE"), func(from int32) int32 { return s.hex(from, "++--") })
		return s.digits(from, 1, 2)
	})
}

func (s *sketch) anyValue() int32 {
	end := s.literals(0, []string{"true", "false", "null"})
	for _, rule := range []ruleID{ruleString, ruleNumber, ruleObject, ruleArray} {
		s.link(s.call(0, rule), end)
	}
	return end
}

// space takes a space or nothing.
func (s *sketch) space(from int32) int32 {
	return s.maybe(from, func(from int32) int32 { return s.literal(from, " ") })
}

// comma takes a comma and at most a space.
func (s *sketch) comma(from int32) int32 { return s.space(s.literal(from, ",")) }

// colon takes a colon and at most a space.
func (s *sketch) colon(from int32) int32 { return s.space(s.literal(from, ":")) }

// list takes any number of members between brackets.
func (s *sketch) list(from int32, open, shut byte, member func(from int32) int32) int32 {
	first := s.span(from, open, open)
	start := s.node()
	s.link(first, start)
	last := member(start)
	s.link(s.comma(last), start)
	end := s.node()
	s.link(first, end)
	s.link(last, end)
	return s.span(end, shut, shut)
}
