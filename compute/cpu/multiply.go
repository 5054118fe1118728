package cpu

import (
	"parley/compute"
	"parley/model/weights"
)

// Rows of activations and panels of weights are taken in groups that stay in a
// core's second-level cache, of which 2 MiB or less is assumed.
const (
	cachedInputBytes  = 256 << 10
	cachedWeightBytes = 512 << 10
	// groupRows bounds a group of rows, so that what a panel gives for them
	// stays in the first-level cache.
	groupRows = 96
	// tileMax is the most rows of a tile.
	tileMax = tileRows
	// unpackCols is how many columns of a panel are dequantized at a time; a
	// multiple of every type's block.
	unpackCols = 2048
	// itemsPerThread is how many items a multiplication is divided into, so
	// that threads of unequal speed end together.
	itemsPerThread = 6
)

// part returns some of the input's rows.
func (in input) part(first, rows int) input {
	in.rows, in.x, in.columns = rows, in.x[first*in.stride:], nil
	if in.quantized != nil {
		in.quantized = in.quantized[first*in.qStride:]
	}
	if in.brain != nil {
		in.brain = in.brain[first*in.brainStride:]
	}
	if in.few != nil {
		in.few = in.few[first*in.fewStride:]
	}
	return in
}

// facts returns where in a quantized row the facts about its blocks begin.
func (in *input) facts() int { return in.stride }

// quantizedBytes returns the size of a row of quantized activations: whole
// cache lines, so that no group of columns lies across two.
func quantizedBytes(cols int) int {
	const line = 64
	blocks := (cols + quantBlock - 1) / quantBlock
	return (blocks*(quantBlock+factBytes) + line - 1) / line * line
}

// multiply computes the spans collected in the job, and forgets them.
func (c *CPU) multiply() {
	j := &c.jobs.multiply
	if j.c == nil { // a worker that was overtaken may still read it
		j.c = c
	}
	j.divide(len(c.workers))
	if c.repeats(j) {
		c.pool.doRepeatable(j, len(j.items))
	} else {
		c.pool.do(j, len(j.items), 1)
	}
	j.forget()
}

// forget drops the spans.
func (j *multiplyJob) forget() {
	clear(j.spans)
	j.spans = j.spans[:0]
}

// divide lists the items: large ones first, because memory is fastest from end
// to end, and small ones last, so that threads of unequal speed end together.
func (j *multiplyJob) divide(threads int) {
	left := 0
	for i := range j.spans {
		left += j.spans[i].first.w.panels()
	}
	j.items = j.items[:0]
	for i := range j.spans {
		s := &j.spans[i]
		panels, most := s.first.w.panels(), j.c.panelsAtOnce(s)
		for from, n := 0, 0; from < panels; from += n {
			n = min(max(1, left*2/(threads*3)), most, panels-from)
			j.items = append(j.items, multiplyItem{i, from, from + n})
			left -= n
		}
	}
}

// panelsAtOnce returns how many panels of a span stay in the cache while rows pass over them.
func (c *CPU) panelsAtOnce(s *multiplySpan) int {
	switch {
	case s.brainy() && s.in.rows > brainSome:
		return s.first.w.brainPanels()
	case c.tiled(s):
		return s.first.w.openPanels()
	}
	return max(1, cachedWeightBytes/max(1, s.first.w.panelBytes))
}

func (j *multiplyJob) run(worker, from, to int) {
	for _, item := range j.items[from:to] {
		j.c.computeSpan(j.c.workers[worker], &j.spans[item.span], item.from, item.to)
	}
}

// computeSpan computes the outputs of the panels from..to, for one group of rows after the other.
func (c *CPU) computeSpan(w *worker, s *multiplySpan, from, to int) {
	if s.brainy() || c.tiled(s) {
		c.computeTiled(w, s, from, to)
		return
	}
	group := s.rowGroup()
	for start := 0; start < s.in.rows; start += group {
		end := min(start+group, s.in.rows)
		for panel := from; panel < to; panel++ {
			c.computePanel(w, &s.in, &s.first, panel, start, end)
		}
		if !s.gated {
			continue
		}
		for panel := from; panel < to; panel++ { // after all of the first: memory is fastest from end to end
			c.computePanel(w, &s.in, &s.second, panel, start, end)
			c.activatePanel(s, panel, start, end)
		}
	}
}

// rowGroup returns how many rows pass over a group of panels together. A
// matrix that must be unpacked takes all rows at once.
func (s *multiplySpan) rowGroup() int {
	if s.first.w.packed == nil || s.gated && s.second.w.packed == nil {
		return s.in.rows
	}
	rowBytes := 4 * s.in.stride
	if s.in.quantized != nil {
		rowBytes = s.in.qStride
	}
	return min(s.in.rows, groupRows, max(tileMax, cachedInputBytes/rowBytes/tileMax*tileMax))
}

// activatePanel replaces the gate of one panel by act(gate)·up.
func (c *CPU) activatePanel(s *multiplySpan, panel, start, end int) {
	for r := start; r < end; r++ {
		c.kernels.activate(s.act, s.first.cells(panel, r), s.second.cells(panel, r))
	}
}

// activate replaces gate by act(gate)·up.
func (k *kernelSet) activate(act compute.Activation, gate, up []float32) {
	n := len(gate) &^ (lanes - 1)
	if act == compute.GELUTanh {
		k.gateGELU(gate, up, n)
		plainGateGELU(gate[n:], up[n:], len(gate)-n)
		return
	}
	k.gateSiLU(gate, up, n)
	plainGateSiLU(gate[n:], up[n:], len(gate)-n)
}

// computePanel computes the outputs of one panel for the rows start..end.
func (c *CPU) computePanel(w *worker, in *input, p *product, panel, start, end int) {
	switch {
	case p.brainy(in):
		c.multiplyBrainRows(w, in, p, panel, panel+1, start, end)
	case p.w.packed == nil:
		c.multiplyStored(w, in, p, panel, start, end)
	case p.w.quantizes():
		c.multiplyPacked(w, in, p, panel, start, end)
	default:
		c.multiplyFloat(w, in, p, panel, start, end)
	}
	c.addBias(p, panel, start, end)
}

// addBias adds the bias to one panel's outputs for the rows start..end.
func (c *CPU) addBias(p *product, panel, start, end int) {
	if p.bias == nil {
		return
	}
	left, right := p.outputs(panel)
	for r := start; r < end; r++ {
		c.kernels.add(p.cells(panel, r), p.bias[left:right])
	}
}

// target returns where a kernel writes its tile: into the product's output,
// or, if the panel is not full, into the worker's own tile first.
func (p *product) target(w *worker, panel, row int) (out []float32, stride int) {
	if p.isFull(panel) {
		return p.from(panel, row), p.stride
	}
	return w.tile[:], panelOutputs
}

func (p *product) isFull(panel int) bool { return (panel+1)*panelOutputs <= p.w.rows }

// outputs returns which columns of the output a panel has.
func (p *product) outputs(panel int) (left, right int) {
	return panel * panelOutputs, min((panel+1)*panelOutputs, p.w.rows)
}

// from returns the output of a row from a panel on.
func (p *product) from(panel, row int) []float32 {
	return p.out[row*p.stride+panel*panelOutputs-p.left:]
}

// cells returns the output of a row and a panel.
func (p *product) cells(panel, row int) []float32 {
	left, right := p.outputs(panel)
	return p.from(panel, row)[:right-left]
}

// fetch brings the sums so far into the worker's tile.
func (p *product) fetch(w *worker, panel, row, rows int) {
	for r := range rows {
		copy(w.tile[r*panelOutputs:], p.cells(panel, row+r))
	}
}

// deliver copies the worker's tile to where it belongs.
func (p *product) deliver(w *worker, panel, row, rows int) {
	for r := range rows {
		copy(p.cells(panel, row+r), w.tile[r*panelOutputs:])
	}
}

// evenRows returns how many rows each tile has when none may have more than most.
func evenRows(rows, most int) int {
	if rows <= most {
		return rows
	}
	tiles := (rows + most - 1) / most
	return (rows + tiles - 1) / tiles
}

// fewRows is up to how many rows a kernel asks for its own panel ahead of time, and
// not for a part of the next one.
const fewRows = 4

// linesEach returns how many lines of the next panel to ask for with every
// block, if tiles of rows pass over this one: together they ask for all of it.
func linesEach(bytes, blocks, tiles int) int {
	perPass := (bytes + tiles*cacheLine - 1) / (tiles * cacheLine)
	return (perPass + blocks - 1) / blocks
}

func (c *CPU) multiplyPacked(w *worker, in *input, p *product, panel, start, end int) {
	gemm := c.kernels.gemmPacked[p.w.packing.kind]
	packed, blocks, full := p.w.panel(panel), p.w.cols/quantBlock, p.isFull(panel)
	var next []byte
	var lines int
	most := c.kernels.packedRows
	if end-start > fewRows && panel+1 < p.w.panels() {
		next = p.w.panel(panel + 1)
		lines = linesEach(len(next), blocks, (end-start+most-1)/most)
	}
	for row, rows := start, 0; row < end; row += rows {
		rows = evenRows(end-row, most)
		out, stride := p.target(w, panel, row)
		act := in.quantized[row*in.qStride:]
		gemm(rows, out, stride, act, act[in.facts():], in.qStride, packed, blocks, next, lines)
		next = next[min(len(next), lines*blocks*cacheLine):]
		if !full {
			p.deliver(w, panel, row, rows)
		}
	}
}

func (c *CPU) multiplyFloat(w *worker, in *input, p *product, panel, start, end int) {
	size := p.w.stored.Type.RowBytes(panelOutputs) // of a column
	for col := 0; col < p.w.cols; col += unpackCols {
		cols := min(unpackCols, p.w.cols-col)
		c.passFloats(w, in, p, panel, start, end, p.w.stored.Type, p.w.panel(panel)[col*size:], col, cols)
	}
}

// multiplyStored dequantizes a part of a panel and passes all rows over it,
// part after part.
func (c *CPU) multiplyStored(w *worker, in *input, p *product, panel, start, end int) {
	w.growUnpacked()
	for col := 0; col < p.w.cols; col += unpackCols {
		cols := min(unpackCols, p.w.cols-col)
		c.passFloats(w, in, p, panel, start, end, weights.F32, w.unpack(p.w, panel, col, cols), col, cols)
	}
}

// passFloats multiplies the rows start..end with some columns of a panel, the first of which is given.
func (c *CPU) passFloats(w *worker, in *input, p *product, panel, start, end int, t weights.DType, packed []byte,
	col, cols int) {
	gemm, wide := c.kernels.floats(t)
	full, more := p.isFull(panel), col > 0
	for row, rows := start, 0; row < end; row += rows {
		whole := in.columns != nil && row%tileRows == 0 && row+tileRows <= end
		if rows = tileRows; !whole {
			rows = min(evenRows(end-row, c.kernels.floatRows), end-row)
		}
		out, stride := p.target(w, panel, row)
		if more && !full {
			p.fetch(w, panel, row, rows)
		}
		if whole {
			wide(out, stride, in.columns[row*in.stride+col*tileRows:], packed, cols, more)
		} else {
			gemm(rows, out, stride, in.x[row*in.stride+col:], in.stride, packed, cols, more)
		}
		if !full {
			p.deliver(w, panel, row, rows)
		}
	}
}

// floats returns the kernels for panels of floats.
func (k *kernelSet) floats(t weights.DType) (gemmFloatFunc, gemmWideFunc) {
	switch t {
	case weights.F16:
		return k.gemmF16, k.wideF16
	case weights.BF16:
		return k.gemmBF16, k.wideBF16
	}
	return k.gemmF32, k.wideF32
}

func (w *worker) growUnpacked() {
	grow(&w.row, unpackCols)
	grow(&w.unpacked, unpackCols*panelOutputs)
}

// unpack dequantizes some columns of a panel to [cols][32] floats.
func (w *worker) unpack(m *weight, panel, col, cols int) []byte {
	t := m.stored.Type
	skip, size := t.RowBytes(col), t.RowBytes(cols)
	first := panel * panelOutputs
	row, out := w.row[:cols], w.unpacked[:cols*panelOutputs]
	for o := range min(panelOutputs, m.rows-first) {
		must(weights.Dequantize(row, t, m.stored.Row(first + o)[skip:][:size]))
		for k, v := range row {
			out[k*panelOutputs+o] = v
		}
	}
	return bytesOf(out)
}
