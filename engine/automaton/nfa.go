package automaton

import (
	"encoding/binary"
	"iter"
	"slices"
)

// A RuleID numbers a rule of a program.
type RuleID int32

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
	rule   RuleID
	// before is the arc that its node had before it, or none.
	before int32
}

// A Sketch is an automaton as it is written down: arcs may take nothing, and
// several may take the same byte. Its methods lead from one node to another
// and return where they arrive, so a grammar is written in the order it is read.
//
// All arcs stand in one list, because most nodes have one or two.
type Sketch struct {
	Meter *Meter
	arcs  []arc
	// last is, for each node, the arc that was added last, or none.
	last []int32
}

// NewSketch returns a sketch of one node.
func NewSketch(m *Meter) *Sketch { return &Sketch{Meter: m, last: []int32{None}} }

// Node adds a node.
func (s *Sketch) Node() int32 {
	s.Meter.Step(1)
	s.last = append(s.last, None)
	return int32(len(s.last) - 1)
}

func (s *Sketch) add(from int32, a arc) {
	s.Meter.Step(1)
	a.before = s.last[from]
	s.last[from] = int32(len(s.arcs))
	s.arcs = append(s.arcs, a)
}

// Take lets from become to with one byte between lo and hi.
func (s *Sketch) Take(from int32, lo, hi byte, to int32) {
	s.add(from, arc{kind: takesByte, lo: lo, hi: hi, to: to})
}

// leaving are the arcs of a node, the last first.
func (s *Sketch) leaving(n int32) iter.Seq[*arc] {
	return func(yield func(*arc) bool) {
		for at := s.last[n]; at != None; at = s.arcs[at].before {
			if !yield(&s.arcs[at]) {
				return
			}
		}
	}
}

// Link lets from be to without taking anything.
func (s *Sketch) Link(from, to int32) { s.add(from, arc{kind: takesNothing, to: to}) }

// span takes one byte between lo and hi.
func (s *Sketch) span(from int32, lo, hi byte) int32 {
	to := s.Node()
	s.add(from, arc{kind: takesByte, lo: lo, hi: hi, to: to})
	return to
}

// Literal takes the bytes of text.
func (s *Sketch) Literal(from int32, text string) int32 {
	for i := range len(text) {
		from = s.span(from, text[i], text[i])
	}
	return from
}

// Literals takes one of texts. They are merged as they are written, because
// there may be thousands.
func (s *Sketch) Literals(from int32, texts []string) int32 {
	end := s.Node()
	root := s.Node()
	s.Link(from, root)
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
		s.Link(at, end)
	}
	return end
}

// either takes one of the ways.
func (s *Sketch) either(from int32, ways ...func(from int32) int32) int32 {
	end := s.Node()
	for _, way := range ways {
		start := s.Node()
		s.Link(from, start)
		s.Link(way(start), end)
	}
	return end
}

// maybe takes way or nothing.
func (s *Sketch) maybe(from int32, way func(from int32) int32) int32 {
	return s.either(from, way, func(from int32) int32 { return from })
}

// Star takes way any number of times.
func (s *Sketch) Star(from int32, way func(from int32) int32) int32 {
	hub := s.Node()
	s.Link(from, hub)
	s.Link(way(hub), hub)
	end := s.Node()
	s.Link(hub, end)
	return end
}

// Times takes way least to most times, writing it down each time; a
// negative most means no bound.
func (s *Sketch) Times(from int32, least, most int, way func(from int32) int32) int32 {
	if most >= 0 && least > most {
		return s.Node()
	}
	for range least {
		from = way(from)
	}
	if most < 0 {
		return s.Star(from, way)
	}
	end := s.Node()
	s.Link(from, end)
	for range most - least {
		from = way(from)
		s.Link(from, end)
	}
	return end
}

// Call takes what a rule takes.
func (s *Sketch) Call(from int32, rule RuleID) int32 {
	to := s.Node()
	s.add(from, arc{kind: callsRule, rule: rule, to: to})
	return to
}

// Embed takes what a machine takes.
func (s *Sketch) Embed(from int32, m *Machine) int32 {
	base := int32(len(s.last))
	for range m.Nodes {
		s.Node()
	}
	end := s.Node()
	s.Link(from, base)
	for i, n := range m.Nodes {
		for _, e := range n.Edges {
			s.add(base+int32(i), arc{kind: takesByte, lo: e.Lo, hi: e.Hi, to: base + e.To})
		}
		for _, c := range n.Calls {
			s.add(base+int32(i), arc{kind: callsRule, rule: c.Rule, to: base + c.To})
		}
		if n.Accept {
			s.Link(base+int32(i), end)
		}
	}
	return end
}

// An Edge of a machine takes one byte between lo and hi.
type Edge struct {
	Lo, Hi byte
	To     int32
}

// A ruleCall of a machine runs another rule and continues at to.
type ruleCall struct {
	Rule RuleID
	To   int32
}

// A State is a node of a machine. Its edges do not overlap and are in order;
// its calls are to different rules.
type State struct {
	Accept bool
	Edges  []Edge
	Calls  []ruleCall
}

// A Machine is a deterministic automaton that begins at node 0.
type Machine struct{ Nodes []State }

// A powerset builds a machine out of a sketch: each state of the machine is
// the set of nodes in which the sketch could be.
type powerset struct {
	sketch *Sketch
	end    int32
	known  map[string]int32
	sets   [][]int32
	out    Machine
	seen   []int32 // by node of the sketch: the last search that came by
	search int32

	// What follows is room that is used again and again.
	closed, targets []int32
	key             []byte
	taken, open     []arc
	called          []arc
	cuts            []int
}

// Machine returns what leads from node 0 to end.
func (s *Sketch) Machine(end int32) *Machine {
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
		p.sketch.Meter.Step(1)
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
func (s *Sketch) takes(n int32) bool {
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
	p.sketch.Meter.Node()
	at := int32(len(p.sets))
	p.known[string(key)] = at
	p.sets = append(p.sets, slices.Clone(set[:kept]))
	p.out.Nodes = append(p.out.Nodes, State{})
	return at
}

// expand finds the arcs that leave a state.
func (p *powerset) expand(at int32) {
	set := p.sets[at]
	p.taken, p.called = p.taken[:0], p.called[:0]
	anchored := false
	for _, n := range set {
		for a := range p.sketch.leaving(n) {
			p.sketch.Meter.Step(1)
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
	p.out.Nodes[at] = State{Accept: accept, Edges: p.edges(), Calls: p.calls()}
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
func (p *powerset) edges() (edges []Edge) {
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
		p.sketch.Meter.Step(1 + len(p.open))
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
func appendEdge(edges []Edge, lo, hi byte, to int32) []Edge {
	if n := len(edges); n > 0 && edges[n-1].To == to && edges[n-1].Hi+1 == lo {
		edges[n-1].Hi = hi
		return edges
	}
	return append(edges, Edge{lo, hi, to})
}

// next returns the node to which b leads, or -1.
func (n *State) next(b byte) int32 {
	for i := range n.Edges {
		if e := &n.Edges[i]; b <= e.Hi {
			if b >= e.Lo {
				return e.To
			}
			break
		}
	}
	return -1
}

// Matches reports whether the machine takes text, calling no rule.
func (m *Machine) Matches(text string) bool {
	at := int32(0)
	for i := range len(text) {
		if at = m.Nodes[at].next(text[i]); at < 0 {
			return false
		}
	}
	return m.Nodes[at].Accept
}

// Pure reports whether a state can only end its rule.
func (n *State) Pure() bool { return n.Accept && len(n.Edges) == 0 && len(n.Calls) == 0 }
