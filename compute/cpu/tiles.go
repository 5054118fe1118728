package cpu

import "unsafe"

// Many rows of quantized activations are multiplied by the processor's matrix
// unit. It takes weights as signed bytes, so a few panels are unpacked at a
// time and all rows pass over them. The results are those of the other
// kernels bit by bit: products of integers are exact, and they are scaled and
// added block by block in the same order.
const (
	// tileRows is how many rows a tile has.
	tileRows = 12
	// tiledFrom is from how many rows on unpacking pays.
	tiledFrom = 64
	// openMost is the most memory for unpacked panels. They and the rows that
	// pass stay in the second-level cache.
	openMost = 900 << 10
	// passedBytes bounds the activations that pass over one panel after the other.
	passedBytes = 160 << 10
	// callBlocks bounds the products of a tile and a block in one call, which takes about 100 µs.
	callBlocks = 2048
	// openReserve is room for openMost bytes of panels and the block beyond, and
	// for what bfloat16 needs.
	openReserve = max(openMost+blockWeights+2*4*panelOutputs, brainOpen)
	// productBytes is the size of the products of a tile.
	productBytes = tileRows * panelOutputs * 4
)

// openBytes returns the size of an unpacked block.
func (q *packing) openBytes() int {
	lots := q.subs
	if q.mins {
		lots++
	}
	return blockWeights + lots*4*panelOutputs
}

// tiled reports whether the matrix unit computes the span.
func (c *CPU) tiled(s *multiplySpan) bool {
	return c.kernels.tiles != nil && s.in.rows >= tiledFrom && s.first.w.quantizes() && (!s.gated ||
		s.second.w.quantizes())
}

// openPanels returns how many panels of a matrix are unpacked at a time.
func (w *weight) openPanels() int {
	return max(1, openMost/(w.cols/quantBlock*w.packing.openBytes()))
}

// computeTiled computes the outputs of the panels from..to.
func (c *CPU) computeTiled(w *worker, s *multiplySpan, from, to int) {
	multiply := c.multiplyTiled
	if s.brainy() {
		multiply = c.multiplyBrain
	}
	multiply(w, &s.in, &s.first, from, to)
	if s.gated {
		multiply(w, &s.in, &s.second, from, to)
	}
	for panel := from; panel < to; panel++ {
		c.addBias(&s.first, panel, 0, s.in.rows)
		if s.gated {
			c.addBias(&s.second, panel, 0, s.in.rows)
			c.activatePanel(s, panel, 0, s.in.rows)
		}
	}
}

// multiplyTiled unpacks some panels, and passes all rows over them.
func (c *CPU) multiplyTiled(w *worker, in *input, p *product, from, to int) {
	q, blocks, most := p.w.packing, p.w.cols/quantBlock, p.w.openPanels()
	size := blocks * q.openBytes()
	w.growProducts()
	open := grow(&w.open, most*size+q.openBytes()) // kernels read a block beyond the last
	group := tileRows * max(1, min(passedBytes/in.qStride, groupRows, callBlocks*tileRows/blocks)/tileRows)
	for ; from < to; from += most {
		end := min(from+most, to)
		for panel := from; panel < end; panel++ {
			c.kernels.tiles.unpack[q.kind](open[(panel-from)*size:], p.w.panel(panel), blocks)
		}
		for row := 0; row < in.rows; row += group {
			for panel := from; panel < end; panel++ {
				c.passRows(w, in, p, panel, row, min(row+group, in.rows), open[(panel-from)*size:])
			}
		}
	}
}

// growProducts makes room for the products of a tile. Where its rows lie across
// cache lines, the matrix unit takes many times as long to write them.
func (w *worker) growProducts() {
	if w.products == nil {
		w.products = alignedBytes(productBytes)
	}
}

// alignedBytes returns n bytes that begin at a cache line.
func alignedBytes(n int) []byte {
	const line = 64
	b := make([]byte, n+line)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (line - 1)
	return b[skip:][:n:n]
}

// passRows multiplies the rows start..end with an unpacked panel. What is not a
// whole tile is computed beside the output.
func (c *CPU) passRows(w *worker, in *input, p *product, panel, start, end int, open []byte) {
	gemm, blocks := c.kernels.tiles.gemm[p.w.packing.kind], p.w.cols/quantBlock
	if whole := (end - start) / tileRows; p.isFull(panel) && whole > 0 {
		act := in.quantized[start*in.qStride:]
		gemm(whole, p.from(panel, start), p.stride, act, act[in.facts():], in.qStride, open, blocks, w.products)
		start += whole * tileRows
	}
	for ; start < end; start += tileRows {
		act := in.quantized[start*in.qStride:]
		gemm(1, w.tile[:], panelOutputs, act, act[in.facts():], in.qStride, open, blocks, w.products)
		p.deliver(w, panel, start, min(tileRows, end-start))
	}
}
