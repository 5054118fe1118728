package arith

// Atomic returns what is written: of the old value and the operands.
func Atomic(name string, t Type) func(old, b, c uint64) uint64 {
	width := UnsignedOf(Scalar('u', t.Bits*t.Pack))
	switch name {
	case "exch":
		return func(_, b, _ uint64) uint64 { return b }
	case "cas":
		return func(old, b, c uint64) uint64 { return Pick(old == Extend(b, width), c, old) }
	case "inc":
		return func(old, b, _ uint64) uint64 { return Pick(old >= b, 0, old+1) }
	case "dec":
		return func(old, b, _ uint64) uint64 { return Pick(old == 0 || old > b, b, old-1) }
	}
	if t.Float() {
		f := BinaryFloat(name, t, FloatMode{})
		if f == nil {
			return nil
		}
		return func(old, b, _ uint64) uint64 {
			return EachPacked(t, func(shift int) uint64 {
				return Finish(t, FloatMode{}, f(ToFloat(t, old>>shift), ToFloat(t, b>>shift)))
			})
		}
	}
	f := BinaryInt(name, t)
	if f == nil || name == "shl" {
		return nil
	}
	return func(old, b, _ uint64) uint64 { return f(Extend(old, t), Extend(b, t)) }
}
