package grammar

import (
	"parley/engine/automaton"
)

// countNeeds returns, for each node, the least number of frames with which its
// rule can be completed, taking only bytes that are spelled; nil spells all.
//
// A call needs what its rule needs and a frame to come back to, and what comes
// after it. The values spread backwards from the nodes that end a rule.
func (p *Program) countNeeds(m *automaton.Meter, spelled *[256]bool) []uint8 {
	c := needCounter{p: p, m: m, needs: make([]uint8, len(p.nodes)), users: make([][]int32, len(p.nodes))}
	for i := range p.nodes {
		c.needs[i] = hopeless
		c.subscribe(int32(i), spelled)
	}
	for i := range p.nodes {
		c.update(int32(i), spelled)
	}
	for len(c.queue) > 0 {
		at := c.queue[len(c.queue)-1]
		c.queue = c.queue[:len(c.queue)-1]
		for _, user := range c.users[at] {
			c.update(user, spelled)
		}
	}
	return c.needs
}

type needCounter struct {
	p     *Program
	m     *automaton.Meter
	needs []uint8
	// users are the nodes whose need depends on a node's.
	users [][]int32
	queue []int32
}

func (c *needCounter) subscribe(at int32, spelled *[256]bool) {
	n := &c.p.nodes[at]
	for _, e := range n.edges {
		if isSpelled(e, spelled) {
			c.users[e.To] = append(c.users[e.To], at)
		}
	}
	for _, l := range n.calls {
		c.users[l.start] = append(c.users[l.start], at)
		c.users[l.back] = append(c.users[l.back], at)
	}
	if n.repeat != nil {
		c.users[n.body] = append(c.users[n.body], at)
	}
}

func isSpelled(e automaton.Edge, spelled *[256]bool) bool {
	if spelled == nil {
		return true
	}
	for b := int(e.Lo); b <= int(e.Hi); b++ {
		if spelled[b] {
			return true
		}
	}
	return false
}

// update computes a node's need anew and, if it has fallen, queues the node.
func (c *needCounter) update(at int32, spelled *[256]bool) {
	n := &c.p.nodes[at]
	c.m.Step(1)
	need := hopeless
	switch {
	case n.accept || n.repeat != nil && n.repeat.least == 0:
		need = 0
	case n.repeat != nil:
		need = 1 + int(c.needs[n.body])
	}
	for _, e := range n.edges {
		if isSpelled(e, spelled) {
			need = min(need, int(c.needs[e.To]))
		}
	}
	for _, l := range n.calls {
		frame := 1
		if l.last {
			frame = 0
		}
		need = min(need, max(frame+int(c.needs[l.start]), int(c.needs[l.back])))
	}
	if need > framesMax {
		need = hopeless
	}
	if need < int(c.needs[at]) {
		c.needs[at] = uint8(need)
		c.queue = append(c.queue, at)
	}
}

// refuseLeftRecursion refuses rules that could call themselves before a byte
// is taken: such a grammar says nothing about the next byte.
func (p *Program) refuseLeftRecursion(m *automaton.Meter) {
	r := recursion{p: p, m: m, empty: p.findEmpty(m), seen: make([]visit, len(p.nodes))}
	for i := range p.nodes {
		r.visit(int32(i), 0)
	}
	for i := range p.nodes {
		r.refuseWidth(int32(i))
	}
}

// refuseWidth refuses a node from which too many rules are entered before a
// byte is taken.
func (r *recursion) refuseWidth(at int32) {
	if len(r.p.nodes[at].calls) == 0 {
		return
	}
	entered, seen := []int32{at}, map[int32]bool{at: true}
	for i := 0; i < len(entered); i++ {
		r.m.Step(1)
		for _, l := range r.p.nodes[entered[i]].calls {
			if !seen[l.start] {
				seen[l.start] = true
				entered = append(entered, l.start)
			}
		}
		if len(entered) > widthMax {
			r.m.Refuse("more than %d definitions can begin at the same place", widthMax)
		}
	}
}

// A visit says how far a search has come with a node.
type visit uint8

const (
	unseen visit = iota
	underWay
	done
)

type recursion struct {
	p     *Program
	m     *automaton.Meter
	empty []bool
	seen  []visit
}

func (r *recursion) visit(at int32, depth int) {
	r.m.Step(1)
	switch {
	case r.seen[at] == underWay:
		r.m.Refuse("a value may not be defined as itself: a $ref leads back to where it stands with nothing in between")
	case r.seen[at] == done:
		return
	case depth > framesMax:
		r.m.Refuse("more than %d definitions refer to each other in a row", framesMax)
	}
	r.seen[at] = underWay
	n := &r.p.nodes[at]
	for _, l := range n.calls {
		r.visit(l.start, depth+1)
		if r.empty[l.start] && l.back != at {
			r.visit(l.back, depth+1)
		}
	}
	if n.repeat != nil {
		r.visit(n.body, depth+1)
		if r.empty[n.body] {
			r.m.Refuse("what is repeated must not be empty")
		}
	}
	r.seen[at] = done
}

// findEmpty finds the nodes from which the rule can end without another byte.
func (p *Program) findEmpty(m *automaton.Meter) []bool {
	empty := make([]bool, len(p.nodes))
	for changed := true; changed; {
		changed = false
		for i := len(p.nodes) - 1; i >= 0; i-- {
			m.Step(1)
			n := &p.nodes[i]
			now := n.accept || n.repeat != nil && (n.repeat.least == 0 || empty[n.body])
			for _, l := range n.calls {
				now = now || empty[l.start] && empty[l.back]
			}
			if now && !empty[i] {
				empty[i], changed = true, true
			}
		}
	}
	return empty
}
