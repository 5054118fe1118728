package cpu

import (
	"math"

	"parley/compute"
)

func (r *routes) reserve(l compute.Limits) {
	if l.Experts == 0 {
		return
	}
	grow(&r.chosen, l.Rows*l.Experts)
	grow(&r.source, l.Rows*l.Experts)
}

// choose finds the topK greatest scores of a row, of equals the first, and
// their weights: the softmax over all experts, or over the chosen ones with norm.
func (r *routes) choose(row, experts, topK int, norm bool) {
	probs := r.scores[row*experts:][:experts]
	refSoftmax(probs)
	chosen := r.chosen[row*topK:][:topK]
	var sum float32
	for i := range chosen {
		best := 0
		for e, p := range probs {
			if p > probs[best] {
				best = e
			}
		}
		insertRoute(chosen[:i+1], route{expert: best, weight: probs[best]})
		sum += probs[best]
		probs[best] = float32(math.Inf(-1))
	}
	if norm {
		for i := range chosen {
			chosen[i].weight /= sum
		}
	}
}

// insertRoute puts v into its place among sorted routes, whose last place is free.
func insertRoute(sorted []route, v route) {
	i := len(sorted) - 1
	for ; i > 0 && sorted[i-1].expert > v.expert; i-- {
		sorted[i] = sorted[i-1]
	}
	sorted[i] = v
}

// number gives slots to all routes.
func (r *routes) number(experts, topK int) {
	starts := grow(&r.starts, experts+1)
	clear(starts)
	for i := range r.chosen {
		starts[r.chosen[i].expert+1]++
	}
	for e := range experts {
		starts[e+1] += starts[e]
	}
	next := grow(&r.next, experts)
	copy(next, starts)
	for i := range r.chosen {
		c := &r.chosen[i]
		c.slot = next[c.expert]
		next[c.expert]++
		r.source[c.slot] = int32(i / topK)
	}
}

// Mixture gathers the rows of each expert, computes all experts together, and adds the results up.
func (c *CPU) Mixture(dst, src compute.Buffer, e *compute.Experts) {
	s, d := src.(*buffer), dst.(*buffer)
	topK := min(e.TopK, len(e.MLPs))
	c.route(s, e, topK)
	slots := len(c.routes.source)
	var first, second forms
	for i := range e.MLPs {
		m := &e.MLPs[i]
		for _, rows := range []int{1, slots} { // an expert has any number of rows up to that
			first |= m.Gate.(*weight).takes(rows) | m.Up.(*weight).takes(rows)
			second |= m.Down.(*weight).takes(rows)
		}
	}
	without := asColumns // rows of an expert need not begin a tile
	if slots > fewSlots {
		without |= asFew
	}
	in := c.prepare(c.gatherRows(s, c.routes.source), slots, s.cols, first&^without)
	width := c.reserveHidden(slots, &e.MLPs[0])
	for i := range e.MLPs {
		if first, n := c.routes.slots(i); n > 0 {
			c.addGated(in.part(first, n), &e.MLPs[i], first, width)
		}
	}
	c.multiply()
	inner := c.prepare(c.hidden, slots, width, second&^without)
	out := grow(&c.up, slots*d.cols)
	for i := range e.MLPs {
		if first, n := c.routes.slots(i); n > 0 {
			m := &e.MLPs[i]
			down := c.product(m.Down, m.DownBias, width, out[first*d.cols:], d.cols)
			c.jobs.multiply.add(multiplySpan{in: inner.part(first, n), first: down})
		}
	}
	c.multiply()
	j := &c.jobs.combine
	j.c, j.dst, j.out, j.topK = c, d, out, topK
	c.overRows(j, len(c.rows), topK*d.cols)
}

// slots returns the slots of an expert.
func (r *routes) slots(expert int) (first, n int) {
	return r.starts[expert], r.starts[expert+1] - r.starts[expert]
}

// route scores the experts for each row and chooses among them.
func (c *CPU) route(src *buffer, e *compute.Experts, topK int) {
	router, rows := e.Router.(*weight), len(c.rows)
	in := c.prepare(src.data, rows, src.cols, router.takes(rows))
	r := &c.routes
	grow(&r.scores, rows*router.rows)
	grow(&r.chosen, rows*topK)
	grow(&r.source, rows*topK)
	c.jobs.multiply.add(multiplySpan{in: in, first: c.product(router, nil, src.cols, r.scores, router.rows)})
	c.multiply()
	for row := range rows {
		r.choose(row, router.rows, topK, e.NormTopK)
	}
	r.number(router.rows, topK)
}

func (j *combineJob) run(_, from, to int) {
	for r := from; r < to; r++ {
		sum := j.dst.row(r)
		clear(sum)
		for _, route := range j.c.routes.chosen[r*j.topK:][:j.topK] {
			j.c.kernels.addWeighted(sum, j.out[route.slot*j.dst.cols:][:j.dst.cols], route.weight)
		}
	}
}
