package ptx

// buildNothing decodes instructions without an effect on results.
func buildNothing(_ *compiler, m *modifiers, _ []operand) inst {
	m.parts = nil
	return inst{step: func(*warp, uint32) {}}
}

// buildPolicy decodes createpolicy: any value will do.
func buildPolicy(c *compiler, m *modifiers, ops []operand) inst {
	m.parts = nil
	if !c.operands(ops, 1, 5) {
		return inst{}
	}
	d := c.out(ops[0], types["b64"])
	return inst{step: func(w *warp, mask uint32) { eachLane(mask, func(i int) { d.set(w, i, 0) }) }}
}
