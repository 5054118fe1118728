package grammar

import (
	"fmt"
	"math/big"
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

// A bound is one end of a range: a decimal number, and whether the range stops
// short of it. Nil means no bound.
type bound struct {
	negative bool
	// whole are the digits before the point, at least "0"; fraction those after
	// it, without zeros at the end.
	whole, fraction string
	exclusive       bool
}

// decimal reads a JSON number exactly.
func decimal(m *meter, text string) *bound {
	d := &bound{}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa, d.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || max(shift, -shift) > exponentMax {
			m.refuse("the number %s is out of range", text)
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
	d.fraction = strings.TrimRight(digits[point:], "0")
	if d.whole == "" {
		d.whole = "0"
	}
	d.negative = d.negative && !d.zero()
	return d
}

func (d *bound) zero() bool { return d.whole == "0" && d.fraction == "" }

// rat is the bound's value.
func (d *bound) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(d.whole + "." + d.fraction + "0")
	if d.negative {
		r.Neg(r)
	}
	return r
}

// A span of numbers: its ends, and whether they may have fractions.
type numbers struct {
	least, most *bound
	integer     bool
	multiples   []*bound
}

// key names the span.
func (n *numbers) key() string {
	key := "number"
	if n.integer {
		key = "integer"
	}
	for _, b := range append([]*bound{n.least, n.most}, n.multiples...) {
		if key += "|"; b != nil {
			key += fmt.Sprint(b.negative, b.whole, ".", b.fraction, b.exclusive)
		}
	}
	return key
}

// contains reports whether the span has the number.
func (n *numbers) contains(m *meter, text string) bool {
	d := decimal(m, text)
	v := d.rat()
	if n.integer && d.fraction != "" {
		return false
	}
	if n.least != nil {
		if c := v.Cmp(n.least.rat()); c < 0 || c == 0 && n.least.exclusive {
			return false
		}
	}
	if n.most != nil {
		if c := v.Cmp(n.most.rat()); c > 0 || c == 0 && n.most.exclusive {
			return false
		}
	}
	for _, by := range n.multiples {
		if !new(big.Rat).Quo(v, by.rat()).IsInt() {
			return false
		}
	}
	return true
}

// machine returns the machine of the span's numbers.
func (n *numbers) machine(m *meter) *machine {
	s := newSketch(m)
	end := s.node()
	n.positive(s, end)
	n.negative(s, end)
	out := s.machine(end)
	for _, by := range n.multiples {
		out = intersect(m, out, multiples(m, by))
	}
	return out
}

// positive writes down the numbers of the span from 0 up.
func (n *numbers) positive(s *sketch, end int32) {
	g := magnitudes{
		sketch:  s,
		end:     end,
		integer: n.integer,
		least:   &bound{whole: "0"},
		most:    n.most,
	}
	if n.most != nil && n.most.negative {
		return
	}
	if n.least != nil && !n.least.negative {
		g.least = n.least
	}
	g.write(0)
}

// negative writes down those below 0, as a sign and a magnitude.
func (n *numbers) negative(s *sketch, end int32) {
	if n.least != nil && !n.least.negative {
		return
	}
	g := magnitudes{
		sketch:  s,
		end:     end,
		integer: n.integer,
		least:   &bound{whole: "0", exclusive: true},
		most:    n.least,
	}
	if n.most != nil && n.most.negative {
		g.least = n.most
	}
	g.write(s.literal(0, "-"))
}

// magnitudes writes down the decimal numbers between two bounds, of which
// only the digits count. It follows the digits from the left and remembers
// whether they are so far the same as those of the lower and the upper bound.
type magnitudes struct {
	sketch      *sketch
	end         int32
	least, most *bound
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
	for length := 1; length <= wholeDigitsMax; length++ {
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
	node := g.sketch.node()
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
		g.sketch.link(node, g.end)
	}
	return node
}

func (g *magnitudes) fraction(from int32, at digits) {
	low, high := byte('0'), byte('0')
	if at.n < len(g.least.fraction) {
		low = g.least.fraction[at.n]
	}
	if g.most != nil && at.n < len(g.most.fraction) {
		high = g.most.fraction[at.n]
	}
	g.arcs(from, at, '0', low, high)
}

// within reports whether the number may end at a place behind the point. A
// bound that has digits left is greater than the number that equals it so far.
func (g *magnitudes) within(at digits) bool {
	n := max(at.n, 0)
	above := !at.atLeast || n >= len(g.least.fraction) && !g.least.exclusive
	below := !at.atMost || n < len(g.most.fraction) || !g.most.exclusive
	return above && below
}

// multiples returns the machine of the decimal numbers that by divides. It
// follows the remainder of the number scaled to by's decimal places.
func multiples(m *meter, by *bound) *machine {
	places := len(by.fraction)
	divisor, err := strconv.Atoi(strings.TrimLeft(by.whole+by.fraction, "0"))
	if err != nil || by.negative || divisor > divisorMax || places > fractionDigitsMax {
		m.refuse("multipleOf must be above 0 and have at most %d as its digits", divisorMax)
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
	out := &machine{nodes: make([]state, 2+divisor*columns)}
	digitsFrom := func(remainder, column int) (edges []edge) {
		m.node()
		for d := range 10 {
			edges = append(edges, edge{byte('0' + d), byte('0' + d), node((remainder*10+d)%divisor, column)})
		}
		return edges
	}
	out.nodes[0].edges = append([]edge{{'-', '-', 1}}, digitsFrom(0, 0)...)
	out.nodes[1].edges = digitsFrom(0, 0)
	for r := range divisor {
		before := &out.nodes[node(r, 0)]
		before.accept = r*scale[places]%divisor == 0
		before.edges = digitsFrom(r, 0)
		if places > 0 {
			before.edges = append([]edge{{'.', '.', node(r, 1)}}, before.edges...)
		}
		for j := range places {
			out.nodes[node(r, 1+j)].edges = digitsFrom(r, 2+j)
			out.nodes[node(r, 2+j)].accept = r*scale[places-1-j]%divisor == 0
		}
	}
	return out
}
