package cpu

import (
	"math"

	"parley/compute"
)

// tileBytes bounds what the queries of an item keep while they pass over the
// context, so that it stays in the first-level cache beside a block.
const tileBytes = 24 << 10

// segmentBlocks is how many blocks of positions are attended to in one go.
// Longer contexts are computed segment by segment and merged in order, so that
// several threads can work for one row.
const segmentBlocks = 16

// inlineBlocks is how many blocks, counted for each query, one thread attends
// to in less time than it takes to share the work.
const inlineBlocks = 96

// segments returns the first and last segment that the rows look at.
func (t *rowTile) segments() (first, last int) {
	return t.first / segmentBlocks, t.last / segmentBlocks
}

const allSegments = -1

// Attend computes the attention of each row over its context.
//
// For each row and head it goes block by block over the positions and keeps
// a running maximum, sum of weights and weighted sum of values. Rows share
// the loading of a block, and nothing else.
func (c *CPU) Attend(layer int, dst, q compute.Buffer, a *compute.Attention) {
	j := &c.jobs.attend
	j.c, j.layer, j.dst, j.q, j.a = c, layer, dst.(*buffer), q.(*buffer), a
	j.group = a.Heads.Query / a.Heads.KV
	j.kernels = c.kernels.attend[c.kv.shape.Type]
	if a.Heads.Dim%lanes != 0 {
		twin := &plainKernels.attend[c.kv.shape.Type]
		j.kernels.weigh, j.kernels.addValues, j.kernels.whole = twin.weigh, twin.addValues, nil
	}
	work := j.divide()
	segmented := j.share(len(c.workers))
	for _, w := range c.workers {
		w.attend.reserve(j.tile*j.group, j.heads, a.Heads.Dim)
	}
	if work <= inlineBlocks && !segmented {
		j.run(0, 0, len(j.items))
		return
	}
	if segmented {
		growDoubling(&j.partials, len(j.items)*j.stateSize())
	}
	c.pool.do(j, len(j.items), 1)
	if segmented {
		c.jobs.merge.attendJob = j
		c.overRows(&c.jobs.merge, len(j.firsts)-1, len(j.items)/(len(j.firsts)-1)*j.stateSize())
	}
}

// tileQueries returns how many queries fit into the first-level cache.
func (j *attendJob) tileQueries() int {
	return tileBytes / 4 / (2*j.a.Heads.Dim + stateHead + lanes)
}

// divide lists the tiles, the later ones of a prompt first: they take longest.
// It returns how many blocks there are for all queries.
func (j *attendJob) divide() (work int) {
	most := 1
	for i := range j.c.step.Seqs {
		most = max(most, j.c.step.Seqs[i].Rows)
	}
	j.tile = min(most, compute.BlockTokens, max(1, j.tileQueries()/j.group))
	j.tiles = j.tiles[:0]
	for i := range j.c.step.Seqs {
		seq := &j.c.step.Seqs[i]
		for end := seq.Rows; end > 0; end -= j.tile {
			start := max(0, end-j.tile)
			t := rowTile{row: seq.Row + start, rows: end - start}
			t.first = j.firstSeen(seq.Past+start) / compute.BlockTokens
			t.last = (seq.Past + end - 1) / compute.BlockTokens
			j.tiles = append(j.tiles, t)
			work += t.rows * j.a.Heads.Query * (t.last - t.first + 1)
		}
	}
	return work
}

// share lists the items and reports whether they are segments, which they are
// if the longest tile would otherwise be more than an item's share of the
// work: too few tiles, or a long context among short ones. It takes as many
// heads at once as leave enough items for the threads.
func (j *attendJob) share(threads int) (segmented bool) {
	want, kv := threads*itemsPerThread, j.a.Heads.KV
	segments, longest := 0, 0
	for i := range j.tiles {
		first, last := j.tiles[i].segments()
		segments += last - first + 1
		longest = max(longest, last-first+1)
	}
	ranges := func() int { return (kv + j.heads - 1) / j.heads }
	j.heads = min(kv, max(1, j.tileQueries()/(j.tile*j.group)))
	for j.heads > 1 && segments*ranges() < want {
		j.heads = (j.heads + 1) / 2
	}
	segmented = threads > 1 && longest > 1 && longest*want > segments
	j.items, j.firsts = j.items[:0], j.firsts[:0]
	for tile := range j.tiles {
		for head := 0; head < kv; head += j.heads {
			j.firsts = append(j.firsts, len(j.items))
			j.list(attendItem{tile, head, min(j.heads, kv-head), allSegments}, segmented)
		}
	}
	j.firsts = append(j.firsts, len(j.items))
	return segmented
}

// list adds an item, or one for each of its segments.
func (j *attendJob) list(item attendItem, segmented bool) {
	if !segmented {
		j.items = append(j.items, item)
		return
	}
	first, last := j.tiles[item.tile].segments()
	for item.segment = first; item.segment <= last; item.segment++ {
		j.items = append(j.items, item)
	}
}

func (s *attendScratch) reserve(queries, heads, dim int) {
	grow(&s.queries, heads*queries*dim)
	grow(&s.scores, queries*lanes)
	grow(&s.states, heads*queries*(stateHead+dim))
	grow(&s.totals, heads*queries*(stateHead+dim))
	grow(&s.open, openedBlock(dim))
}

// openedBlock returns the size of a widened block and head.
func openedBlock(dim int) int { return 2 * lanes * (dim + 1) }

// growDoubling is grow for what becomes longer bit by bit.
func growDoubling(s *[]float32, n int) {
	if cap(*s) < n {
		*s = make([]float32, 2*n)
	}
}

// stateSize returns the greatest length of the states of an item.
func (j *attendJob) stateSize() int {
	return j.heads * j.tile * j.group * (stateHead + j.a.Heads.Dim)
}

func (j *attendJob) run(worker, from, to int) {
	s := &j.c.workers[worker].attend
	for i := from; i < to; i++ {
		item := &j.items[i]
		j.loadQueries(s, item)
		if item.segment == allSegments {
			j.attendAll(s, item)
		} else {
			j.attendSegment(s, j.partial(i), item, item.segment)
		}
	}
}

// partial returns the states of one item.
func (j *attendJob) partial(item int) []float32 {
	n := j.stateSize()
	return j.partials[item*n:][:n]
}

// queries returns how many queries of an item belong to one head, and how many it has.
func (j *attendJob) queries(item *attendItem) (perHead, all int) {
	perHead = j.tiles[item.tile].rows * j.group
	return perHead, perHead * item.heads
}

func (j *attendJob) loadQueries(s *attendScratch, item *attendItem) {
	t, n := &j.tiles[item.tile], j.group*j.a.Heads.Dim
	dst := s.queries
	for head := item.head; head < item.head+item.heads; head++ {
		for r := range t.rows {
			copy(dst[:n], j.q.row(t.row + r)[head*n:])
			dst = dst[n:]
		}
	}
}

func (j *attendJob) attendAll(s *attendScratch, item *attendItem) {
	first, last := j.tiles[item.tile].segments()
	j.attendSegment(s, s.totals, item, first)
	for segment := first + 1; segment <= last; segment++ {
		j.attendSegment(s, s.states, item, segment)
		j.merge(s.totals, s.states, item)
	}
	j.finish(s.totals, item)
}

// attendSegment sets states to those of one segment.
func (j *attendJob) attendSegment(s *attendScratch, states []float32, item *attendItem, segment int) {
	size := stateHead + j.a.Heads.Dim
	perHead, all := j.queries(item)
	clear(states[:all*size])
	for i := range all {
		states[i*size+stateTop] = float32(math.Inf(-1))
	}
	t := &j.tiles[item.tile]
	first, last := max(t.first, segment*segmentBlocks), min(t.last, (segment+1)*segmentBlocks-1)
	for h := range item.heads {
		v := blockView{
			j:       j,
			tile:    t,
			head:    item.head + h,
			scratch: s,
			states:  states[h*perHead*size:],
			queries: s.queries[h*perHead*j.a.Heads.Dim:],
		}
		v.attend(first, last+1)
	}
}

func (j *mergeJob) run(_, from, to int) {
	for i := from; i < to; i++ {
		first, end := j.firsts[i], j.firsts[i+1]
		totals, item := j.partial(first), &j.items[first]
		for next := first + 1; next < end; next++ {
			j.merge(totals, j.partial(next), item)
		}
		j.finish(totals, item)
	}
}

// merge adds the states of the next segment to the totals.
func (j *attendJob) merge(totals, states []float32, item *attendItem) {
	size := stateHead + j.a.Heads.Dim
	_, all := j.queries(item)
	for i := range all {
		j.c.kernels.mergeState(totals[i*size:][:size], states[i*size:][:size])
	}
}

func (k *kernelSet) mergeState(total, state []float32) {
	if math.IsInf(float64(state[stateTop]), -1) {
		return
	}
	top := max(total[stateTop], state[stateTop])
	k.merge(total, state, expOrZero(total[stateTop]-top), expOrZero(state[stateTop]-top))
	total[stateTop] = top
}

// finish writes the results of an item: the weighted sums of values, divided by the sums of weights.
func (j *attendJob) finish(totals []float32, item *attendItem) {
	t, dim := &j.tiles[item.tile], j.a.Heads.Dim
	for head := item.head; head < item.head+item.heads; head++ {
		for r := range t.rows {
			out := j.dst.row(t.row + r)[head*j.group*dim:]
			for g := range j.group {
				j.c.kernels.scale(out[g*dim:], totals[stateHead:stateHead+dim], 1/fold(totals[:lanes]))
				totals = totals[stateHead+dim:]
			}
		}
	}
}

// firstSeen returns the first position that a row at pos looks at.
func (j *attendJob) firstSeen(pos int) int {
	if j.a.Window <= 0 {
		return 0
	}
	return max(0, pos-j.a.Window+1)
}

// A blockView is how the rows of a tile see the context through one head.
// States and queries are those of that head.
type blockView struct {
	j               *attendJob
	tile            *rowTile
	head            int
	scratch         *attendScratch
	states, queries []float32

	// Of the current block, which begins at position start:
	start, begin, end int // rows begin..end see some of it
	values            []byte
}

// attend takes the blocks first..end into the states of those rows that see
// some of them, those that all rows see whole in one go.
func (v *blockView) attend(first, end int) {
	from, to := v.whole(first, end)
	if v.j.kernels.whole == nil {
		from, to = end, end
	}
	for block := first; block < from; block++ {
		v.attendBlock(block)
	}
	v.attendWhole(from, to)
	for block := to; block < end; block++ {
		v.attendBlock(block)
	}
}

// whole returns which of the blocks first..end all rows of the tile see whole.
func (v *blockView) whole(first, end int) (from, to int) {
	pos := v.j.c.rows[v.tile.row].pos
	last := pos + v.tile.rows - 1
	from = (v.j.firstSeen(last) + compute.BlockTokens - 1) / compute.BlockTokens
	from = min(max(from, first), end)
	return from, max(from, min(end, (pos+1)/compute.BlockTokens))
}

func (v *blockView) attendWhole(from, to int) {
	j, seq := v.j, v.j.c.rows[v.tile.row].seq
	blocks := seq.Blocks[from:to]
	if len(blocks) == 0 {
		return
	}
	for _, block := range blocks { // the kernel checks no bounds
		j.c.kv.head(block, j.layer, v.head)
	}
	keys, valuesAt := j.c.kv.from(j.layer, v.head)
	j.kernels.whole(v.states, v.scratch.scores, v.queries, keys, blocks, int(j.c.kv.shape.BlockBytes()), valuesAt,
		j.a.Heads.Dim, v.tile.rows*j.group, j.a.Scale, v.scratch.open)
}

// attendBlock takes one block into the states.
func (v *blockView) attendBlock(block int) {
	j, at, dim := v.j, &v.j.c.rows[v.tile.row], v.j.a.Heads.Dim
	var keys []byte
	keys, v.values = j.c.kv.head(at.seq.Blocks[block], j.layer, v.head)
	v.start = block * compute.BlockTokens
	v.begin, v.end = max(0, v.start-at.pos), v.tile.rows
	if j.a.Window > 0 {
		v.end = min(v.end, v.start+compute.BlockTokens-1+j.a.Window-at.pos)
	}
	j.prefetch(at.seq, block+1, v.head)
	j.kernels.scores(v.scratch.scores, v.queries[v.begin*j.group*dim:], keys, dim, (v.end-v.begin)*j.group)
	v.absorb()
}

// prefetch asks for the next block while the current one is computed: blocks
// lie far apart, so the processor does not foresee them.
func (j *attendJob) prefetch(seq *compute.Seq, block, head int) {
	if block < len(seq.Blocks) {
		keys, values := j.c.kv.head(seq.Blocks[block], j.layer, head)
		prefetch(keys)
		prefetch(values)
	}
}

// visible returns which tokens of the block a row of the tile looks at.
// Neither bound is less than that of an earlier row.
func (v *blockView) visible(row int) (from, to int) {
	pos := v.j.c.rows[v.tile.row].pos + row
	return max(0, v.j.firstSeen(pos)-v.start), min(compute.BlockTokens, pos-v.start+1)
}

// absorb takes the block into the states. What all rows see is added for all
// of them together, what only some do before and after it, row by row: for
// each row the tokens come in their order.
func (v *blockView) absorb() {
	firstFrom, to := v.visible(v.begin)
	from, lastTo := v.visible(v.end - 1)
	if firstFrom == from && lastTo == to {
		v.weigh(v.begin, v.end, from, to)
		v.add(v.begin, v.end, from, to)
		return
	}
	for r := v.begin; r < v.end; r++ {
		f, t := v.visible(r)
		v.weigh(r, r+1, f, t)
		v.add(r, r+1, f, min(from, t))
	}
	v.add(v.begin, v.end, from, to)
	for r := v.begin; r < v.end; r++ {
		_, t := v.visible(r)
		v.add(r, r+1, max(from, to), t)
	}
}

// weigh turns the scores of some rows into weights.
func (v *blockView) weigh(row, end, from, to int) {
	g, dim := v.j.group, v.j.a.Heads.Dim
	v.j.kernels.weigh(v.states[row*g*(stateHead+dim):], v.scratch.scores[(row-v.begin)*g*lanes:], v.values, dim,
		(end-row)*g, from, to, v.j.a.Scale)
}

// add adds the weighted values of some tokens to the states of some rows.
func (v *blockView) add(row, end, from, to int) {
	if from >= to {
		return
	}
	g, dim := v.j.group, v.j.a.Heads.Dim
	v.j.kernels.addValues(v.states[row*g*(stateHead+dim):], v.scratch.scores[(row-v.begin)*g*lanes:], v.values, dim,
		(end-row)*g, from, to)
}
