package automaton

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The digits a number may have, so that an int64 or a float64 holds it.
const (
	wholeDigitsMax    = 18
	fractionDigitsMax = 17
	exponentMax       = 400
	divisorMax        = 4096
)

// A Bound is one end of a range: a decimal number, and whether the range stops
// short of it. Nil means no bound.
type Bound struct {
	Negative bool
	// whole are the digits before the point, at least "0"; fraction those after
	// it, without zeros at the end.
	whole, Fraction string
	Exclusive       bool
}

// Decimal reads a JSON number exactly.
func Decimal(m *Meter, text string) *Bound {
	d := &Bound{}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa, d.Negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || max(shift, -shift) > exponentMax {
			m.Refuse("the number %s is out of range", text)
		}
	}
	point := len(whole) + shift
	digits := whole + fraction
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	d.whole = strings.TrimLeft(digits[:point], "0")
	d.Fraction = strings.TrimRight(digits[point:], "0")
	if d.whole == "" {
		d.whole = "0"
	}
	d.Negative = d.Negative && !d.Zero()
	return d
}

// Zero reports whether the bound is 0.
func (d *Bound) Zero() bool { return d.whole == "0" && d.Fraction == "" }

// rat is the bound's value.
func (d *Bound) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(d.whole + "." + d.Fraction + "0")
	if d.Negative {
		r.Neg(r)
	}
	return r
}

// A span of numbers: its ends, and whether they may have fractions.
type Numbers struct {
	Least, Most *Bound
	Integer     bool
	// fraction: the numbers must have one.
	Fraction                          bool
	Multiples, NotMultiples, Excluded []*Bound
}

// Free reports whether the span has all numbers.
func (n *Numbers) Free() bool {
	return n.Least == nil && n.Most == nil && !n.Fraction && n.Multiples == nil && n.NotMultiples == nil &&
		n.Excluded == nil
}

// Narrow keeps what another span has, too, by its ends.
func (n *Numbers) Narrow(other *Numbers) {
	if other.Least != nil {
		n.Least = Tighter(n.Least, other.Least, 1)
	}
	if other.Most != nil {
		n.Most = Tighter(n.Most, other.Most, -1)
	}
}

// Empty reports whether the span's ends leave nothing between them.
func (n *Numbers) Empty() bool {
	if n.Least == nil || n.Most == nil {
		return false
	}
	cmp := n.Least.rat().Cmp(n.Most.rat())
	return cmp > 0 || cmp == 0 && (n.Least.Exclusive || n.Most.Exclusive)
}

// Key names the span.
func (n *Numbers) Key() string {
	var key strings.Builder
	key.WriteString(fmt.Sprint("number ", n.Integer, n.Fraction))
	for _, list := range [][]*Bound{{n.Least, n.Most}, n.Multiples, n.NotMultiples, n.Excluded} {
		key.WriteString("/")
		for _, b := range list {
			if key.WriteString("|"); b != nil {
				key.WriteString(fmt.Sprint(b.Negative, b.whole, ".", b.Fraction, b.Exclusive))
			}
		}
	}
	return key.String()
}

// Contains reports whether the span has the number.
func (n *Numbers) Contains(m *Meter, text string) bool {
	d := Decimal(m, text)
	v := d.rat()
	if n.Integer && d.Fraction != "" {
		return false
	}
	if n.Least != nil {
		if c := v.Cmp(n.Least.rat()); c < 0 || c == 0 && n.Least.Exclusive {
			return false
		}
	}
	if n.Most != nil {
		if c := v.Cmp(n.Most.rat()); c > 0 || c == 0 && n.Most.Exclusive {
			return false
		}
	}
	divides := func(by *Bound) bool { return new(big.Rat).Quo(v, by.rat()).IsInt() }
	return !slices.ContainsFunc(n.Multiples, func(by *Bound) bool { return !divides(by) }) &&
		!slices.ContainsFunc(n.NotMultiples, divides) && (!n.Fraction || d.Fraction != "")
}

// Machine returns the machine of the span's numbers.
func (n *Numbers) Machine(m *Meter) *Machine {
	s := NewSketch(m)
	end := s.Node()
	n.positive(s, end)
	n.negative(s, end)
	out := s.Machine(end)
	for _, by := range n.Multiples {
		out = Intersect(m, out, multiples(m, by))
	}
	for _, by := range n.NotMultiples {
		out = Subtract(m, out, multiples(m, by))
	}
	if n.Fraction {
		out = Intersect(m, out, Whole(m, `-?\d+\.\d*[1-9]\d*`, PlainText))
	}
	for _, v := range n.Excluded {
		out = Subtract(m, out, v.spellings(m))
	}
	return out
}

// spellings returns the machine of the ways to write a number without an exponent.
func (d *Bound) spellings(m *Meter) *Machine {
	s := NewSketch(m)
	at := int32(0)
	if d.Negative {
		at = s.Literal(at, "-")
	}
	at = s.Literal(at, d.whole)
	zeros := func(from int32) int32 { return s.Star(from, func(from int32) int32 { return s.Literal(from, "0") }) }
	if d.Fraction != "" {
		return s.Machine(zeros(s.Literal(at, "."+d.Fraction)))
	}
	return s.Machine(s.maybe(at, func(from int32) int32 { return zeros(s.Literal(from, ".")) }))
}

// positive writes down the numbers of the span from 0 up.
func (n *Numbers) positive(s *Sketch, end int32) {
	g := magnitudes{
		sketch:  s,
		end:     end,
		integer: n.Integer,
		least:   &Bound{whole: "0"},
		most:    n.Most,
	}
	if n.Most != nil && n.Most.Negative {
		return
	}
	if n.Least != nil && !n.Least.Negative {
		g.least = n.Least
	}
	g.write(0)
}

// negative writes down those below 0, as a sign and a magnitude.
func (n *Numbers) negative(s *Sketch, end int32) {
	if n.Least != nil && !n.Least.Negative {
		return
	}
	g := magnitudes{
		sketch:  s,
		end:     end,
		integer: n.Integer,
		least:   &Bound{whole: "0", Exclusive: true},
		most:    n.Least,
	}
	if n.Most != nil && n.Most.Negative {
		g.least = n.Most
	}
	g.write(s.Literal(0, "-"))
}

// magnitudes writes down the decimal numbers between two bounds, of which
// only the digits count. It follows the digits from the left and remembers
// whether they are so far the same as those of the lower and the upper bound.
type magnitudes struct {
	sketch      *Sketch
	end         int32
	least, most *Bound
	integer     bool
	known       map[digits]int32
}

// digits is a place in a number: how many digits are left before the point,
// or how many stand behind it, and which bounds the number still equals.
type digits struct {
	behind          bool
	n               int
	atLeast, atMost bool
}

func (g *magnitudes) write(from int32) {
	g.known = map[digits]int32{}
	most := wholeDigitsMax
	if len(g.least.whole) > most { // numbers as great as the bound itself, and longer by one digit
		most = len(g.least.whole) + 1
	}
	for length := 1; length <= most; length++ {
		short, long := length < len(g.least.whole), g.most != nil && length > len(g.most.whole)
		if short || long {
			continue
		}
		at := digits{n: length, atLeast: length == len(g.least.whole),
			atMost: g.most != nil && length == len(g.most.whole)}
		first := byte('1')
		if length == 1 {
			first = '0'
		}
		g.arcs(from, at, first, g.digit(g.least.whole, length), g.digitOfMost(length))
	}
}

// digit returns the digit that has n digits from it to the point.
func (g *magnitudes) digit(whole string, n int) byte {
	if n > len(whole) {
		return '0'
	}
	return whole[len(whole)-n]
}

func (g *magnitudes) digitOfMost(n int) byte {
	if g.most == nil {
		return '9'
	}
	return g.digit(g.most.whole, n)
}

// arcs writes the next digit at a place: low and high are the bounds' digits there.
func (g *magnitudes) arcs(from int32, at digits, first, low, high byte) {
	for d := first; d <= '9'; d++ {
		if at.atLeast && d < low || at.atMost && d > high {
			continue
		}
		next := digits{behind: at.behind, n: at.n - 1, atLeast: at.atLeast && d == low, atMost: at.atMost && d == high}
		if at.behind {
			next.n = at.n + 1
		}
		g.sketch.add(from, arc{kind: takesByte, lo: d, hi: d, to: g.place(next)})
	}
}

// place returns the node of a place, written down on first use.
func (g *magnitudes) place(at digits) int32 {
	if !at.behind && at.n == 0 {
		at.behind = true
		at.n = -1 // before the point itself
	}
	if node, ok := g.known[at]; ok {
		return node
	}
	node := g.sketch.Node()
	g.known[at] = node
	switch {
	case !at.behind:
		g.arcs(node, at, '0', g.digit(g.least.whole, at.n), g.digitOfMost(at.n))
		return node
	case at.n < 0 && !g.integer:
		point := g.sketch.span(node, '.', '.')
		g.fraction(point, digits{behind: true, n: 0, atLeast: at.atLeast, atMost: at.atMost})
	case at.n > 0 && at.n < fractionDigitsMax:
		g.fraction(node, at)
	}
	if g.within(at) {
		g.sketch.Link(node, g.end)
	}
	return node
}

func (g *magnitudes) fraction(from int32, at digits) {
	low, high := byte('0'), byte('0')
	if at.n < len(g.least.Fraction) {
		low = g.least.Fraction[at.n]
	}
	if g.most != nil && at.n < len(g.most.Fraction) {
		high = g.most.Fraction[at.n]
	}
	g.arcs(from, at, '0', low, high)
}

// within reports whether the number may end at a place behind the point. A
// bound that has digits left is greater than the number that equals it so far.
func (g *magnitudes) within(at digits) bool {
	n := max(at.n, 0)
	above := !at.atLeast || n >= len(g.least.Fraction) && !g.least.Exclusive
	below := !at.atMost || n < len(g.most.Fraction) || !g.most.Exclusive
	return above && below
}

// multiples returns the machine of the decimal numbers that by divides. It
// follows the remainder of the number scaled to by's decimal places.
func multiples(m *Meter, by *Bound) *Machine {
	places := len(by.Fraction)
	divisor, err := strconv.Atoi(strings.TrimLeft(by.whole+by.Fraction, "0"))
	if err != nil || by.Negative || divisor > divisorMax || places > fractionDigitsMax {
		m.Refuse("multipleOf must be above 0 and have at most %d as its digits", divisorMax)
	}
	scale := make([]int, places+1) // scale[j] is 10^j modulo divisor
	scale[0] = 1 % divisor
	for j := range places {
		scale[j+1] = scale[j] * 10 % divisor
	}
	// Node 0 is the start, 1 stands after the sign. Then come, for each
	// remainder, the places before the point, on it, and behind it.
	columns := places + 2
	node := func(remainder, column int) int32 { return int32(2 + remainder*columns + column) }
	out := &Machine{Nodes: make([]State, 2+divisor*columns)}
	digitsFrom := func(remainder, column int) (edges []Edge) {
		m.Node()
		for d := range 10 {
			edges = append(edges, Edge{byte('0' + d), byte('0' + d), node((remainder*10+d)%divisor, column)})
		}
		return edges
	}
	out.Nodes[0].Edges = append([]Edge{{'-', '-', 1}}, digitsFrom(0, 0)...)
	out.Nodes[1].Edges = digitsFrom(0, 0)
	for r := range divisor {
		before := &out.Nodes[node(r, 0)]
		before.Accept = r*scale[places]%divisor == 0
		before.Edges = digitsFrom(r, 0)
		if places > 0 {
			before.Edges = append([]Edge{{'.', '.', node(r, 1)}}, before.Edges...)
		}
		for j := range places {
			out.Nodes[node(r, 1+j)].Edges = digitsFrom(r, 2+j)
			out.Nodes[node(r, 2+j)].Accept = r*scale[places-1-j]%divisor == 0
		}
	}
	return out
}

// Tighter returns the bound that allows less: the greater for a direction of 1.
func Tighter(a, b *Bound, direction int) *Bound {
	if a == nil {
		return b
	}
	if cmp := b.rat().Cmp(a.rat()) * direction; cmp > 0 || cmp == 0 && b.Exclusive {
		return b
	}
	return a
}
