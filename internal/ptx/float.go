package ptx

import "math"

// A floatMode holds the modifiers of a floating-point instruction.
type floatMode struct {
	rounding string
	ftz      bool
	sat      bool
	nan      bool // min and max: a NaN wins
}

func (m floatMode) plain() bool {
	return (m.rounding == "" || m.rounding == "rn" || m.rounding == "approx" || m.rounding == "full") && !m.ftz &&
		!m.sat && !m.nan
}

func addF32(d, a, b *v32) {
	for i := range d {
		d[i] = b32(f32(a[i]) + f32(b[i]))
	}
}

func subF32(d, a, b *v32) {
	for i := range d {
		d[i] = b32(f32(a[i]) - f32(b[i]))
	}
}

func mulF32(d, a, b *v32) {
	for i := range d {
		d[i] = b32(f32(a[i]) * f32(b[i]))
	}
}

func divF32(d, a, b *v32) {
	for i := range d {
		d[i] = b32(f32(a[i]) / f32(b[i]))
	}
}

func minF32(d, a, b *v32) {
	for i := range d {
		d[i] = b32(float32(lesser(float64(f32(a[i])), float64(f32(b[i])))))
	}
}

func maxF32(d, a, b *v32) {
	for i := range d {
		d[i] = b32(float32(greater(float64(f32(a[i])), float64(f32(b[i])))))
	}
}

func fmaF32(d, a, b, c *v32) {
	for i := range d {
		d[i] = b32(fma32(f32(a[i]), f32(b[i]), f32(c[i])))
	}
}

// lesser returns the smaller number; a NaN loses, and -0 is below +0.
func lesser(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b || a < b:
		return a
	case a == b && math.Signbit(a):
		return a
	}
	return b
}

func greater(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b || a > b:
		return a
	case a == b && !math.Signbit(a):
		return a
	}
	return b
}

var hotFloat = map[string]func(d, a, b *v32){
	"add": addF32, "sub": subF32, "mul": mulF32, "div": divF32, "min": minF32, "max": maxF32,
}

// floatBinary decodes a two-operand floating-point instruction.
func (c *compiler) floatBinary(name string, t typ, mode floatMode, ops []operand) inst {
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	if op, ok := hotFloat[name]; ok && mode.plain() && t.bits == 32 && !d.wide && !a.wide && !b.wide {
		return inst{step: binary32(d.slot, a.slot, b.slot, op)}
	}
	f := floatFunction(name, mode)
	if f == nil || name == "div" && t.bits == 16 {
		c.fail("unknown instruction %s for a floating-point type", name)
		return inst{}
	}
	c.exact(t, mode)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		return packed(t, func(shift int) uint64 {
			return finish(t, mode, f(flushed(t, mode, x>>shift), flushed(t, mode, y>>shift)))
		})
	})}
}

// exact refuses roundings that float64 arithmetic cannot give.
func (c *compiler) exact(t typ, mode floatMode) {
	if t.bits == 64 && mode.rounding != "" && mode.rounding != "rn" {
		c.fail("rounding .%s of f64 is not supported", mode.rounding)
	}
}

// floatFunction computes in float64, rounded to odd where a second rounding follows.
func floatFunction(name string, mode floatMode) func(a, b float64) float64 {
	switch name {
	case "add":
		return oddSum
	case "sub":
		return func(a, b float64) float64 { return oddSum(a, -b) }
	case "mul":
		return func(a, b float64) float64 { return a * b }
	case "div":
		return func(a, b float64) float64 { return a / b }
	case "min":
		return nanWins(lesser, mode.nan)
	case "max":
		return nanWins(greater, mode.nan)
	}
	return nil
}

func nanWins(f func(a, b float64) float64, wins bool) func(a, b float64) float64 {
	if !wins {
		return f
	}
	return func(a, b float64) float64 {
		if a != a || b != b {
			return math.NaN()
		}
		return f(a, b)
	}
}

// packed applies f to the halves of a packed type, or once.
func packed(t typ, f func(shift int) uint64) uint64 {
	if t.pack < 2 {
		return f(0)
	}
	return f(0)&0xffff | f(16)&0xffff<<16
}

// flushed returns a pattern's value, with subnormals flushed when .ftz asks for it.
func flushed(t typ, mode floatMode, x uint64) float64 {
	v := toFloat(t, x)
	if mode.ftz && t.class == 'f' && t.bits < 64 && math.Abs(v) < smallest(t) {
		return math.Copysign(0, v)
	}
	return v
}

func smallest(t typ) float64 {
	if t.bits == 16 {
		return 0x1p-14
	}
	return 0x1p-126
}

// finish rounds, saturates and flushes a result.
func finish(t typ, mode floatMode, v float64) uint64 {
	if mode.sat {
		switch {
		case v != v || v <= 0:
			v = 0
		case v > 1:
			v = 1
		}
	}
	if t.bits == 64 {
		return math.Float64bits(v)
	}
	out := fromFloat(t, v, roundings[knownRounding(mode.rounding)])
	if mode.ftz && t.class == 'f' && math.Abs(toFloat(t, out)) < smallest(t) {
		return fromFloat(t, math.Copysign(0, v), roundNearest)
	}
	return out
}

func knownRounding(name string) string {
	if name == "approx" || name == "full" {
		return ""
	}
	return name
}

// floatFma decodes fma and mad of floating-point types.
func (c *compiler) floatFma(t typ, mode floatMode, relu bool, ops []operand) inst {
	d, a, b, e := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], t)
	if t.bits == 32 && mode.plain() && !relu && !d.wide {
		return inst{step: ternary32(d.slot, a.slot, b.slot, e.slot, fmaF32)}
	}
	c.exact(t, mode)
	return inst{step: lanes3(d, a, b, e, func(x, y, z uint64) uint64 {
		return packed(t, func(shift int) uint64 {
			p, q, r := flushed(t, mode, x>>shift), flushed(t, mode, y>>shift), flushed(t, mode, z>>shift)
			v := 0.0
			if t.bits == 64 {
				v = math.FMA(p, q, r)
			} else {
				v = oddSum(p*q, r)
			}
			if relu && !(v > 0) && v == v {
				v = 0
			}
			return finish(t, mode, v)
		})
	})}
}

// floatSign decodes neg and abs.
func (c *compiler) floatSign(name string, t typ, ftz bool, ops []operand) inst {
	d, a := c.out(ops[0], t), c.in(ops[1], t)
	sign := uint64(1) << (t.bits - 1)
	if t.pack == 2 {
		sign |= sign << 16
	}
	mode := floatMode{ftz: ftz}
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		if ftz {
			x = packed(t, func(shift int) uint64 { return fromFloat(t, flushed(t, mode, x>>shift), roundNearest) })
		}
		if name == "neg" {
			return x ^ sign
		}
		return x &^ sign
	})}
}

// functions are the instructions of one floating-point operand.
var functions = map[string]func(float64) float64{
	"sqrt":  math.Sqrt,
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"rcp":   func(x float64) float64 { return 1 / x },
	"ex2":   math.Exp2,
	"lg2":   math.Log2,
	"sin":   math.Sin,
	"cos":   math.Cos,
	"tanh":  math.Tanh,
}

// buildFunction decodes sqrt, rsqrt, rcp, ex2, lg2, sin, cos and tanh. They are
// computed in float64 and rounded once.
func buildFunction(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	mode := floatMode{rounding: m.take("rn", "rz", "rm", "rp", "approx", "full"), ftz: m.has("ftz")}
	t := c.typed(m)
	c.exact(t, floatMode{rounding: knownRounding(mode.rounding)})
	f := functions[m.name]
	d, a := c.out(ops[0], t), c.in(ops[1], t)
	if m.name == "ex2" && t.class == 'f' && t.bits == 32 {
		mode.sat = false
	}
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		return packed(t, func(shift int) uint64 { return finish(t, mode, f(flushed(t, mode, x>>shift))) })
	})}
}

// buildTestp decodes testp: the class of a number.
func buildTestp(c *compiler, m *modifiers, ops []operand) inst {
	class := m.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.outPred(ops[0]), c.in(ops[1], t)
	return inst{step: func(w *warp, mask uint32) {
		var out uint32
		eachLane(mask, func(i int) {
			if ofClass(class, t, toFloat(t, a.get(w, i))) {
				out |= 1 << i
			}
		})
		w.setPred(d, out, mask)
	}}
}

func ofClass(class string, t typ, v float64) bool {
	low := smallest(t)
	if t.bits == 64 {
		low = 0x1p-1022
	}
	finite := v == v && !math.IsInf(v, 0)
	switch class {
	case "finite":
		return finite
	case "infinite":
		return math.IsInf(v, 0)
	case "number":
		return v == v
	case "notanumber":
		return v != v
	case "normal":
		return finite && math.Abs(v) >= low
	}
	return v != 0 && math.Abs(v) < low
}

// buildCopysign decodes copysign.
func buildCopysign(c *compiler, m *modifiers, ops []operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	sign := uint64(1) << (t.bits - 1)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 { return y&^sign | x&sign })}
}
