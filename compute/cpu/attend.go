package cpu

import (
	"math"

	"parley/compute"
)

// tileBytes bounds what the queries of a tile keep while they pass over the
// context, so that it stays in the first-level cache beside a block.
const tileBytes = 24 << 10

// segmentBlocks is how many blocks of positions are attended to in one go.
// Longer contexts are computed segment by segment and merged in order, so that
// several threads can work for one row.
const segmentBlocks = 32

// inlineBlocks is how many blocks, counted for each query, one thread attends
// to in less time than it takes to share the work.
const inlineBlocks = 96

// attendScratch is what a worker keeps for a tile of queries.
type attendScratch struct {
	queries []float32 // [query][dim]
	scores  []float32 // [query][16]
	states  []float32 // [query][stateHead+dim]
	totals  []float32 // the same, over all segments so far
}

// A rowTile is some rows of one sequence that pass over its context together.
type rowTile struct{ row, rows int }

// attendJob computes attention. An item is one tile and one key/value head,
// or, if that makes too few, one segment of these.
type attendJob struct {
	c        *CPU
	layer    int
	dst, q   *buffer
	a        *compute.Attention
	group    int // queries that share a head of keys and values
	tile     int // most rows of a tile
	tiles    []rowTile
	kernels  attendKernels
	segments int       // of the longest context, if they are items, else 0
	partials []float32 // states of all items
}

// Attend computes the attention of each row over its context.
//
// For each row and head it goes block by block over the positions and keeps
// a running maximum, sum of weights and weighted sum of values. Rows share
// the loading of a block, and nothing else.
func (c *CPU) Attend(layer int, dst, q compute.Buffer, a *compute.Attention) {
	j := &c.jobs.attend
	j.c, j.layer, j.dst, j.q, j.a = c, layer, dst.(*buffer), q.(*buffer), a
	dim := a.Heads.Dim
	j.group = a.Heads.Query / a.Heads.KV
	j.kernels = c.kernels.attend[c.kv.shape.Type]
	if dim%lanes != 0 {
		j.kernels.absorb = plainKernels.attend[c.kv.shape.Type].absorb
	}
	j.tile = j.tileRows()
	segments, work := j.divide()
	for _, w := range c.workers {
		w.attend.reserve(j.tile*j.group, dim)
	}
	items := len(j.tiles) * a.Heads.KV
	j.segments = 0
	switch {
	case work <= inlineBlocks:
		j.run(0, 0, items)
	case segments == 1 || items >= len(c.workers)*itemsPerThread:
		c.pool.do(j, items, 1)
	default:
		j.segments = segments
		growDoubling(&j.partials, items*segments*j.stateSize())
		c.pool.do(j, items*segments, 1)
		c.jobs.merge.attendJob = j
		c.overRows(&c.jobs.merge, items, segments*j.stateSize())
	}
}

// tileRows returns how many rows a tile has at most: no more than fit, nor than any sequence has.
func (j *attendJob) tileRows() int {
	perQuery := 2*j.a.Heads.Dim + stateHead + lanes
	most := 1
	for i := range j.c.step.Seqs {
		most = max(most, j.c.step.Seqs[i].Rows)
	}
	return min(most, compute.BlockTokens, max(1, tileBytes/4/perQuery/j.group))
}

func (s *attendScratch) reserve(queries, dim int) {
	grow(&s.queries, queries*dim)
	grow(&s.scores, queries*lanes)
	grow(&s.states, queries*(stateHead+dim))
	grow(&s.totals, queries*(stateHead+dim))
}

// growDoubling is grow for what becomes longer bit by bit.
func growDoubling(s *[]float32, n int) {
	if cap(*s) < n {
		*s = make([]float32, 2*n)
	}
}

// stateSize returns the length of the states of a tile.
func (j *attendJob) stateSize() int { return j.tile * j.group * (stateHead + j.a.Heads.Dim) }

// divide lists the tiles, the later ones of a prompt first: they take
// longest. It returns how many segments the longest context has, and how many
// blocks there are for all queries.
func (j *attendJob) divide() (segments, work int) {
	j.tiles = j.tiles[:0]
	for i := range j.c.step.Seqs {
		seq := &j.c.step.Seqs[i]
		for end := seq.Rows; end > 0; end -= j.tile {
			start := max(0, end-j.tile)
			t := rowTile{seq.Row + start, end - start}
			j.tiles = append(j.tiles, t)
			first, last := j.extent(t)
			segments = max(segments, last/segmentBlocks-first/segmentBlocks+1)
			work += t.rows * j.a.Heads.Query * (last - first + 1)
		}
	}
	return segments, work
}

// extent returns the first and last block that the rows of a tile look at.
func (j *attendJob) extent(t rowTile) (first, last int) {
	pos := j.c.rows[t.row].pos
	return j.firstSeen(pos) / compute.BlockTokens, (pos + t.rows - 1) / compute.BlockTokens
}

func (j *attendJob) run(worker, from, to int) {
	s := &j.c.workers[worker].attend
	for i := from; i < to; i++ {
		if j.segments == 0 {
			j.attendTile(s, j.tiles[i/j.a.Heads.KV], i%j.a.Heads.KV)
			continue
		}
		item, segment := i/j.segments, i%j.segments
		t, head := j.tiles[item/j.a.Heads.KV], item%j.a.Heads.KV
		first, last := j.extent(t)
		segment += first / segmentBlocks
		if segment <= last/segmentBlocks {
			j.loadQueries(s, t, head)
			j.attendSegment(s, j.partial(i), t, head, segment)
		}
	}
}

// partial returns the states of one item.
func (j *attendJob) partial(item int) []float32 {
	n := j.stateSize()
	return j.partials[item*n:][:n]
}

func (j *attendJob) attendTile(s *attendScratch, t rowTile, head int) {
	j.loadQueries(s, t, head)
	first, last := j.extent(t)
	j.attendSegment(s, s.totals, t, head, first/segmentBlocks)
	for segment := first/segmentBlocks + 1; segment <= last/segmentBlocks; segment++ {
		j.attendSegment(s, s.states, t, head, segment)
		j.merge(s.totals, s.states, t)
	}
	j.finish(s.totals, t, head)
}

func (j *attendJob) loadQueries(s *attendScratch, t rowTile, head int) {
	n := j.group * j.a.Heads.Dim
	for r := range t.rows {
		copy(s.queries[r*n:][:n], j.q.row(t.row + r)[head*n:])
	}
}

// attendSegment sets states to those of one segment.
func (j *attendJob) attendSegment(s *attendScratch, states []float32, t rowTile, head, segment int) {
	size := stateHead + j.a.Heads.Dim
	clear(states[:t.rows*j.group*size])
	for i := range t.rows * j.group {
		states[i*size+stateTop] = float32(math.Inf(-1))
	}
	first, last := j.extent(t)
	first, last = max(first, segment*segmentBlocks), min(last, (segment+1)*segmentBlocks-1)
	for block := first; block <= last; block++ {
		j.attendBlock(s, states, t, head, block)
	}
}

// mergeJob merges the segments of each tile and head.
type mergeJob struct{ *attendJob }

func (j *mergeJob) run(_, from, to int) {
	for item := from; item < to; item++ {
		t, head := j.tiles[item/j.a.Heads.KV], item%j.a.Heads.KV
		first, last := j.extent(t)
		totals := j.partial(item * j.segments)
		for i := 1; i <= last/segmentBlocks-first/segmentBlocks; i++ {
			j.merge(totals, j.partial(item*j.segments+i), t)
		}
		j.finish(totals, t, head)
	}
}

// merge adds the states of the next segment to the totals.
func (j *attendJob) merge(totals, states []float32, t rowTile) {
	size := stateHead + j.a.Heads.Dim
	for i := range t.rows * j.group {
		mergeState(totals[i*size:][:size], states[i*size:][:size])
	}
}

func mergeState(total, state []float32) {
	if math.IsInf(float64(state[stateTop]), -1) {
		return
	}
	top := max(total[stateTop], state[stateTop])
	keep, add := expOrZero(total[stateTop]-top), expOrZero(state[stateTop]-top)
	for i, v := range state {
		total[i] = total[i]*keep + v*add
	}
	total[stateTop] = top
}

// finish writes the results of a tile.
func (j *attendJob) finish(totals []float32, t rowTile, head int) {
	dim := j.a.Heads.Dim
	for r := range t.rows {
		out := j.dst.row(t.row + r)[head*j.group*dim:]
		for g := range j.group {
			finishAttention(out[g*dim:][:dim], totals[(r*j.group+g)*(stateHead+dim):][:stateHead+dim])
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

// attendBlock takes one block of the context into the states of those rows that see some of it.
func (j *attendJob) attendBlock(s *attendScratch, states []float32, t rowTile, head, block int) {
	dim, group := j.a.Heads.Dim, j.group
	at := &j.c.rows[t.row]
	start := block * compute.BlockTokens
	keys, values := j.c.kv.head(at.seq.Blocks[block], j.layer, head)
	begin, end := max(0, start-at.pos), t.rows
	if j.a.Window > 0 {
		end = min(end, start+compute.BlockTokens-1+j.a.Window-at.pos)
	}
	j.prefetch(at.seq, block+1, head)
	j.kernels.scores(s.scores, s.queries[begin*group*dim:], keys, dim, (end-begin)*group)
	scores := s.scores
	for r := begin; r < end; {
		from, to := j.visible(at.pos+r, start)
		rows := 1
		for r+rows < end && j.sees(at.pos+r+rows, start, from, to) {
			rows++
		}
		j.kernels.absorb(states[r*group*(stateHead+dim):], scores, values, dim, rows*group, from, to, j.a.Scale)
		scores = scores[rows*group*lanes:]
		r += rows
	}
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

// visible returns which tokens of the block that begins at start a row at pos looks at.
func (j *attendJob) visible(pos, start int) (from, to int) {
	return max(0, j.firstSeen(pos)-start), min(compute.BlockTokens, pos-start+1)
}

// sees reports whether a row at pos looks at exactly these tokens.
func (j *attendJob) sees(pos, start, from, to int) bool {
	f, t := j.visible(pos, start)
	return f == from && t == to
}

// finishAttention divides the weighted sum of values by the sum of weights.
func finishAttention(dst, state []float32) {
	scale := 1 / fold(state[:lanes])
	for i, v := range state[stateHead:] {
		dst[i] = v * scale
	}
}
