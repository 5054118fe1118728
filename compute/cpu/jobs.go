package cpu

import "parley/compute"

// jobs are the tasks of the pool, kept so that no step allocates one.
type jobs struct {
	pack     packJob
	angle    angleJob
	embed    embedJob
	norm     normJob
	add      addJob
	quantize quantizeJob
	split    splitJob
	columns  columnsJob
	multiply multiplyJob
	rope     ropeJob
	attention
	mixing
}

// attention are the tasks of one layer's attention.
type attention struct {
	attend attendJob
	merge  mergeJob
}

// mixing are the tasks of a mixture of experts.
type mixing struct {
	gather  gatherJob
	combine combineJob
}

// packJob packs panels of a matrix.
type packJob struct {
	kernels *kernelSet
	w       *weight
}

// angleJob computes the angles of rows.
type angleJob struct {
	c    *CPU
	rope int
}

// embedJob reads the tokens' rows of a table.
type embedJob struct {
	c     *CPU
	dst   *buffer
	table *weight
	scale float32
}

// normJob normalises rows.
type normJob struct {
	c           *CPU
	dst, src    *buffer
	w           []float32
	eps, offset float32
}

// addJob adds rows.
type addJob struct {
	c        *CPU
	dst, src *buffer
}

// quantizeJob quantizes rows of activations.
type quantizeJob struct {
	c  *CPU
	in input
}

// splitJob writes rows as parts of bfloat16.
type splitJob struct {
	c  *CPU
	in input
}

// columnsJob puts the inputs of tiles of rows side by side, column after column.
type columnsJob struct{ in input }

// multiplyJob computes several spans at once.
type multiplyJob struct {
	c     *CPU
	spans []multiplySpan
	items []multiplyItem
}

// ropeJob normalises, rotates and stores rows.
type ropeJob struct {
	c            *CPU
	layer, rope  int
	x            *compute.QKV
	qNorm, kNorm []float32
}

// attendJob computes attention.
type attendJob struct {
	c       *CPU
	layer   int
	dst, q  *buffer
	a       *compute.Attention
	kernels attendKernels
	group   int // queries that share a head of keys and values
	tile    int // most rows of a tile
	heads   int // most heads of an item
	tiles   []rowTile
	items   []attendItem

	// With segments as items:
	firsts   []int     // the first item of each tile and range of heads, and the number of items
	partials []float32 // states of all items
}

// mergeJob merges the segments of each tile and range of heads.
type mergeJob struct{ *attendJob }

// combineJob adds up the weighted results of each row's experts.
type combineJob struct {
	c    *CPU
	dst  *buffer
	out  []float32 // of all slots
	topK int
}

// attendScratch is what a worker keeps for the queries of an item.
type attendScratch struct {
	queries []float32 // [head][row][query of the group][dim]
	scores  []float32 // [query][16], of one head
	states  []float32 // [head][row][query of the group][stateHead+dim]
	totals  []float32 // the same, over all segments so far
	open    []float32 // keys and values of a block, widened, with their scales
}

// A rowTile is some rows of one sequence that pass over its context together.
type rowTile struct {
	row, rows   int
	first, last int // blocks that the rows look at
}

// An attendItem is what one thread does at once: the queries of a tile that
// belong to some heads of keys and values. They lie side by side in a block,
// so that a thread that takes several of them reads longer stretches of memory.
type attendItem struct {
	tile, head, heads int
	segment           int // allSegments, or the one to compute
}

// A multiplyItem is what one thread does at once: some panels of a span.
type multiplyItem struct{ span, from, to int }

// A multiplySpan is the work of one matrix in a multiplication, or of the two that
// a gated MLP begins with: then out of the first becomes act(first)·second.
type multiplySpan struct {
	in            input
	first, second product
	gated         bool
	act           compute.Activation
}

// A product is out = in·wᵀ + bias.
type product struct {
	w      *weight
	bias   []float32
	out    []float32
	stride int
	left   int // the first column that out has
}

// An input is rows of activations, as floats and, where a matrix needs it, quantized.
type input struct {
	rows      int
	x         []float32
	stride    int
	quantized []byte
	qStride   int
	columns   []float32 // of whole tiles, [tile][column][row]; nil if there are few rows
	brain     []byte    // parts of bfloat16, [row][step][part][32]
	few       []float32 // the same in float32, for few rows
	// brainStride and fewStride are the sizes of rows there.
	brainStride, fewStride int
}

// redoScratch is what a worker needs to multiply some panels beside the
// others: what it took of the job, and what came out.
type redoScratch struct {
	span     multiplySpan // its outputs are those below
	from, to int          // panels
	target   product
	outputs  [2][]float32 // of the first and the second product, [row][outputs of the panels]
}

// gatherJob copies rows side by side.
type gatherJob struct {
	dst    []float32
	src    *buffer
	source []int32 // for each row of dst
}
