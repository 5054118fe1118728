package grammar

import (
	"encoding/binary"
	"iter"
	"slices"
)

// An arcKind says what an arc of a sketch takes.
type arcKind uint8

const (
	takesByte arcKind = iota
	takesNothing
	// takesBegin is crossed only before the first byte, and takesEnd only after
	// the last: the anchors of patterns.
	takesBegin
	takesEnd
	callsRule
)

// An arc of a sketch.
type arc struct {
	kind   arcKind
	lo, hi byte
	to     int32
	rule   ruleID
	// before is the arc that its node had before it, or none.
	before int32
}

// A sketch is an automaton as it is written down: arcs may take nothing, and
// several may take the same byte. Its methods lead from one node to another
// and return where they arrive, so a grammar is written in the order it is read.
//
// All arcs stand in one list, because most nodes have one or two.
type sketch struct {
	meter *meter
	arcs  []arc
	// last is, for each node, the arc that was added last, or none.
	last []int32
}

func newSketch(m *meter) *sketch { return &sketch{meter: m, last: []int32{none}} }

// node adds a node.
func (s *sketch) node() int32 {
	s.meter.step(1)
	s.last = append(s.last, none)
	return int32(len(s.last) - 1)
}

func (s *sketch) add(from int32, a arc) {
	s.meter.step(1)
	a.before = s.last[from]
	s.last[from] = int32(len(s.arcs))
	s.arcs = append(s.arcs, a)
}

// leaving are the arcs of a node, the last first.
func (s *sketch) leaving(n int32) iter.Seq[*arc] {
	return func(yield func(*arc) bool) {
		for at := s.last[n]; at != none; at = s.arcs[at].before {
			if !yield(&s.arcs[at]) {
				return
			}
		}
	}
}

// link lets from be to without taking anything.
func (s *sketch) link(from, to int32) { s.add(from, arc{kind: takesNothing, to: to}) }

// span takes one byte between lo and hi.
func (s *sketch) span(from int32, lo, hi byte) int32 {
	to := s.node()
	s.add(from, arc{kind: takesByte, lo: lo, hi: hi, to: to})
	return to
}

// literal takes the bytes of text.
func (s *sketch) literal(from int32, text string) int32 {
	for i := range len(text) {
		from = s.span(from, text[i], text[i])
	}
	return from
}

// literals takes one of texts. They are merged as they are written, because
// there may be thousands.
func (s *sketch) literals(from int32, texts []string) int32 {
	end := s.node()
	root := s.node()
	s.link(from, root)
	next := map[int32]map[byte]int32{}
	for _, text := range texts {
		at := root
		for i := range len(text) {
			if next[at] == nil {
				next[at] = map[byte]int32{}
			}
			to, known := next[at][text[i]]
			if !known {
				to = s.span(at, text[i], text[i])
				next[at][text[i]] = to
			}
			at = to
		}
		s.link(at, end)
	}
	return end
}

// either takes one of the ways.
func (s *sketch) either(from int32, ways ...func(from int32) int32) int32 {
	end := s.node()
	for _, way := range ways {
		start := s.node()
		s.link(from, start)
		s.link(way(start), end)
	}
	return end
}

// maybe takes way or nothing.
func (s *sketch) maybe(from int32, way func(from int32) int32) int32 {
	return s.either(from, way, func(from int32) int32 { return from })
}

// star takes way any number of times.
func (s *sketch) star(from int32, way func(from int32) int32) int32 {
	hub := s.node()
	s.link(from, hub)
	s.link(way(hub), hub)
	end := s.node()
	s.link(hub, end)
	return end
}

// times takes way least to most times, writing it down each time; a
// negative most means no bound.
func (s *sketch) times(from int32, least, most int, way func(from int32) int32) int32 {
	if most >= 0 && least > most {
		return s.node()
	}
	for range least {
		from = way(from)
	}
	if most < 0 {
		return s.star(from, way)
	}
	end := s.node()
	s.link(from, end)
	for range most - least {
		from = way(from)
		s.link(from, end)
	}
	return end
}

// call takes what a rule takes.
func (s *sketch) call(from int32, rule ruleID) int32 {
	to := s.node()
	s.add(from, arc{kind: callsRule, rule: rule, to: to})
	return to
}

// embed takes what a machine takes.
func (s *sketch) embed(from int32, m *machine) int32 {
	base := int32(len(s.last))
	for range m.nodes {
		s.node()
	}
	end := s.node()
	s.link(from, base)
	for i, n := range m.nodes {
		for _, e := range n.edges {
			s.add(base+int32(i), arc{kind: takesByte, lo: e.lo, hi: e.hi, to: base + e.to})
		}
		for _, c := range n.calls {
			s.add(base+int32(i), arc{kind: callsRule, rule: c.rule, to: base + c.to})
		}
		if n.accept {
			s.link(base+int32(i), end)
		}
	}
	return end
}

// An edge of a machine takes one byte between lo and hi.
type edge struct {
	lo, hi byte
	to     int32
}

// A ruleCall of a machine runs another rule and continues at to.
type ruleCall struct {
	rule ruleID
	to   int32
}

// A state is a node of a machine. Its edges do not overlap and are in order;
// its calls are to different rules.
type state struct {
	accept bool
	edges  []edge
	calls  []ruleCall
}

// A machine is a deterministic automaton that begins at node 0.
type machine struct{ nodes []state }

// A powerset builds a machine out of a sketch: each state of the machine is
// the set of nodes in which the sketch could be.
type powerset struct {
	sketch *sketch
	end    int32
	known  map[string]int32
	sets   [][]int32
	out    machine
	seen   []int32 // by node of the sketch: the last search that came by
	search int32

	// What follows is room that is used again and again.
	closed, targets []int32
	key             []byte
	taken, open     []arc
	called          []arc
	cuts            []int
}

// machine returns what leads from node 0 to end.
func (s *sketch) machine(end int32) *machine {
	p := &powerset{sketch: s, end: end, known: map[string]int32{}, seen: make([]int32, len(s.last))}
	p.state(p.closure([]int32{0}, takesBegin))
	for at := 0; at < len(p.sets); at++ {
		p.expand(int32(at))
	}
	return &p.out
}

// closure returns set with what is reached without taking a byte; also is a
// further kind of arc that may be crossed. It is good until the next closure.
func (p *powerset) closure(set []int32, also arcKind) []int32 {
	p.search++
	all := p.closed[:0]
	for _, n := range set {
		all = p.visit(all, n)
	}
	for i := 0; i < len(all); i++ {
		p.sketch.meter.step(1)
		for a := range p.sketch.leaving(all[i]) {
			if a.kind == takesNothing || a.kind == also {
				all = p.visit(all, a.to)
			}
		}
	}
	slices.Sort(all)
	p.closed = all
	return all
}

// takes reports whether a node has other arcs than those that take nothing.
func (s *sketch) takes(n int32) bool {
	for a := range s.leaving(n) {
		if a.kind != takesNothing {
			return true
		}
	}
	return false
}

// visit appends n unless this search came by before.
func (p *powerset) visit(all []int32, n int32) []int32 {
	if p.seen[n] == p.search {
		return all
	}
	p.seen[n] = p.search
	return append(all, n)
}

// state returns the state of the machine that stands for a closed set.
func (p *powerset) state(set []int32) int32 {
	key, kept := p.key[:0], 0
	for _, n := range set {
		// A node with no other arcs than empty ones adds nothing to its set.
		if n == p.end || p.sketch.takes(n) {
			set[kept] = n
			kept++
			key = binary.LittleEndian.AppendUint32(key, uint32(n))
		}
	}
	p.key = key
	if at, ok := p.known[string(key)]; ok {
		return at
	}
	p.sketch.meter.node()
	at := int32(len(p.sets))
	p.known[string(key)] = at
	p.sets = append(p.sets, slices.Clone(set[:kept]))
	p.out.nodes = append(p.out.nodes, state{})
	return at
}

// expand finds the arcs that leave a state.
func (p *powerset) expand(at int32) {
	set := p.sets[at]
	p.taken, p.called = p.taken[:0], p.called[:0]
	anchored := false
	for _, n := range set {
		for a := range p.sketch.leaving(n) {
			p.sketch.meter.step(1)
			switch a.kind {
			case takesByte:
				p.taken = append(p.taken, *a)
			case callsRule:
				p.called = append(p.called, *a)
			case takesEnd:
				anchored = true
			}
		}
	}
	accept := slices.Contains(set, p.end)
	if anchored {
		accept = slices.Contains(p.closure(set, takesEnd), p.end)
	}
	p.out.nodes[at] = state{accept: accept, edges: p.edges(), calls: p.calls()}
}

// calls joins the calls of one rule that p.called lists.
func (p *powerset) calls() (calls []ruleCall) {
	slices.SortStableFunc(p.called, func(a, b arc) int { return int(a.rule) - int(b.rule) })
	for i := 0; i < len(p.called); {
		rule := p.called[i].rule
		p.targets = p.targets[:0]
		for ; i < len(p.called) && p.called[i].rule == rule; i++ {
			p.targets = append(p.targets, p.called[i].to)
		}
		calls = append(calls, ruleCall{rule, p.state(p.closure(p.targets, takesNothing))})
	}
	return calls
}

// edges cuts the overlapping arcs of p.taken into edges that do not overlap.
func (p *powerset) edges() (edges []edge) {
	p.cuts, p.open = p.cuts[:0], p.open[:0]
	for _, a := range p.taken {
		p.cuts = append(p.cuts, int(a.lo), int(a.hi)+1)
	}
	slices.Sort(p.cuts)
	p.cuts = slices.Compact(p.cuts)
	slices.SortFunc(p.taken, func(a, b arc) int { return int(a.lo) - int(b.lo) })
	next := 0 // the first that has not begun; open have, and have not ended
	for i := 0; i+1 < len(p.cuts); i++ {
		cut := p.cuts[i]
		p.open = slices.DeleteFunc(p.open, func(a arc) bool { return int(a.hi) < cut })
		for ; next < len(p.taken) && int(p.taken[next].lo) <= cut; next++ {
			p.open = append(p.open, p.taken[next])
		}
		p.sketch.meter.step(1 + len(p.open))
		if len(p.open) == 0 {
			continue
		}
		p.targets = p.targets[:0]
		for _, a := range p.open {
			p.targets = append(p.targets, a.to)
		}
		to := p.state(p.closure(p.targets, takesNothing))
		edges = appendEdge(edges, byte(cut), byte(p.cuts[i+1]-1), to)
	}
	return edges
}

// appendEdge adds an edge behind the last, or widens that.
func appendEdge(edges []edge, lo, hi byte, to int32) []edge {
	if n := len(edges); n > 0 && edges[n-1].to == to && edges[n-1].hi+1 == lo {
		edges[n-1].hi = hi
		return edges
	}
	return append(edges, edge{lo, hi, to})
}

// next returns the node to which b leads, or -1.
func (n *state) next(b byte) int32 {
	for i := range n.edges {
		if e := &n.edges[i]; b <= e.hi {
			if b >= e.lo {
				return e.to
			}
			break
		}
	}
	return -1
}

// matches reports whether the machine takes text, calling no rule.
func (m *machine) matches(text string) bool {
	at := int32(0)
	for i := range len(text) {
		if at = m.nodes[at].next(text[i]); at < 0 {
			return false
		}
	}
	return m.nodes[at].accept
}
