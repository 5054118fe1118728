package grammar

import (
	"parley/engine/automaton"
	"slices"
	"strings"
)

// pickedMax bounds how many states a picker has that counts.
const pickedMax = 4096

// A picker writes a list whose elements are picked out of texts, in their order. Some must be
// picked, and there may be bounds to how many are. The texts that begin alike are one path
// until they differ, as few as possible: for each place in a text there is one node for
// each text that could be the next.
type picker struct {
	s        *automaton.Sketch
	texts    []string
	required []bool // nil if none is
	// least and most bound the elements; a negative most means no bound.
	least, most int
	end         int32
	// more takes an element that is not among the texts, if there may be such. They come
	// last, and only one of them counts for sure: the others may be the same again.
	more func(from int32) int32

	order []int // of the texts, sorted
	nodes map[pick]int32
	begun map[pickPlace]int32
	after func(i int, from int32) int32
	queue []pick
}

// A pick is where the next element is one from text on.
type pick struct {
	text int
	counts
	// others: an element that is not among the texts was written.
	others bool
}

// counts are how many elements were written, as far as it matters: sure are those that are
// certainly different, up to least, and written all of them, if there is a bound.
type counts struct{ sure, written int }

// A pickPlace is a place in those of the sorted texts between from and to that come at
// least or later, behind their first depth bytes.
type pickPlace struct {
	from, to, depth, least int
	counts
}

func newPicker(s *automaton.Sketch, texts []string, required []bool, least, most int, end int32) *picker {
	p := &picker{
		s:        s,
		texts:    texts,
		required: required,
		least:    least,
		most:     most,
		end:      end,
		nodes:    map[pick]int32{},
		begun:    map[pickPlace]int32{},
	}
	if required == nil {
		p.required = make([]bool, len(texts))
	}
	for i := range texts {
		p.order = append(p.order, i)
	}
	slices.SortFunc(p.order, func(a, b int) int { return strings.Compare(texts[a], texts[b]) })
	return p
}

// settle drops bounds that hold anyway.
func (p *picker) settle() {
	sure := 0
	for _, is := range p.required {
		if is {
			sure++
		}
	}
	if p.least <= sure {
		p.least = 0
	}
	if p.most >= len(p.texts) && p.more == nil {
		p.most = -1
	}
}

// counting is how many different counts there are.
func (p *picker) counting() int { return (max(p.least, 0) + 1) * (max(p.most, 0) + 1) }

// write takes the list; after takes what follows the i-th text.
func (p *picker) write(at int32, after func(i int, from int32) int32) {
	p.after = after
	start := pick{}
	if p.mayEnd(start) {
		p.s.Link(at, p.end)
	}
	if p.most != 0 {
		p.s.Link(at, p.node(start))
	}
	for len(p.queue) > 0 {
		next := p.queue[len(p.queue)-1]
		p.queue = p.queue[:len(p.queue)-1]
		p.expand(next)
	}
}

// node returns the node of a pick, which is written down later.
func (p *picker) node(at pick) int32 {
	n, known := p.nodes[at]
	if !known {
		n = p.s.Node()
		p.nodes[at] = n
		p.queue = append(p.queue, at)
	}
	return n
}

// mayEnd reports whether the list may end at a pick, before which no comma was taken.
func (p *picker) mayEnd(at pick) bool {
	return at.sure >= p.least && !slices.Contains(p.required[at.text:], true)
}

func (p *picker) expand(at pick) {
	node := p.nodes[at]
	if !at.others {
		if to := p.place(pickPlace{to: len(p.order), least: at.text, counts: at.counts}); to != automaton.None {
			p.s.Link(node, to)
		}
	}
	if p.more != nil && !slices.Contains(p.required[at.text:], true) {
		next := pick{text: len(p.texts), counts: at.counts, others: true}
		next.written++
		if !at.others {
			next.sure++
		}
		p.follow(p.more(node), next)
	}
}

// follow continues behind an element.
func (p *picker) follow(after int32, next pick) {
	next.sure = min(next.sure, p.least)
	if p.most < 0 {
		next.written = 0
	}
	if p.mayEnd(next) {
		p.s.Link(after, p.end)
	}
	if (p.most < 0 || next.written < p.most) && (next.text < len(p.texts) || p.more != nil) {
		p.s.Link(p.s.Comma(after), p.node(next))
	}
}

// place returns the node of a place, or none if no text can be picked there.
func (p *picker) place(at pickPlace) int32 {
	at, found := p.shrink(at)
	if !found {
		return automaton.None
	}
	if n, known := p.begun[at]; known {
		return n
	}
	n := p.s.Node()
	p.begun[at] = n
	last := p.last(at.least)
	for i := at.from; i < at.to; {
		text := p.texts[p.order[i]]
		if len(text) == at.depth {
			if k := p.order[i]; k >= at.least && k <= last {
				next := pick{text: k + 1, counts: at.counts}
				next.sure, next.written = next.sure+1, next.written+1
				p.follow(p.after(k, n), next)
			}
			i++
			continue
		}
		b, from := text[at.depth], i
		for i < at.to && len(p.texts[p.order[i]]) > at.depth && p.texts[p.order[i]][at.depth] == b {
			i++
		}
		to := p.place(pickPlace{from, i, at.depth + 1, at.least, at.counts})
		if to != automaton.None {
			p.s.Take(n, b, b, to)
		}
	}
	return n
}

// last is the last text that may be the next where least is the first.
func (p *picker) last(least int) int {
	for i := least; i < len(p.texts); i++ {
		if p.required[i] {
			return i
		}
	}
	return len(p.texts) - 1
}

// shrink drops the texts that cannot be picked from both ends of a place, and makes least
// the first that can.
func (p *picker) shrink(at pickPlace) (pickPlace, bool) {
	last := p.last(at.least)
	p.s.Meter.Step(1 + (at.to-at.from)/8)
	out := pickPlace{from: -1, least: len(p.texts), depth: at.depth, counts: at.counts}
	for i := at.from; i < at.to; i++ {
		if k := p.order[i]; k >= at.least && k <= last {
			if out.from < 0 {
				out.from = i
			}
			out.to, out.least = i+1, min(out.least, k)
		}
	}
	return out, out.from >= 0
}
