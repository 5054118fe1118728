package ptx

import "math"

// buildCvt decodes cvt between all types, and the packing forms with two sources.
func buildCvt(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 2, 3) {
		return inst{}
	}
	v := conversion{
		rounding: m.take("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"),
		ftz:      m.has("ftz"),
		sat:      m.has("sat"),
		finite:   m.has("satfinite"),
		relu:     m.has("relu"),
	}
	if pack := m.has("pack"); pack {
		c.fail("cvt.pack is not supported")
	}
	v.to, v.from = c.typed(m), c.typed(m)
	if c.err != nil {
		return inst{}
	}
	d, a := c.out(ops[0], v.to), c.in(ops[1], v.from)
	if s := c.hotCvt(v, d, a, ops); s != nil {
		return inst{step: s}
	}
	if len(ops) == 3 {
		b := c.in(ops[2], v.from)
		one := v
		one.to.pack = 1
		return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
			return one.float(x)<<one.to.bits | one.float(y)
		})}
	}
	f := v.function()
	if f == nil {
		c.fail("unknown conversion")
		return inst{}
	}
	return inst{step: lanes1(d, a, f)}
}

// A conversion is a decoded cvt.
type conversion struct {
	to, from typ
	rounding string
	ftz      bool
	sat      bool
	finite   bool
	relu     bool
}

func (v conversion) function() func(uint64) uint64 {
	small := func(t typ) bool { return t.class == 'e' || t.class == 'E' }
	isFloat := func(t typ) bool { return t.float() || t.class == 't' || small(t) }
	switch {
	case v.to.pack == 2 && v.from.pack == 2: // e4m3x2 from f16x2 and back
		one := v
		one.to.pack, one.from.pack = 1, 1
		return func(x uint64) uint64 { return one.float(x>>v.from.bits)<<v.to.bits | one.float(x) }
	case v.to.pack == 2 || v.from.pack == 2:
		return nil
	case isFloat(v.to) && isFloat(v.from):
		return v.float
	case isFloat(v.to):
		return v.fromInt
	case isFloat(v.from):
		return func(x uint64) uint64 { return extend(v.toInt(x), v.to) }
	}
	return v.integer
}

// float converts between floating-point types.
func (v conversion) float(x uint64) uint64 {
	if v.from.bits < 64 {
		x &= 1<<v.from.bits - 1
	}
	value := flushed(v.from, floatMode{ftz: v.ftz}, x)
	if v.relu && !(value > 0) && value == value {
		value = 0
	}
	switch v.rounding {
	case "rni", "rzi", "rmi", "rpi":
		value = roundInteger(value, roundings[v.rounding])
		return finish(v.to, floatMode{sat: v.sat}, value)
	}
	switch v.to.class {
	case 'e':
		return uint64(formatE4M3.from(value, roundNearest, true))
	case 'E':
		return uint64(formatE5M2.from(value, roundNearest, true))
	case 't':
		return fromFloat(v.to, value, roundings[v.rounding])
	}
	if v.finite {
		largest := formatF16
		if v.to.class == 'h' {
			largest = formatBF16
		}
		return uint64(largest.from(value, roundings[v.rounding], true))
	}
	return finish(v.to, floatMode{rounding: v.rounding, ftz: v.ftz, sat: v.sat}, value)
}

func roundInteger(x float64, mode rounding) float64 {
	switch mode {
	case roundZero:
		return math.Trunc(x)
	case roundDown:
		return math.Floor(x)
	case roundUp:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// fromInt converts an integer to a floating-point type. 64 bits may not fit a
// float64, so the value is rounded to odd first.
func (v conversion) fromInt(x uint64) uint64 {
	x = extend(x, v.from)
	value := 0.0
	if v.from.signed() {
		value = oddInt(int64(x))
	} else {
		value = oddSum(float64(x>>32)*0x1p32, float64(x&allLanes))
	}
	if v.to.bits == 64 {
		if v.from.signed() {
			return math.Float64bits(float64(int64(x)))
		}
		return math.Float64bits(float64(x))
	}
	return finish(v.to, floatMode{rounding: v.rounding, sat: v.sat}, value)
}

func oddInt(x int64) float64 { return oddSum(float64(x>>32)*0x1p32, float64(x&allLanes)) }

// toInt converts a floating-point number to an integer; what does not fit
// becomes the nearest end of the range, and a NaN becomes zero.
func (v conversion) toInt(x uint64) uint64 {
	value := roundInteger(flushed(v.from, floatMode{ftz: v.ftz}, x), roundings[v.rounding])
	if value != value {
		return 0
	}
	low, high := 0.0, math.Ldexp(1, v.to.bits)
	if v.to.signed() {
		low, high = -math.Ldexp(1, v.to.bits-1), math.Ldexp(1, v.to.bits-1)
	}
	switch {
	case value < low && v.to.signed():
		return extend(1<<(v.to.bits-1), unsignedOf(v.to))
	case value < low:
		return 0
	case value >= high && v.to.signed():
		return 1<<(v.to.bits-1) - 1
	case value >= high:
		return extend(^uint64(0), unsignedOf(v.to))
	case value < 0:
		return extend(uint64(int64(value)), unsignedOf(v.to))
	}
	return uint64(value)
}

// integer converts between integer types. The register may be wider than the
// type: the value is extended to the register by its sign.
func (v conversion) integer(x uint64) uint64 {
	x = extend(x, v.from)
	if !v.sat {
		return extend(x, v.to)
	}
	low, high := int64(0), int64(1)<<(min(v.to.bits, 63)-1)*2-1
	if v.to.signed() {
		low, high = -1<<(v.to.bits-1), 1<<(v.to.bits-1)-1
	}
	if !v.from.signed() && x > uint64(high) {
		return uint64(high)
	}
	return uint64(min(max(int64(x), low), high))
}

// hotCvt returns the fast steps of the conversions that kernels do most.
func (c *compiler) hotCvt(v conversion, d, a ref, ops []operand) step {
	if v.sat || v.ftz || v.finite || v.relu || len(ops) == 3 && v.to.class != 'h' {
		return nil
	}
	from, to := v.from, v.to
	switch {
	case len(ops) == 3 && v.rounding == "rn":
		return binary32(d.slot, a.slot, c.in32(ops[2], from), packBF16)
	case len(ops) == 3:
		return nil
	case to.bits == 64 && to.class != 'f' && from.bits == 32 && from.class != 'f' && d.wide && !a.wide:
		return widenStep(d.slot, a.slot, from.signed())
	case to.bits == 32 && to.class != 'f' && from.bits == 64 && from.class != 'f' && !d.wide && a.wide:
		return narrowStep(d.slot, a.slot)
	case to.class == 'h' && from.bits == 32 && v.rounding == "rn":
		return unary32(d.slot, a.slot, toBF16)
	case from.class == 'h' && to.bits == 32 && to.class == 'f':
		return unary32(d.slot, a.slot, fromBF16)
	case from.class == 'f' && from.bits == 16 && to.bits == 32 && to.class == 'f' && v.rounding == "":
		return unary32(d.slot, a.slot, fromF16)
	case from.class == 's' && from.bits == 32 && to.class == 'f' && to.bits == 32 && v.rounding == "rn":
		return unary32(d.slot, a.slot, fromS32)
	}
	return nil
}

func packBF16(d, a, b *v32) {
	for i := range d {
		d[i] = bf16Near(a[i])<<16 | bf16Near(b[i])
	}
}

func toBF16(d, a *v32) {
	for i := range d {
		d[i] = bf16Near(a[i])
	}
}

func fromBF16(d, a *v32) {
	for i := range d {
		d[i] = a[i] << 16
	}
}

func fromF16(d, a *v32) {
	for i := range d {
		d[i] = b32(f16To(a[i]))
	}
}

func fromS32(d, a *v32) {
	for i := range d {
		d[i] = b32(float32(int32(a[i])))
	}
}

func widenStep(d, a slot, signed bool) step {
	return func(w *warp, mask uint32) {
		from, to := &w.r[a], &w.q[d]
		if mask != w.live {
			to = &w.u
		}
		if signed {
			for i := range to {
				to[i] = uint64(int64(int32(from[i])))
			}
		} else {
			for i := range to {
				to[i] = uint64(from[i])
			}
		}
		if mask != w.live {
			blend(&w.q[d], to, mask)
		}
	}
}

func narrowStep(d, a slot) step {
	return func(w *warp, mask uint32) {
		from, to := &w.q[a], &w.r[d]
		if mask != w.live {
			to = &w.t
		}
		for i := range to {
			to[i] = uint32(from[i])
		}
		if mask != w.live {
			blend(&w.r[d], to, mask)
		}
	}
}
