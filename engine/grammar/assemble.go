package grammar

import (
	"slices"

	"parley/engine/automaton"
)

// assemble lays the rules out in one list of nodes.
func assemble(m *automaton.Meter, rules []rule, main automaton.RuleID) *Program {
	starts := make([]int32, len(rules))
	total := int32(0)
	p := &Program{}
	for i, r := range rules {
		if automaton.RuleID(i) == automaton.BuiltinRules {
			p.builtin = total
		}
		starts[i] = total
		total++
		if r.machine != nil {
			total += int32(len(r.machine.Nodes)) - 1
		}
	}
	p.nodes = make([]node, 0, total)
	for i, r := range rules {
		p.add(r, starts[i], starts)
	}
	p.start, p.char = starts[main], starts[automaton.RuleChar]
	p.inside = p.next(starts[automaton.RuleString], '"')
	p.needs = p.countNeeds(m, nil)
	p.prune()
	p.characterise(m)
	p.refuseLeftRecursion(m)
	if p.needs[p.start] > framesMax {
		m.Refuse("no text satisfies the grammar")
	}
	return p
}

// add lays out one rule whose nodes begin at base.
func (p *Program) add(r rule, base int32, starts []int32) {
	if r.repeat != nil {
		p.nodes = append(p.nodes, node{repeat: r.repeat, body: starts[r.repeat.body]})
		return
	}
	for _, s := range r.machine.Nodes {
		n := node{accept: s.Accept, pure: s.Pure()}
		for _, e := range s.Edges {
			n.edges = append(n.edges, automaton.Edge{Lo: e.Lo, Hi: e.Hi, To: base + e.To})
		}
		for _, c := range s.Calls {
			n.calls = append(n.calls,
				link{start: starts[c.Rule], back: base + c.To, last: r.machine.Nodes[c.To].Pure()})
		}
		p.nodes = append(p.nodes, n)
	}
}

// prune drops the ways that lead nowhere.
func (p *Program) prune() {
	hope := func(n int32) bool { return p.needs[n] != hopeless }
	for i := range p.nodes {
		n := &p.nodes[i]
		n.edges = slices.DeleteFunc(n.edges, func(e automaton.Edge) bool { return !hope(e.To) })
		n.calls = slices.DeleteFunc(n.calls, func(l link) bool { return !hope(l.start) || !hope(l.back) })
	}
}

// characterise finds out what masks can be computed with less work.
func (p *Program) characterise(m *automaton.Meter) {
	for i := len(p.nodes) - 1; i >= 0; i-- {
		n := &p.nodes[i]
		n.loops = p.classesTo(int32(i), func(to int32) bool { return to == int32(i) })
		n.single = p.classesTo(int32(i), func(to int32) bool { return p.nodes[to].pure })
	}
	p.markCalm(m)
}

// classesTo returns the classes whose every character leads from a node
// straight to one of the wanted.
func (p *Program) classesTo(from int32, wanted func(to int32) bool) (all classes) {
	n := &p.nodes[from]
	if !slices.ContainsFunc(n.edges, func(e automaton.Edge) bool { return wanted(e.To) }) {
		return 0
	}
	all = asciiClasses
	for b := range asciiEnd {
		if to := p.next(from, byte(b)); to < 0 || !wanted(to) {
			all &^= classOf[b]
		}
	}
	if p.characters(from, wanted) {
		all |= classCharacter
	}
	if to, ok := p.spread([]int32{from}, asciiEnd, 0xFF); ok && !slices.ContainsFunc(to, func(n int32) bool {
		return !wanted(n)
	}) {
		all |= classCharacter | classFragment
	}
	return all
}

// characters reports whether every character beyond ASCII leads from a node to
// one of the wanted. It follows the well-formed encodings.
func (p *Program) characters(from int32, wanted func(to int32) bool) bool {
	type way struct{ first, last, lo, hi, more int }
	ways := []way{{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
		{0xED, 0xED, 0x80, 0x9F, 1},
		{0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2}, {0xF1, 0xF3, 0x80, 0xBF, 2},
		{0xF4, 0xF4, 0x80, 0x8F, 2}}
	for _, w := range ways {
		places, all := p.spread([]int32{from}, w.first, w.last)
		places, second := p.spread(places, w.lo, w.hi)
		all = all && second
		for range w.more {
			further, ok := p.spread(places, 0x80, 0xBF)
			places, all = further, all && ok
		}
		if !all || slices.ContainsFunc(places, func(n int32) bool { return !wanted(n) }) {
			return false
		}
	}
	return true
}

// spread returns the nodes to which the bytes lo to hi lead from places, and
// whether every one of the bytes leads somewhere.
func (p *Program) spread(places []int32, lo, hi int) (out []int32, ok bool) {
	for _, n := range places {
		covered := 0
		for _, e := range p.nodes[n].edges {
			if a, b := max(lo, int(e.Lo)), min(hi, int(e.Hi)); a <= b {
				covered += b - a + 1
				if !slices.Contains(out, e.To) {
					out = append(out, e.To)
				}
			}
		}
		if covered != hi-lo+1 {
			return nil, false
		}
	}
	return out, len(places) > 0
}

// markCalm marks the nodes from which no call is reached: all are calm but
// those that call, and those that lead to one that is not.
func (p *Program) markCalm(m *automaton.Meter) {
	for i := range p.nodes {
		n := &p.nodes[i]
		n.calm = len(n.calls) == 0 && n.repeat == nil
	}
	for changed := true; changed; {
		changed = false
		m.Step(len(p.nodes) / 16)
		for i := len(p.nodes) - 1; i >= 0; i-- {
			n := &p.nodes[i]
			if n.calm && slices.ContainsFunc(n.edges, func(e automaton.Edge) bool { return !p.nodes[e.To].calm }) {
				n.calm, changed = false, true
			}
		}
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; n.repeat != nil {
			n.calm = p.nodes[n.body].calm
		}
	}
}
