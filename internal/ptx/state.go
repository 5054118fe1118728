package ptx

import (
	"sync"
	"sync/atomic"

	"parley/internal/ptx/arith"
)

// A Check is a group of checks that Options.Without can switch off.
type Check uint

// The checks. Bounds of all memory are always checked.
const (
	CheckRaces         Check = 1 << iota // races in shared memory, missing proxy fences
	CheckUninitialised                   // reads of shared memory that was not written
	CheckAlignment                       // misaligned accesses
	CheckPending                         // accesses to what an asynchronous operation has not finished
	AllChecks          Check = 1<<iota - 1
)

// Options configure a device; the zero value has all checks.
type Options struct {
	Without      Check // checks to leave out
	Workers      int   // goroutines that run blocks; 0: one per processor
	MemoryBytes  int   // Alloc fails beyond it; 0: no limit
	Multiprocs   int   // what %nsmid says; 0: 132
	SharedMax    int   // bytes of shared memory per block; 0: 227 KiB
	Instructions int   // per warp of a block, after which a launch fails as endless; 0: 1 << 32
}

// A Device is a GPU's memory and its way to run kernels. Its methods may be
// called from several goroutines; launches run one at a time.
type Device struct {
	options Options
	mu      sync.Mutex // guards used, next, images
	launch  sync.Mutex // one launch at a time
	atomics sync.Mutex // orders atomic accesses to global memory
	memory  atomic.Pointer[[]*allocation]
	used    int
	next    uint64
	images  map[*Module]map[string]uint64
	idle    map[shape]*sync.Pool // guarded by launch
}

// An allocation is a range of device addresses. After Free it stays in the
// list without data, so that a late access can be named as what it is.
type allocation struct {
	base uint64
	size uint64
	data []byte
	free bool
}

// Address ranges of the generic address space.
const (
	globalWindow = 0x0300_0000_0000
	sharedWindow = 0x7f00_0000_0000
	localWindow  = 0x7f10_0000_0000
	paramWindow  = 0x7f20_0000_0000
	windowBytes  = 0x0010_0000_0000
	guardBytes   = 1 << 16
	tombstones   = 4096
)

// A launch is one run of a kernel over a grid.
type launch struct {
	d       *Device
	k       *Kernel
	grid    Dim
	block   Dim
	cluster Dim
	dynamic int
	params  []byte
	memory  []*allocation
	r       []arith.Lanes32 // registers as a warp starts with them
	q       []arith.Lanes64
	mu      sync.Mutex
	next    int
	err     error
	errAt   int
	idle    *sync.Pool // of clusters
}

// A shape is what the memory of a cluster depends on.
type shape struct {
	k              *Kernel
	block, cluster Dim
	dynamic        int
}

// A worker runs clusters one after another.
type worker struct{ l *launch }

// A cluster is a group of blocks that run together; mostly it has one block.
type cluster struct {
	run    *launch
	number int
	base   uint64 // clocks of former blocks end here
	blocks []*block
	warps  []*warp
	steps  int
	force  bool   // let mbarrier.try_wait return false
	stuck  uint64 // events when force was last set
	bar    barrier
}

// A block is a thread block with its shared memory and barriers.
type block struct {
	run      *launch
	c        *cluster
	at       Dim
	rank     int // in the cluster
	shared   []byte
	shadow   *shadow
	barriers [16]barrier
	mbars    map[uint32]*mbarrier
	warps    []*warp
	events   uint64 // changes that may let a waiting warp continue
}

// A fragment is a set of lanes of a warp that are at one program counter.
type fragment struct {
	pc      int32
	mask    uint32
	blocked bool // at a .sync instruction whose other lanes have not come
	arrived bool // at a barrier that has counted these lanes
	token   uint64
}

// A warp is 32 threads that execute together.
type warp struct {
	b     *block
	k     *Kernel
	id    int    // in the block
	index int    // in the cluster
	lanes uint32 // that exist
	registers
	flow
	temporaries
	order
	copies asyncCopies
	tile   *tile
	wg     matrixGroups
}

// registers are a warp's registers and local memory.
type registers struct {
	r     []arith.Lanes32
	q     []arith.Lanes64
	p     []uint32
	local []byte
}

// flow is where the lanes of a warp are in the program.
type flow struct {
	live   uint32 // lanes that have not ended
	frags  []fragment
	cur    int // the fragment that runs
	pc     int32
	steps  int
	turn   int
	strong int // atomic and ordered accesses in this slice
}

// temporaries are memory for the instruction that runs.
type temporaries struct {
	t, t2 arith.Lanes32
	u     arith.Lanes64
	ea    arith.Lanes64
	last  *allocation // that was accessed
}

// order is what a warp may rely on of other warps' accesses.
type order struct {
	clock    uint64 // own component of the vector clock
	seen     []uint64
	proxy    []uint64 // what the asynchronous proxy may rely on
	conflict bool     // another lane of this warp has written here
	cluster  uint64   // generation of the cluster's barrier when this warp arrived
}

// A shadow remembers, for every word of a block's shared memory, who wrote and
// who read it last, whether it was written at all, and which asynchronous
// operations are under way in it. A word that is accessed in parts is remembered
// by the byte from then on.
type shadow struct {
	b       *block
	warps   int
	written []byte   // 1 for each byte that was written
	writes  []stamp  // by word
	reads   []stamp  // by word and warp
	split   []bool   // words that are remembered by the byte
	parts   []stamp  // writes by byte
	readers []stamp  // reads by byte and warp
	pending []uint16 // asynchronous writes under way, by word
	busy    []uint16 // asynchronous reads under way, by word
	flight  int      // their number
}

// A stamp is an access: the clock of its warp, the warp, the lane, and whether
// it was asynchronous or strong. Clocks rise from block to block, so stamps of
// former blocks need not be cleared.
type stamp uint64

// A barrier counts threads that arrive; when all have, its generation rises
// and those that wait continue.
type barrier struct {
	expected   int
	arrived    int
	generation uint64
	clocks     clocks
	votes      uint32 // bar.red: and in bit 0, or in bit 1
	count      int
	result     uint32
	total      int
}

// clocks are the vector clocks of a synchronisation object: those of threads
// that arrive, and those of the last generation, which threads that pass take over.
type clocks struct {
	seen, proxy           []uint64
	readySeen, readyProxy []uint64
}

// An mbarrier counts arrivals and bytes of asynchronous copies; when both are
// complete its phase ends.
type mbarrier struct {
	count   int // arrivals of a phase
	pending int // arrivals that this phase still needs
	bytes   int // bytes that this phase still needs
	phase   uint64
	clocks  clocks
	queue   []func() // asynchronous operations that complete on this mbarrier
}

// asyncCopies are the copies of a warp's threads that have not happened yet.
// Groups are counted per thread.
type asyncCopies struct {
	list  []*asyncCopy
	group [arith.WarpSize]uint32 // groups that the thread has committed
	bulk  []bulkCopy
	bulks [arith.WarpSize]uint32 // bulk groups that the thread has committed
}

// An asyncCopy is one cp.async of the lanes in mask.
type asyncCopy struct {
	mask  uint32
	size  int
	dst   [arith.WarpSize]uint32
	src   [arith.WarpSize]uint64
	take  [arith.WarpSize]uint32 // bytes to read; the rest is zero
	group [arith.WarpSize]uint32 // committed groups when it was issued
}

// A bulkCopy is a copy from shared memory that belongs to a bulk group.
type bulkCopy struct {
	lane  int
	group uint32 // committed groups when it was issued
	run   func()
}

// A source is the side of a bulk copy in device memory: a range of bytes or a
// box of a tensor.
type source struct {
	dims   int
	addr   addressing
	coords []slot
	size   slot
}

// A box is a source with its values: rows of bytes.
type box struct {
	bytes   int
	row     int
	swizzle int
	rows    func(f func(offset, first, n int, src uint64))
}

// A tile is scratch memory for the operands of a matrix instruction, as
// float32 or int32 values in rows along k.
type tile struct {
	a  [16 * 32]float32
	b  [256 * 32]float32
	ia [16 * 32]int32
	ib [256 * 32]int32
}

// matrixGroups are the wgmma operations of a warp that have not happened yet.
type matrixGroups struct {
	pending   bool
	committed uint32
	list      []*matrixOp
	marks     []byte // by 32-bit register: what is known of it
}

// A matrixOp is one wgmma.mma_async of a warp: 16 rows of its warpgroup's 64.
type matrixOp struct {
	form       *matrixForm
	group      uint32
	a, b       uint64           // descriptors
	registers  [4]arith.Lanes32 // of A, when it is in registers
	accumulate bool
	line       int32
}
