package ptx

type matrixGroups struct{ pending bool }

func (w *warp) checkPending(in *inst) {}
func (c *cluster) checkEnd()          {}
func (c *compiler) bulkCopy(m *modifiers, reduce bool, ops []operand) inst {
	c.fail("unknown instruction cp.async.bulk")
	return inst{}
}
func buildWgmma(c *compiler, m *modifiers, ops []operand) inst {
	c.fail("unknown instruction wgmma")
	return inst{}
}
