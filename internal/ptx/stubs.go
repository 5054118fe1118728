package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// buildNothing decodes instructions without an effect on results.
func buildNothing(_ *compiler, m *syntax.Modifiers, _ []syntax.Operand) inst {
	m.Parts = nil
	return inst{step: func(*warp, uint32) {}}
}

// buildPolicy decodes createpolicy: any value will do.
func buildPolicy(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	m.Parts = nil
	if !c.operands(ops, 1, 5) {
		return inst{}
	}
	d := c.out(ops[0], arith.Types["b64"])
	return inst{step: func(w *warp, mask uint32) { eachLane(mask, func(i int) { d.set(w, i, 0) }) }}
}
