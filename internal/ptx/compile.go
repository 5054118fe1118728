package ptx

import (
	"maps"
	"slices"
	"strconv"
)

// A slot is the index of a register in one of a warp's three files: 32-bit and
// smaller, 64-bit, and predicates. Constants and special registers have slots,
// too; they are filled when a warp starts.
type slot = int32

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
	typ    typ
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
	guard   slot
	flip    uint32 // all ones when the guard is negated
	target  int32
	targets []int32
	line    int32
	text    string
	uses    []slot // 32-bit registers, for the checks of wgmma
	writes  []slot // those of them that it writes
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
	used    []slot         // 32-bit registers of the instruction being decoded
	written []slot         // those that it writes
	ends    []slot         // label after the body of each inlined function
	shared  map[string]int // module-level shared variables used so far
	late    map[slot]int64 // constants relative to dynamic shared memory
}

// sharedBase is the address of the first shared variable; the kilobyte below
// it belongs to the system on sm_90.
const sharedBase = 1024

func compile(m *Module, f *function) (*Kernel, error) {
	k := &Kernel{
		Name:       f.name,
		MaxThreads: Dim(f.maxntid),
		ReqThreads: Dim(f.reqntid),
		module:     m,
		const32:    map[uint32]slot{},
		const64:    map[uint64]slot{},
		staticEnd:  sharedBase,
	}
	c := &compiler{
		module: m,
		k:      k,
		scope:  &scope{names: map[string]symbol{}},
		local:  16,
		shared: map[string]int{},
		late:   map[slot]int64{},
	}
	k.npred = 1 // predicate 0 is always true
	c.layoutParams(f)
	c.body(f)
	if c.err != nil {
		return nil, c.err
	}
	c.emit(inst{kind: kindExit}, statement{line: f.line, text: "end of " + f.name})
	return k, c.finish()
}

func align(n, to int) int { return (n + to - 1) &^ (to - 1) }

// layoutParams places an entry's parameters in the buffer. A .func that is
// decoded alone, to check it, gets them in the same way.
func (c *compiler) layoutParams(f *function) {
	at := 0
	for _, p := range slices.Concat(f.results, f.params) {
		at = align(at, p.align)
		c.k.Params = append(c.k.Params, Param{Name: p.name, Offset: at, Size: p.size, Align: p.align})
		c.scope.names[p.name] = symbol{kind: symParam, offset: at, typ: p.typ}
		at += p.size
	}
	c.k.ParamBytes = at
}

// finish resolves labels and the addresses of dynamic shared memory.
func (c *compiler) finish() error {
	for i := range c.k.code {
		in := &c.k.code[i]
		if in.kind == kindBranch {
			in.target = c.labels[in.target]
		}
		for j, label := range in.targets {
			in.targets[j] = c.labels[label]
		}
	}
	c.k.dynamic = align(c.k.staticEnd, c.dynamicAlign())
	c.k.SharedBytes = c.k.staticEnd - sharedBase
	c.k.LocalBytes = c.local
	for s, offset := range c.late {
		c.k.specials = append(c.k.specials, special{
			slot: s,
			wide: true,
			fill: constant(uint64(int64(c.k.dynamic) + offset)),
		})
	}
	return nil
}

func (c *compiler) dynamicAlign() int {
	to := 16
	for _, name := range slices.Sorted(maps.Keys(c.module.variables)) {
		if v := c.module.variables[name]; v.space == "shared" && v.extern {
			to = max(to, v.align)
		}
	}
	return to
}

func (c *compiler) fail(format string, args ...any) {
	if c.err == nil {
		c.err = failAt(c.line, format, args...)
	}
}

// body decodes a function's statements in the current scope.
func (c *compiler) body(f *function) {
	c.scope = &scope{parent: c.scope, names: map[string]symbol{}}
	c.declareLabels(f.body)
	for i, st := range f.body {
		c.line = st.line
		switch st.kind {
		case stOpen:
			c.scope = &scope{parent: c.scope, names: map[string]symbol{}}
			c.declareLabels(f.body[i+1:])
		case stClose:
			c.scope = c.scope.parent
		case stLabel:
			sym, _ := c.scope.lookup(st.name)
			c.labels[sym.slot] = int32(len(c.k.code))
		case stTargets:
			c.scope.names[st.name] = symbol{kind: symTargets, labels: st.targets}
		case stRegister:
			c.declareRegisters(st)
		case stVariable:
			c.declareVariable(st.variable)
		case stInstruction:
			c.instruction(st)
		}
		if c.err != nil {
			return
		}
	}
	c.scope = c.scope.parent
}

// declareLabels enters the labels of the scope that begins with body; labels
// of scopes inside it are their own.
func (c *compiler) declareLabels(body []statement) {
	depth := 0
	for _, st := range body {
		switch st.kind {
		case stOpen:
			depth++
		case stClose:
			if depth--; depth < 0 {
				return
			}
		case stLabel:
			if depth == 0 {
				c.scope.names[st.name] = symbol{kind: symLabel, slot: c.newLabel()}
			}
		case stTargets:
			if depth == 0 {
				c.scope.names[st.name] = symbol{kind: symTargets, labels: st.targets}
			}
		}
	}
}

func (c *compiler) newLabel() slot {
	c.labels = append(c.labels, 0)
	return slot(len(c.labels) - 1)
}

func (c *compiler) declareRegisters(st statement) {
	for i, name := range st.targets {
		count := int(st.operands[i].value)
		if count == 0 {
			c.scope.names[name] = c.newRegister(st.typ)
		}
		for n := range count {
			c.scope.names[name+strconv.Itoa(n)] = c.newRegister(st.typ)
		}
	}
	if c.k.n32+c.k.n64+c.k.npred > 1<<16 {
		c.fail("more than %d registers", 1<<16)
	}
}

func (c *compiler) newRegister(t typ) symbol {
	switch {
	case t.class == 'p':
		c.k.npred++
		return symbol{kind: symPred, slot: slot(c.k.npred - 1), typ: t}
	case t.bits*t.pack <= 32:
		c.k.n32++
		return symbol{kind: symReg32, slot: slot(c.k.n32 - 1), typ: t}
	case t.bits == 64:
		c.k.n64++
		return symbol{kind: symReg64, slot: slot(c.k.n64 - 1), typ: t}
	}
	c.fail("registers of %d bits are not supported", t.bits*t.pack)
	return symbol{}
}

// declareVariable places a variable of a function's body. A .param inside a
// body is an argument of a call, and lives in local memory.
func (c *compiler) declareVariable(v variable) {
	switch v.space {
	case "shared":
		c.scope.names[v.name] = symbol{kind: symShared, offset: c.placeShared(v), typ: v.typ}
	case "local", "param":
		c.local = align(c.local, v.align)
		c.scope.names[v.name] = symbol{kind: symLocal, offset: c.local, typ: v.typ}
		c.local += v.size
	default:
		c.fail(".%s variable %s inside a function is not supported", v.space, v.name)
	}
}

func (c *compiler) placeShared(v variable) int {
	at := align(c.k.staticEnd, v.align)
	c.k.staticEnd = at + v.size
	if c.k.staticEnd > bytesMax {
		c.fail("more than %d bytes of shared memory", bytesMax)
	}
	return at
}

// emit appends a decoded instruction with the guard and place of st.
func (c *compiler) emit(in inst, st statement) {
	in.line, in.text = int32(st.line), st.text
	in.uses, in.writes = c.used, c.written
	c.used, c.written = nil, nil
	if st.guard != "" {
		sym, ok := c.scope.lookup(st.guard)
		if !ok || sym.kind != symPred {
			c.fail("guard %s is not a predicate register", st.guard)
			return
		}
		in.guard = sym.slot
		if st.guardNot {
			in.flip = allLanes
		}
	}
	c.k.code = append(c.k.code, in)
	if len(c.k.code) > 1<<20 {
		c.fail("kernel %s has more than %d instructions with its calls inlined", c.k.Name, 1<<20)
	}
}

// instruction decodes st with the builder of its name.
func (c *compiler) instruction(st statement) {
	m := newModifiers(st.opcode)
	switch m.name {
	case "call":
		c.call(m, st)
		return
	case "ret":
		if len(c.ends) > 0 {
			c.emit(inst{kind: kindBranch, target: c.ends[len(c.ends)-1]}, st)
			return
		}
	}
	build, ok := builders[m.name]
	if !ok {
		c.fail("unknown instruction %q", st.opcode)
		return
	}
	in := build(c, m, st.operands)
	if c.err == nil && len(m.parts) > 0 {
		c.fail("unknown modifier .%s of %q", m.parts[0], st.opcode)
	}
	if c.err == nil {
		c.emit(in, st)
	}
}

// call inlines a device function: parameters and results are local memory of
// the caller, under the callee's names.
func (c *compiler) call(m *modifiers, st statement) {
	m.drop("uni")
	ops := st.operands
	var results, args []operand
	if len(ops) > 0 && ops[0].kind == opList {
		results, ops = ops[0].list, ops[1:]
	}
	if len(ops) == 0 || ops[0].kind != opName || len(m.parts) > 0 {
		c.fail("unknown form of %q", st.opcode)
		return
	}
	if len(ops) > 1 {
		args = ops[1].list
	}
	f := c.module.functions[ops[0].name]
	switch {
	case f == nil || !f.defined:
		c.fail("call of %s, which is not a function of this module", ops[0].name)
		return
	case slices.Contains(c.calls, f.name) || len(c.calls) > 16:
		c.fail("call of %s is recursive", f.name)
		return
	case len(args) != len(f.params) || len(results) != len(f.results):
		c.fail("call of %s with %d arguments and %d results", f.name, len(args), len(results))
		return
	}
	c.inline(f, st, slices.Concat(results, args))
}

func (c *compiler) inline(f *function, st statement, args []operand) {
	inner := &scope{names: map[string]symbol{}}
	for i, p := range slices.Concat(f.results, f.params) {
		sym, ok := c.scope.lookup(args[i].name)
		if !ok || sym.kind != symLocal {
			c.fail("argument %s of %s is not a .param variable", args[i].name, f.name)
			return
		}
		inner.names[p.name] = sym
	}
	end := c.newLabel()
	if st.guard != "" {
		skip := st
		skip.guardNot = !st.guardNot
		c.emit(inst{kind: kindBranch, target: end}, skip)
	}
	outer := c.scope
	c.scope, c.calls, c.ends = inner, append(c.calls, f.name), append(c.ends, end)
	c.body(f)
	c.scope, c.calls, c.ends = outer, c.calls[:len(c.calls)-1], c.ends[:len(c.ends)-1]
	c.labels[end] = int32(len(c.k.code))
}
