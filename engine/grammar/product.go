package grammar

import (
	"cmp"
	"maps"
	"slices"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// none marks that one of two machines has fallen out of step for good.
const none int32 = -1

// combine runs two machines that call no rules side by side. It takes what
// accept says for each pair of verdicts. Where b has no way on, its verdict is
// false from there on.
func combine(m *meter, a, b *machine, accept func(a, b bool) bool) *machine {
	type pair struct{ a, b int32 }
	known := map[pair]int32{}
	var pairs []pair
	out := &machine{}
	state := func(p pair) int32 {
		at, ok := known[p]
		if !ok {
			m.node()
			m.step(5) // it costs that much more than a step elsewhere
			at = int32(len(pairs))
			known[p] = at
			pairs = append(pairs, p)
			out.nodes = append(out.nodes, stateOf(a, b, p.a, p.b, accept))
		}
		return at
	}
	state(pair{0, 0})
	for i := 0; i < len(pairs); i++ {
		p := pairs[i]
		var edges []edge
		for _, e := range a.nodes[p.a].edges {
			m.step(1)
			overlay(e, b, p.b, func(lo, hi byte, to int32) {
				m.step(1)
				if to != none || accept(true, false) {
					edges = appendEdge(edges, lo, hi, state(pair{e.to, to}))
				}
			})
		}
		out.nodes[i].edges = edges
	}
	return out
}

func stateOf(a, b *machine, x, y int32, accept func(a, b bool) bool) state {
	return state{accept: accept(a.nodes[x].accept, y != none && b.nodes[y].accept)}
}

// overlay cuts the bytes of e by the edges of b at node at and yields each part
// with the node of b that it leads to.
func overlay(e edge, b *machine, at int32, yield func(lo, hi byte, to int32)) {
	from := int(e.lo)
	if at != none {
		for _, f := range b.nodes[at].edges {
			lo, hi := max(from, int(f.lo)), min(int(e.hi), int(f.hi))
			if lo > hi {
				continue
			}
			if from < lo {
				yield(byte(from), byte(lo-1), none)
			}
			yield(byte(lo), byte(hi), f.to)
			from = hi + 1
		}
	}
	if from <= int(e.hi) {
		yield(byte(from), e.hi, none)
	}
}

// intersect takes what both take.
func intersect(m *meter, a, b *machine) *machine {
	return combine(m, a, b, func(x, y bool) bool { return x && y })
}

// subtract takes what a takes and b does not.
func subtract(m *meter, a, b *machine) *machine {
	return combine(m, a, b, func(x, y bool) bool { return x && !y })
}
