package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

type symbolKind byte

const (
	symReg32 symbolKind = iota
	symReg64
	symPred
	symShared  // offset in the block's shared memory
	symDynamic // extern shared: starts after the static variables
	symLocal   // offset in the thread's local memory
	symParam   // offset in the kernel's parameter buffer
	symGlobal  // module variable in device memory
	symLabel
	symTargets
)

// A symbol is what a name means in a scope.
type symbol struct {
	kind   symbolKind
	slot   slot // register, or label's number
	offset int
	typ    arith.Type
	labels []string // of a table of branch targets
}

type scope struct {
	parent *scope
	names  map[string]symbol
}

func (s *scope) lookup(name string) (symbol, bool) {
	for ; s != nil; s = s.parent {
		if sym, ok := s.names[name]; ok {
			return sym, true
		}
	}
	return symbol{}, false
}

// A compiler decodes one function, with the functions it calls inlined.
type compiler struct {
	module  *Module
	k       *Kernel
	scope   *scope
	labels  []int32 // program counter of each label
	local   int     // bytes of local memory so far
	calls   []string
	err     error
	line    int
	touched touches        // by the instruction that is decoded
	ends    []slot         // label after the body of each inlined function
	shared  map[string]int // module-level shared variables used so far
	late    map[slot]int64 // constants relative to dynamic shared memory
}

// sharedBase is the address of the first shared variable; the kilobyte below
// it belongs to the system on sm_90.
const sharedBase = 1024

func align(n, to int) int { return (n + to - 1) &^ (to - 1) }

func (c *compiler) fail(format string, args ...any) {
	if c.err == nil {
		c.err = syntax.Errorf(c.line, format, args...)
	}
}

func (c *compiler) newLabel() slot {
	c.labels = append(c.labels, 0)
	return slot(len(c.labels) - 1)
}

func (c *compiler) newRegister(t arith.Type) symbol {
	switch {
	case t.Class == 'p':
		c.k.npred++
		return symbol{kind: symPred, slot: slot(c.k.npred - 1), typ: t}
	case t.Bits*t.Pack <= 32:
		c.k.n32++
		return symbol{kind: symReg32, slot: slot(c.k.n32 - 1), typ: t}
	case t.Bits == 64:
		c.k.n64++
		return symbol{kind: symReg64, slot: slot(c.k.n64 - 1), typ: t}
	}
	c.fail("registers of %d bits are not supported", t.Bits*t.Pack)
	return symbol{}
}

func (c *compiler) placeShared(v syntax.Variable) int {
	at := align(c.k.staticEnd, v.Align)
	c.k.staticEnd = at + v.Size
	if c.k.staticEnd > syntax.BytesMax {
		c.fail("more than %d bytes of shared memory", syntax.BytesMax)
	}
	return at
}
