package cuda

import (
	"sync/atomic"
	"time"

	"parley/compute"
	"parley/compute/libcuda"
	"parley/model/weights"
)

// A CUDA is the backend on one GPU. It implements [compute.Backend].
//
// An operation that fails on the device makes every later one fail, too: what
// returns results panics with the error, and [CUDA.Err] returns it.
type CUDA struct {
	driver driver
	device libcuda.Device
	kernels
	health
	resources
	staging staging
	limits  compute.Limits
	pool    pool
	step    stepData
	scratch
	pending
	choice choiceData
}

// kernels are those that are loaded.
type kernels struct {
	basics
	matrices map[weights.DType][]matrixKernel
	pairs    []matrixKernel // of two BF16 matrices, if the device has them
	arrange  map[weights.DType]kernel
	attend   []kernel // for at most 8 query rows, for at most 16, for many
}

// health is what went wrong on the device.
type health struct {
	failed error
	broken atomic.Pointer[error] // failed, for other goroutines
}

// resources are what must be given back.
type resources struct {
	memory []libcuda.Address // everything taken
	pinned [][]byte          // memory of callers for logits
	arenas [][]byte          // memory of callers for blocks
}

// pending is what waits to be run.
type pending struct {
	queue  []command
	graphs map[int]*recording // by size of batch
	packed packedRows
}

// aside are copies of blocks that are made while steps are computed.
type aside struct {
	// moving are the blocks that steps must not use before the copies are joined.
	moving map[int32]struct{}
	// behind says that something was asked for that the next copies have to wait for.
	behind bool
	// batches are the numbers of those that are not known to be done, the oldest first; took has
	// the times of the others, told those that the caller knows.
	batches    []int
	took, told []time.Duration
}

// A buffer holds rows of float32.
type buffer struct {
	rows, cols int
	at         libcuda.Address
}

// A kernel is one that is loaded.
type kernel struct {
	libcuda.Kernel
	function libcuda.Function
}

// A matrixKernel multiplies matrices. A block of threads computes strips of 16
// outputs for a number of rows.
type matrixKernel struct {
	kernel
	outputs, rows int  // of a tile
	turned        bool // rows are the left side; see kernels/turned90.cuh
	// resident is how many blocks of threads a multiprocessor holds, of a kernel whose
	// blocks go from tile to tile; 0 for a block for each tile.
	resident int
	// stage is how many bytes are copied for each record, if that decides which kernel is used.
	stage int
	// busy is which share of the multiprocessors a kernel with warpgroups must give work to, if there are others
	// without; these have 0.
	busy float64
}

// basics are the kernels that every model needs, by module.
type basics struct {
	embed, widen                                         kernel
	norm, add, pack16, pack8, packFP8, gateUp, linearF32 kernel
	route, slots, mix                                    kernel
	angles, ropeStore, combine                           kernel
	choose, copyWords, prepare, recall                   kernel
}

// A region is device memory that grows to what is needed.
type region struct {
	at    libcuda.Address
	bytes int64
	what  string
}

// scratch is memory that operations use inside.
type scratch struct {
	x16       region // packed rows of 16-bit numbers
	hidden16  region // packed rows inside an MLP
	x16Scales region
	x8        region // packed rows of 8 bits, with their scales and the sums of groups
	gate, up  region // inside an MLP
	logits    region
	rotations angleTable
	partials  region // of attention
	states    region
	mixture   mixtureScratch
}

// An angleTable has the sines and cosines of positions.
type angleTable struct {
	region
	rows, half int
}

// mixtureScratch is what routing leaves on the device.
type mixtureScratch struct {
	scores, chosen, weights       region
	slots, sources, tiles, number region
	out                           region
	tables                        map[*compute.Experts]*expertTables
}

// expertTables are the addresses of the experts' matrices, one after the other
// in device memory.
type expertTables struct {
	gate, up, down job // without out and ld
	act            compute.Activation
	router         *weight
	experts, topK  int
	norm           int32
}

// stepData is what a step consists of, in one piece of pinned memory that is
// copied to the device in one go.
type stepData struct {
	stepMemory
	rows, outputs int
	single        bool // every sequence has one row
	fed           bool // some tokens were chosen by the step before
	ropes         []compute.Rope
	base          int // integers without the items of attention
	seqs          []seqPlace
	attentionItems
}

// stepMemory is where a step is written.
type stepMemory struct {
	hosts    [2][]byte // in turns, while steps are computed that the caller does not wait for
	turn     int
	ints     []int32 // of a host memory, as far as it is filled
	device   libcuda.Address
	capacity int
}

// attentionItems are the blocks of work of a step's attention.
type attentionItems struct {
	few, many int
	fewRows   int // the most query rows of an item of few
	combines  int
	runs      []sharedRun
	items     [2][][8]int32 // few, many
	unions    [][4]int32
}

// A seqPlace is a sequence of a step, and where its block table begins.
type seqPlace struct{ row, rows, past, table int }

// choiceData is what steps that choose tokens need. There is two of everything, since
// a step is prepared while the one before is computed.
type choiceData struct {
	roots region
	turn  int
	air   []choiceRun // steps under way
	draws [2]region
	// chosen are on the device, and copied to hosts.
	chosen [2]region
	// extras are what some draws have besides numbers, and surveys what is computed for them.
	extras  [2]region
	surveys [2]region
	hosts   [2]choiceHost
	choices []compute.DrawResult
	top     []compute.TokenScore
}

// A choiceHost is pinned memory for the draws of a step, and for what it chose.
type choiceHost struct{ draws, chosen, extras, surveys []byte }

// A choiceRun is a step under way: which half it uses, how many tokens it chooses, and the
// rows of its surveys, -1 where there is none.
type choiceRun struct {
	turn, outputs int
	surveyed      []int
}

// packedRows says what the memory for packed activations holds: the rows of a
// buffer, in the form that a type of weights meets.
type packedRows struct {
	of   libcuda.Address
	kind weights.DType
}

// A job is one product with an input. With experts w and bias are tables of addresses.
type job struct {
	kind       weights.DType
	w, bias    libcuda.Address
	rows, cols int // of the weight
	out        libcuda.Address
	ld         int
}

// A pool is the key/value pool: [block][layer][keys, values][head], in each
// [16 tokens][dim] and the scales of the tokens in types that have some; see kernels/pool.cuh.
type pool struct {
	shape  compute.KVShape
	at     libcuda.Address
	aside  aside
	bounce bounce
}

// poolArgs is the pool as kernels see it.
type poolArgs struct {
	data                    libcuda.Address
	layers, heads, dim, typ int32
	partBytes, elementBytes int32
}

// A weight is a matrix in the layout of its type, or a vector of float32.
type weight struct {
	kind       weights.DType
	rows, cols int
	at         libcuda.Address
	name       string
}

// staging is pinned memory on the way to the device, in two halves: one is
// filled while the other is copied.
type staging struct {
	host   []byte
	device libcuda.Address // stored rows before they are brought into their layout
	half   int
	busy   [2]bool // a mark says when the half was copied
}

type opcode uint8

const (
	opAngles opcode = iota
	opEmbed
	opNorm
	opLinear
	opRopeStore
	opAttend
	opMLP
	opMixture
	opAdd
	opLogits
)

// A command is an operation that waits to be run. Two that are equal launch
// the same kernels with the same arguments, given steps of the same size.
type command struct {
	op             opcode
	dst, src       *buffer
	key, value     *buffer
	w, w2          *weight
	projections    [maxProjections]projection
	count          int // of projections
	mlp            mlp
	experts        *compute.Experts
	layer, rope    int
	x, y           float32 // scale; eps and offset
	heads          compute.Heads
	window         int
	half, ropeKind int32
}

const maxProjections = 3

type projection struct {
	out     *buffer
	w, bias *weight
}

type mlp struct {
	gate, up, down             *weight
	gateBias, upBias, downBias *weight
	act                        compute.Activation
}

// A recording is the graph of a queue of commands.
type recording struct {
	queue []command
	graph libcuda.Graph
}
