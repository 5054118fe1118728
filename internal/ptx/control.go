package ptx

import (
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// A builder decodes an instruction.
type builder func(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst

// builders are all instructions, by the first part of the opcode.
var builders map[string]builder

func init() {
	builders = map[string]builder{
		"ld": buildLoad, "ldu": buildLoad, "st": buildStore, "mov": buildMov, "cvta": buildCvta,
		"isspacep": buildIsspacep, "mapa": buildMapa, "getctarank": buildGetctarank,
		"atom": buildAtom, "red": buildRed,
		"cvt": buildCvt, "setp": buildSetp, "set": buildSet, "selp": buildSelp, "slct": buildSlct,
		"mad": buildMad, "fma": buildMad, "lop3": buildLop3, "bfe": buildBfe, "bfi": buildBfi, "prmt": buildPrmt,
		"shf": buildShf, "bfind": buildFind, "dp4a": buildDp4a, "testp": buildTestp, "copysign": buildCopysign,
		"bra": buildBranch, "brx": buildBrx, "exit": buildExit, "ret": buildExit, "trap": buildTrap,
		"nanosleep": buildNothing, "prefetch": buildNothing, "prefetchu": buildNothing, "membar": buildNothing,
		"applypriority": buildNothing, "discard": buildNothing, "setmaxnreg": buildNothing, "brkpt": buildNothing,
		"pmevent": buildNothing, "createpolicy": buildPolicy, "griddepcontrol": buildNothing, "fence": buildFence,
		"shfl": buildShfl, "vote": buildVote, "match": buildMatch, "activemask": buildActiveMask,
		"redux": buildRedux, "elect": buildElect, "bar": buildBar, "barrier": buildBar,
		"mbarrier": buildMbarrier, "cp": buildCopy, "wgmma": buildWgmma, "mma": buildMma,
		"ldmatrix": buildLdmatrix, "stmatrix": buildStmatrix,
	}
	for _, name := range []string{"add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr"} {
		builders[name] = buildArithmetic
	}
	for _, name := range []string{"not", "neg", "abs", "popc", "clz", "brev", "cnot"} {
		builders[name] = buildUnary
	}
	for name := range arith.FloatFunctions {
		builders[name] = buildFunction
	}
}

func buildBranch(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	m.Drop("uni")
	if !c.operands(ops, 1, 1) {
		return inst{}
	}
	sym, ok := c.scope.lookup(ops[0].Name)
	if !ok || sym.kind != symLabel {
		c.fail("branch to %s, which is not a label", ops[0].Name)
	}
	return inst{kind: kindBranch, target: sym.slot}
}

// buildBrx decodes brx.idx: a branch through a table of labels.
func buildBrx(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	m.Drop("uni")
	if !m.Has("idx") || !c.operands(ops, 2, 2) {
		c.fail("brx without .idx")
		return inst{}
	}
	table, ok := c.scope.lookup(ops[1].Name)
	if !ok || table.kind != symTargets {
		c.fail("%s is not a table of branch targets", ops[1].Name)
		return inst{}
	}
	a := c.in32(ops[0], arith.Types["u32"])
	in := inst{kind: kindIndexed, step: func(w *warp, _ uint32) { w.t = w.r[a] }}
	for _, name := range table.labels {
		sym, ok := c.scope.lookup(name)
		if !ok || sym.kind != symLabel {
			c.fail("branch target %s is not a label", name)
			return inst{}
		}
		in.targets = append(in.targets, sym.slot)
	}
	return in
}

func buildExit(*compiler, *syntax.Modifiers, []syntax.Operand) inst { return inst{kind: kindExit} }

func buildTrap(*compiler, *syntax.Modifiers, []syntax.Operand) inst {
	return inst{step: func(w *warp, mask uint32) {
		w.fault(bits.TrailingZeros32(mask), "the kernel executed trap")
	}}
}

// buildFence decodes fence. Memory here is always consistent; what matters is
// the fence between ordinary stores and the asynchronous proxy.
func buildFence(_ *compiler, m *syntax.Modifiers, _ []syntax.Operand) inst {
	async := false
	for _, part := range m.Parts {
		async = async || part == "proxy"
	}
	m.Parts = nil
	return inst{step: func(w *warp, mask uint32) {
		if async {
			w.proxyFence()
		}
	}}
}
