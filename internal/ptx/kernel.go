package ptx

import "parley/internal/ptx/syntax"

// A Dim is a size or a position in three dimensions; a zero size counts as 1.
type Dim [3]int

func (d Dim) fill() Dim {
	for i := range d {
		d[i] = max(d[i], 1)
	}
	return d
}

func (d Dim) count() int { return d[0] * d[1] * d[2] }

// A Module is a parsed and decoded PTX file. It is immutable and may be used by
// several devices at once.
type Module struct {
	functions map[string]*syntax.Function
	variables map[string]*syntax.Variable
	kernels   map[string]*Kernel
}

// A Param is a kernel parameter's place in the parameter buffer.
type Param struct {
	Name   string
	Offset int
	Size   int
	Align  int
}

// A Kernel is an .entry function, ready to run.
type Kernel struct {
	Name        string
	Params      []Param
	ParamBytes  int // size of the parameter buffer
	SharedBytes int // static shared memory
	LocalBytes  int // local memory of one thread
	MaxThreads  Dim // .maxntid, zero when not given
	ReqThreads  Dim // .reqntid, zero when not given

	module *Module
	code   []inst
	slots
	sharedLayout
	matrix bool // it uses wgmma
}

// slots are the registers that a kernel's warps have, and what is in them at the start.
type slots struct {
	n32      int
	n64      int
	npred    int
	const32  map[uint32]slot
	const64  map[uint64]slot
	symbols  []relocation
	specials []special
}

func (s *slots) fresh32() slot { s.n32++; return slot(s.n32 - 1) }
func (s *slots) fresh64() slot { s.n64++; return slot(s.n64 - 1) }

func (s *slots) constant32(v uint32) slot {
	at, ok := s.const32[v]
	if !ok {
		at = s.fresh32()
		s.const32[v] = at
	}
	return at
}

func (s *slots) constant64(v uint64) slot {
	at, ok := s.const64[v]
	if !ok {
		at = s.fresh64()
		s.const64[v] = at
	}
	return at
}

// A sharedLayout says where variables lie in a block's shared memory.
type sharedLayout struct {
	staticEnd int // first byte after static variables
	dynamic   int // first byte of dynamic memory
}

// A slot is the index of a register in one of a warp's three files: 32-bit and
// smaller, 64-bit, and predicates. Constants and special registers have slots,
// too; they are filled when a warp starts.
type slot = int32

// A relocation is a 64-bit constant whose value is an address that only the
// device knows.
type relocation struct {
	slot   slot
	symbol string
	offset int64
}

type instKind byte

const (
	kindPlain    instKind = iota
	kindBranch            // to target
	kindIndexed           // to a target per lane
	kindExit              // the lanes end
	kindConverge          // waits for the lanes of a mask, then runs step
	kindWait              // runs wait until it says that the lanes may continue
)

type step func(w *warp, mask uint32)

// An inst is a decoded instruction.
type inst struct {
	step    step
	wait    func(w *warp, mask uint32) bool
	members func(w *warp, mask uint32) uint32 // of kindConverge; nil: the whole warp
	kind    instKind
	copies  bool // a mov between registers
	matrix  bool // a wgmma
	aligned bool // kindWait: the whole warp must arrive first
	guard   predicate
	target  int32
	targets []int32
	place
	touches
}

// A place is an instruction's line and text in the file.
type place struct {
	line int32
	text string
}

// touches are the 32-bit registers of an instruction, for the checks of wgmma.
type touches struct {
	uses   []slot
	writes []slot // those of them that it writes
}

// A special is a slot that is filled when a warp starts.
type special struct {
	name string
	slot slot
	wide bool
	fill func(w *warp, lane int) uint64
}

// A predicate is a source predicate with its negation.
type predicate struct {
	slot slot
	flip uint32
}

func (p predicate) of(w *warp) uint32 { return w.p[p.slot] ^ p.flip }
