package jinja

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// arith applies a binary operator as Python does.
func (in *interp) arith(op byte, a, b Value) (Value, error) {
	if u, ok := a.(*Undefined); ok {
		return nil, u.err()
	}
	if isString(a) && op == '%' {
		return in.percentFormat(a, b)
	}
	if u, ok := b.(*Undefined); ok {
		return nil, u.err()
	}
	x, xIsInt := a.(int)
	y, yIsInt := b.(int)
	if xIsInt && yIsInt {
		return intArith(op, x, y)
	}
	if isNumber(a) && isNumber(b) {
		return numberArith(op, a, b)
	}
	switch op {
	case '+':
		return in.add(a, b)
	case '*':
		return in.repeat(a, b)
	}
	return nil, unsupported(op, a, b)
}

var opNames = map[byte]string{'d': "//", 'p': "** or pow()"}

func unsupported(op byte, a, b Value) error {
	name, ok := opNames[op]
	if !ok {
		name = string(op)
	}
	return typeErrorf("unsupported operand type(s) for %s: '%s' and '%s'", name, typeName(a), typeName(b))
}

func isNumber(v Value) bool {
	switch v.(type) {
	case int, bool, float64, *big.Int:
		return true
	}
	return false
}

// intArith is the fast path for operands and results of 64 bits.
func intArith(op byte, x, y int) (Value, error) {
	switch op {
	case '+':
		if sum := x + y; (sum > x) == (y > 0) {
			return sum, nil
		}
	case '-':
		if diff := x - y; (diff < x) == (y > 0) {
			return diff, nil
		}
	case '*':
		hi, lo := bits.Mul64(uint64(abs(x)), uint64(abs(y)))
		if hi == 0 && lo < 1<<62 && x != math.MinInt && y != math.MinInt {
			return x * y, nil
		}
	case 'd', '%':
		if y != 0 && x != math.MinInt {
			q, r := x/y, x%y
			if r != 0 && (r < 0) != (y < 0) {
				q, r = q-1, r+y
			}
			if op == 'd' {
				return q, nil
			}
			return r, nil
		}
	}
	return numberArith(op, x, y)
}

func abs(x int) int {
	if x < 0 {
		return -x
	}
	return x
}

func numberArith(op byte, a, b Value) (Value, error) {
	x, xIsInt := asBig(a)
	y, yIsInt := asBig(b)
	if xIsInt && yIsInt && op != '/' {
		return bigArith(op, x, y)
	}
	f, err := toFloat(a)
	if err != nil {
		return nil, err
	}
	g, err := toFloat(b)
	if err != nil {
		return nil, err
	}
	return floatArith(op, f, g)
}

// asBig returns integers and booleans as a big integer.
func asBig(v Value) (*big.Int, bool) {
	if n, ok := asInt(v); ok {
		return big.NewInt(int64(n)), true
	}
	n, ok := v.(*big.Int)
	return n, ok
}

// toFloat converts a number to a float.
func toFloat(v Value) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		if math.IsInf(f, 0) {
			return 0, valueErrorf("int too large to convert to float")
		}
		return f, nil
	}
	n, _ := asInt(v)
	return float64(n), nil
}

// shrink returns n as an int if it fits.
func shrink(n *big.Int) Value {
	if n.IsInt64() {
		return int(n.Int64())
	}
	return n
}

func bigArith(op byte, x, y *big.Int) (Value, error) {
	z := new(big.Int)
	if (op == 'd' || op == '%') && y.Sign() == 0 {
		return nil, errorf(RuntimeError, "ZeroDivisionError: integer division or modulo by zero")
	}
	if max(x.BitLen(), y.BitLen()) > intBitsMax/2 {
		return nil, limitErrorf("an integer of more than %d bits", intBitsMax/2)
	}
	switch op {
	case '+':
		z.Add(x, y)
	case '-':
		z.Sub(x, y)
	case '*':
		z.Mul(x, y)
	case 'd', '%':
		// Euclid's quotient differs from the floor for a negative divisor.
		m := new(big.Int)
		z.DivMod(x, y, m)
		if y.Sign() < 0 && m.Sign() != 0 {
			z.Sub(z, big.NewInt(1))
			m.Add(m, y)
		}
		if op == '%' {
			z = m
		}
	case 'p':
		return bigPower(x, y)
	}
	return shrink(z), nil
}

func bigPower(x, y *big.Int) (Value, error) {
	if y.Sign() < 0 {
		f, err := toFloat(x)
		if err != nil {
			return nil, err
		}
		g, err := toFloat(y)
		if err != nil {
			return nil, err
		}
		return floatArith('p', f, g)
	}
	if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > intBitsMax || int64(x.BitLen())*y.Int64() > intBitsMax) {
		return nil, limitErrorf("a power of more than %d bits", intBitsMax)
	}
	if x.BitLen() <= 1 {
		if y.Sign() == 0 || (x.Sign() < 0 && y.Bit(0) == 0) {
			return 1, nil
		}
		return shrink(x), nil
	}
	return shrink(new(big.Int).Exp(x, y, nil)), nil
}

func floatArith(op byte, f, g float64) (Value, error) {
	if g == 0 && (op == '/' || op == 'd' || op == '%') {
		return nil, errorf(RuntimeError, "ZeroDivisionError: division by zero")
	}
	switch op {
	case '+':
		return f + g, nil
	case '-':
		return f - g, nil
	case '*':
		return f * g, nil
	case '/':
		return f / g, nil
	case 'd':
		return math.Floor((f - floatMod(f, g)) / g), nil
	case '%':
		return floatMod(f, g), nil
	}
	if f == 0 && g < 0 {
		return nil, errorf(RuntimeError, "ZeroDivisionError: 0.0 cannot be raised to a negative power")
	}
	p := math.Pow(f, g)
	if math.IsNaN(p) && f < 0 && !math.IsNaN(g) {
		return nil, valueErrorf("complex numbers are not supported")
	}
	if math.IsInf(p, 0) && !math.IsInf(f, 0) && !math.IsInf(g, 0) {
		return nil, errorf(RuntimeError, "OverflowError: numerical result out of range")
	}
	return p, nil
}

// floatMod has the sign of the divisor, as in Python.
func floatMod(f, g float64) float64 {
	m := math.Mod(f, g)
	if m == 0 {
		return math.Copysign(0, g)
	}
	if (m < 0) != (g < 0) {
		m += g
	}
	return m
}

func (in *interp) sign(v Value, negate bool) (Value, error) {
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	if !isNumber(v) {
		return nil, typeErrorf("bad operand type for unary sign: '%s'", typeName(v))
	}
	if f, ok := v.(float64); ok {
		if negate {
			f = -f
		}
		return f, nil
	}
	n, _ := asBig(v)
	if negate {
		n = new(big.Int).Neg(n)
	}
	return shrink(n), nil
}

// add joins strings, lists and tuples.
func (in *interp) add(a, b Value) (Value, error) {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			if err := in.allocString(len(x) + len(y)); err != nil {
				return nil, err
			}
			return x + y, nil
		case *Text:
			return in.joinTexts([]Text{{text: x}, *y}, Text{})
		}
		return in.addText(a, b)
	case *Text:
		return in.addText(a, b)
	case *List:
		if y, ok := b.(*List); ok {
			items, err := in.joinItems(x.Items, y.Items)
			return &List{Items: items}, err
		}
		return nil, typeErrorf("can only concatenate list (not \"%s\") to list", typeName(b))
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			items, err := in.joinItems(x.Items, y.Items)
			return &Tuple{Items: items}, err
		}
	}
	return nil, unsupported('+', a, b)
}

// addText joins two strings of which one is not plain.
func (in *interp) addText(a, b Value) (Value, error) {
	x, _ := textOf(a)
	y, ok := textOf(b)
	if !ok {
		return nil, typeErrorf("can only concatenate str (not \"%s\") to str", typeName(b))
	}
	return in.joinTexts([]Text{x, y}, Text{})
}

func (in *interp) joinItems(x, y []Value) ([]Value, error) {
	if err := in.allocItems(len(x) + len(y)); err != nil {
		return nil, err
	}
	items := make([]Value, 0, len(x)+len(y))
	return append(append(items, x...), y...), nil
}

// repeat is multiplication of a sequence by an integer, in either order.
func (in *interp) repeat(a, b Value) (Value, error) {
	if _, ok := asInt(a); ok {
		a, b = b, a
	}
	n, ok := asInt(b)
	if !ok {
		return nil, unsupported('*', a, b)
	}
	n = max(n, 0)
	switch x := a.(type) {
	case string:
		if err := in.timesString(len(x), n); err != nil {
			return nil, err
		}
		if x == "" {
			return x, nil
		}
		return strings.Repeat(x, n), nil
	case *Text:
		return in.repeatText(x, n)
	case *List:
		items, err := in.repeatItems(x.Items, n)
		return &List{Items: items}, err
	case *Tuple:
		items, err := in.repeatItems(x.Items, n)
		return &Tuple{Items: items}, err
	}
	return nil, unsupported('*', a, b)
}

func (in *interp) repeatText(t *Text, n int) (Value, error) {
	if err := in.timesString(len(t.text)+spanBytes*len(t.own), n); err != nil {
		return nil, err
	}
	if t.whole || t.text == "" {
		return Own(strings.Repeat(t.text, min(n, n*len(t.text)))), nil
	}
	var b textBuffer
	for range n {
		b.add(*t)
	}
	return b.value(), nil
}

func (in *interp) repeatItems(items []Value, n int) ([]Value, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if n > in.limits.MemoryBytes/len(items) {
		return nil, limitErrorf("a list of %d times %d items is too long", n, len(items))
	}
	if err := in.allocItems(n * len(items)); err != nil {
		return nil, err
	}
	out := make([]Value, 0, n*len(items))
	for range n {
		out = append(out, items...)
	}
	return out, nil
}
