package ptx

import (
	"maps"
	"slices"
	"strconv"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

func compile(m *Module, f *syntax.Function) (*Kernel, error) {
	k := &Kernel{
		Name:       f.Name,
		MaxThreads: Dim(f.MaxThreads),
		ReqThreads: Dim(f.ReqThreads),
		module:     m,
		// predicate 0 is always true
		slots:        slots{const32: map[uint32]slot{}, const64: map[uint64]slot{}, npred: 1},
		sharedLayout: sharedLayout{staticEnd: sharedBase},
	}
	c := &compiler{
		module: m,
		k:      k,
		scope:  &scope{names: map[string]symbol{}},
		local:  16,
		shared: map[string]int{},
		late:   map[slot]int64{},
	}
	c.layoutParams(f)
	c.body(f)
	if c.err != nil {
		return nil, c.err
	}
	c.emit(inst{kind: kindExit}, syntax.Statement{Line: f.Line, Text: "end of " + f.Name})
	return k, c.finish()
}

// layoutParams places an entry's parameters in the buffer. A .func that is
// decoded alone, to check it, gets them in the same way.
func (c *compiler) layoutParams(f *syntax.Function) {
	at := 0
	for _, p := range slices.Concat(f.Results, f.Params) {
		at = align(at, p.Align)
		c.k.Params = append(c.k.Params, Param{Name: p.Name, Offset: at, Size: p.Size, Align: p.Align})
		c.scope.names[p.Name] = symbol{kind: symParam, offset: at, typ: p.Type}
		at += p.Size
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
		if v := c.module.variables[name]; v.Space == "shared" && v.Extern {
			to = max(to, v.Align)
		}
	}
	return to
}

// body decodes a function's statements in the current scope.
func (c *compiler) body(f *syntax.Function) {
	c.scope = &scope{parent: c.scope, names: map[string]symbol{}}
	c.declareLabels(f.Body)
	for i, st := range f.Body {
		c.line = st.Line
		switch st.Kind {
		case syntax.Open:
			c.scope = &scope{parent: c.scope, names: map[string]symbol{}}
			c.declareLabels(f.Body[i+1:])
		case syntax.Close:
			c.scope = c.scope.parent
		case syntax.Label:
			sym, _ := c.scope.lookup(st.Name)
			c.labels[sym.slot] = int32(len(c.k.code))
		case syntax.Targets:
			c.scope.names[st.Name] = symbol{kind: symTargets, labels: st.Targets}
		case syntax.Register:
			c.declareRegisters(st)
		case syntax.Declaration:
			c.declareVariable(st.Variable)
		case syntax.Instruction:
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
func (c *compiler) declareLabels(body []syntax.Statement) {
	depth := 0
	for _, st := range body {
		switch st.Kind {
		case syntax.Open:
			depth++
		case syntax.Close:
			if depth--; depth < 0 {
				return
			}
		case syntax.Label:
			if depth == 0 {
				c.scope.names[st.Name] = symbol{kind: symLabel, slot: c.newLabel()}
			}
		case syntax.Targets:
			if depth == 0 {
				c.scope.names[st.Name] = symbol{kind: symTargets, labels: st.Targets}
			}
		}
	}
}

func (c *compiler) declareRegisters(st syntax.Statement) {
	for i, name := range st.Targets {
		count := int(st.Operands[i].Value)
		if count == 0 {
			c.scope.names[name] = c.newRegister(st.Type)
		}
		for n := range count {
			c.scope.names[name+strconv.Itoa(n)] = c.newRegister(st.Type)
		}
	}
	if c.k.n32+c.k.n64+c.k.npred > 1<<16 {
		c.fail("more than %d registers", 1<<16)
	}
}

// declareVariable places a variable of a function's body. A .param inside a
// body is an argument of a call, and lives in local memory.
func (c *compiler) declareVariable(v syntax.Variable) {
	switch v.Space {
	case "shared":
		c.scope.names[v.Name] = symbol{kind: symShared, offset: c.placeShared(v), typ: v.Type}
	case "local", "param":
		c.local = align(c.local, v.Align)
		c.scope.names[v.Name] = symbol{kind: symLocal, offset: c.local, typ: v.Type}
		c.local += v.Size
	default:
		c.fail(".%s variable %s inside a function is not supported", v.Space, v.Name)
	}
}

// emit appends a decoded instruction with the guard and place of st.
func (c *compiler) emit(in inst, st syntax.Statement) {
	in.place = place{int32(st.Line), st.Text}
	in.touches, c.touched = c.touched, touches{}
	if st.Guard != "" {
		sym, ok := c.scope.lookup(st.Guard)
		if !ok || sym.kind != symPred {
			c.fail("guard %s is not a predicate register", st.Guard)
			return
		}
		in.guard.slot = sym.slot
		if st.GuardNot {
			in.guard.flip = arith.AllLanes
		}
	}
	c.k.code = append(c.k.code, in)
	if len(c.k.code) > 1<<20 {
		c.fail("kernel %s has more than %d instructions with its calls inlined", c.k.Name, 1<<20)
	}
}

// instruction decodes st with the builder of its name.
func (c *compiler) instruction(st syntax.Statement) {
	m := syntax.NewModifiers(st.Opcode)
	switch m.Name {
	case "call":
		c.call(m, st)
		return
	case "ret":
		if len(c.ends) > 0 {
			c.emit(inst{kind: kindBranch, target: c.ends[len(c.ends)-1]}, st)
			return
		}
	}
	build, ok := builders[m.Name]
	if !ok {
		c.fail("unknown instruction %q", st.Opcode)
		return
	}
	in := build(c, m, st.Operands)
	if c.err == nil && len(m.Parts) > 0 {
		c.fail("unknown modifier .%s of %q", m.Parts[0], st.Opcode)
	}
	if c.err == nil {
		c.emit(in, st)
	}
}

// call inlines a device function: parameters and results are local memory of
// the caller, under the callee's names.
func (c *compiler) call(m *syntax.Modifiers, st syntax.Statement) {
	m.Drop("uni")
	ops := st.Operands
	var results, args []syntax.Operand
	if len(ops) > 0 && ops[0].Kind == syntax.ListOperand {
		results, ops = ops[0].List, ops[1:]
	}
	if len(ops) == 0 || ops[0].Kind != syntax.NameOperand || len(m.Parts) > 0 {
		c.fail("unknown form of %q", st.Opcode)
		return
	}
	if len(ops) > 1 {
		args = ops[1].List
	}
	f := c.module.functions[ops[0].Name]
	switch {
	case f == nil || !f.Defined:
		c.fail("call of %s, which is not a function of this module", ops[0].Name)
		return
	case slices.Contains(c.calls, f.Name) || len(c.calls) > 16:
		c.fail("call of %s is recursive", f.Name)
		return
	case len(args) != len(f.Params) || len(results) != len(f.Results):
		c.fail("call of %s with %d arguments and %d results", f.Name, len(args), len(results))
		return
	}
	c.inline(f, st, slices.Concat(results, args))
}

func (c *compiler) inline(f *syntax.Function, st syntax.Statement, args []syntax.Operand) {
	inner := &scope{names: map[string]symbol{}}
	for i, p := range slices.Concat(f.Results, f.Params) {
		sym, ok := c.scope.lookup(args[i].Name)
		if !ok || sym.kind != symLocal {
			c.fail("argument %s of %s is not a .param variable", args[i].Name, f.Name)
			return
		}
		inner.names[p.Name] = sym
	}
	end := c.newLabel()
	if st.Guard != "" {
		skip := st
		skip.GuardNot = !st.GuardNot
		c.emit(inst{kind: kindBranch, target: end}, skip)
	}
	outer := c.scope
	c.scope, c.calls, c.ends = inner, append(c.calls, f.Name), append(c.ends, end)
	c.body(f)
	c.scope, c.calls, c.ends = outer, c.calls[:len(c.calls)-1], c.ends[:len(c.ends)-1]
	c.labels[end] = int32(len(c.k.code))
}
