package automaton

// None marks that one of two machines has fallen out of step for good.
const None int32 = -1

// combine runs two machines that call no rules side by side. It takes what
// accept says for each pair of verdicts. Where b has no way on, its verdict is
// false from there on.
func combine(m *Meter, a, b *Machine, accept func(a, b bool) bool) *Machine {
	type pair struct{ a, b int32 }
	known := map[pair]int32{}
	var pairs []pair
	out := &Machine{}
	state := func(p pair) int32 {
		at, ok := known[p]
		if !ok {
			m.Node()
			m.Step(5) // it costs that much more than a step elsewhere
			at = int32(len(pairs))
			known[p] = at
			pairs = append(pairs, p)
			out.Nodes = append(out.Nodes, stateOf(a, b, p.a, p.b, accept))
		}
		return at
	}
	state(pair{0, 0})
	for i := 0; i < len(pairs); i++ {
		p := pairs[i]
		var edges []Edge
		for _, e := range a.Nodes[p.a].Edges {
			m.Step(1)
			overlay(e, b, p.b, func(lo, hi byte, to int32) {
				m.Step(1)
				if to != None || accept(true, false) {
					edges = appendEdge(edges, lo, hi, state(pair{e.To, to}))
				}
			})
		}
		out.Nodes[i].Edges = edges
	}
	return out
}

func stateOf(a, b *Machine, x, y int32, accept func(a, b bool) bool) State {
	return State{Accept: accept(a.Nodes[x].Accept, y != None && b.Nodes[y].Accept)}
}

// overlay cuts the bytes of e by the edges of b at node at and yields each part
// with the node of b that it leads to.
func overlay(e Edge, b *Machine, at int32, yield func(lo, hi byte, to int32)) {
	from := int(e.Lo)
	if at != None {
		for _, f := range b.Nodes[at].Edges {
			lo, hi := max(from, int(f.Lo)), min(int(e.Hi), int(f.Hi))
			if lo > hi {
				continue
			}
			if from < lo {
				yield(byte(from), byte(lo-1), None)
			}
			yield(byte(lo), byte(hi), f.To)
			from = hi + 1
		}
	}
	if from <= int(e.Hi) {
		yield(byte(from), e.Hi, None)
	}
}

// Intersect takes what both take.
func Intersect(m *Meter, a, b *Machine) *Machine {
	return combine(m, a, b, func(x, y bool) bool { return x && y })
}

// Subtract takes what a takes and b does not.
func Subtract(m *Meter, a, b *Machine) *Machine {
	return combine(m, a, b, func(x, y bool) bool { return x && !y })
}

// Everything returns the machine of all texts.
func Everything(m *Meter, d dialect) *Machine {
	s := NewSketch(m)
	return s.Machine(s.Star(0, func(from int32) int32 { return s.Runes(from, EveryRune, d) }))
}

// live returns the states from which a machine that calls no rules can accept.
func (a *Machine) live(m *Meter) []bool {
	before := make([][]int32, len(a.Nodes))
	live := make([]bool, len(a.Nodes))
	var queue []int32
	for i := range a.Nodes {
		for _, e := range a.Nodes[i].Edges {
			m.Step(1)
			before[e.To] = append(before[e.To], int32(i))
		}
		if a.Nodes[i].Accept {
			live[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range before[at] {
			if !live[from] {
				live[from] = true
				queue = append(queue, from)
			}
		}
	}
	return live
}

// IsEmpty reports whether a machine that calls no rules takes no text.
func (a *Machine) IsEmpty(m *Meter) bool { return !a.live(m)[0] }

// countedMax bounds the states of a machine that counts characters.
const countedMax = 6000

// Counted takes the texts of a machine for quoted text that have least to most characters;
// a negative most means no bound. Where that would take too many states, it takes only
// shorter ones.
func Counted(m *Meter, a *Machine, least, most int) *Machine {
	live := a.live(m)
	states := 0
	for _, is := range live {
		if is {
			states++
		}
	}
	if longest := max(countedMax/max(states, 1), least+64); most > longest {
		most = longest
	}
	c := &characterCounter{
		meter: m,
		from:  a,
		live:  live,
		least: least,
		most:  most,
		known: map[counting]int32{},
	}
	c.state(counting{})
	for i := 0; i < len(c.states); i++ {
		c.expand(int32(i))
	}
	return &c.out
}

// counting is a state of a machine together with the characters that were begun, and
// whether an escape is under way.
type counting struct {
	node    int32
	count   int
	escaped bool
}

type characterCounter struct {
	meter       *Meter
	from        *Machine
	live        []bool
	least, most int
	known       map[counting]int32
	states      []counting
	out         Machine
}

func (c *characterCounter) state(at counting) int32 {
	if c.most < 0 {
		at.count = min(at.count, c.least)
	}
	n, known := c.known[at]
	if !known {
		c.meter.Node()
		n = int32(len(c.states))
		c.known[at] = n
		c.states = append(c.states, at)
		c.out.Nodes = append(c.out.Nodes, State{Accept: c.from.Nodes[at.node].Accept && at.count >= c.least})
	}
	return n
}

// expand finds the edges of a state: bytes that begin a character count.
func (c *characterCounter) expand(i int32) {
	at := c.states[i]
	var edges []Edge
	add := func(lo, hi int, next counting) {
		if lo <= hi && (c.most < 0 || next.count <= c.most) {
			edges = appendEdge(edges, byte(lo), byte(hi), c.state(next))
		}
	}
	for _, e := range c.from.Nodes[at.node].Edges {
		c.meter.Step(1)
		if !c.live[e.To] {
			continue
		}
		lo, hi := int(e.Lo), int(e.Hi)
		if at.escaped {
			add(lo, hi, counting{node: e.To, count: at.count})
			continue
		}
		begun := counting{node: e.To, count: at.count + 1}
		escape := counting{node: e.To, count: at.count + 1, escaped: true}
		add(lo, min(hi, '\\'-1), begun)
		add(max(lo, '\\'), min(hi, '\\'), escape)
		add(max(lo, '\\'+1), min(hi, 0x7F), begun)
		add(max(lo, 0x80), min(hi, 0xBF), counting{node: e.To, count: at.count})
		add(max(lo, 0xC0), hi, begun)
	}
	c.out.Nodes[i].Edges = edges
}
