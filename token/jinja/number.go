package jinja

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// numberArith applies an operator to two numbers. Integers stay integers, except
// for a division, and must fit 64 bits.
func numberArith(op string, a, b Value) Value {
	if is[*big.Int](a) || is[*big.Int](b) {
		fail(ValueError, "an integer of more than 64 bits can be printed and compared, not computed with (%s)", op)
	}
	x, xIsInt := asInt(a)
	y, yIsInt := asInt(b)
	if !xIsInt || !yIsInt || op == "/" {
		return floatArith(op, toFloat(a), toFloat(b))
	}
	n, ok := intArith(op, x, y)
	if !ok {
		fail(ValueError, "%d %s %d does not fit 64 bits", x, op, y)
	}
	return n
}

// intArith returns false if the result does not fit.
func intArith(op string, x, y int) (int, bool) {
	switch op {
	case "+":
		sum := x + y
		return sum, (sum > x) == (y > 0)
	case "-":
		diff := x - y
		return diff, (diff < x) == (y > 0)
	case "*":
		hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y)))
		return x * y, hi == 0 && lo <= math.MaxInt64
	}
	if y == 0 {
		fail(RuntimeError, "ZeroDivisionError: integer division or modulo by zero")
	}
	q, m := x/y, x%y
	if m != 0 && (m < 0) != (y < 0) {
		q, m = q-1, m+y
	}
	if op == "//" {
		return q, x != math.MinInt || y != -1
	}
	return m, true
}

func floatArith(op string, f, g float64) float64 {
	if g == 0 && (op == "/" || op == "//" || op == "%") {
		fail(RuntimeError, "ZeroDivisionError: division by zero")
	}
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "/":
		return f / g
	case "//":
		return math.Floor((f - floatMod(f, g)) / g)
	}
	return floatMod(f, g)
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

// toFloat converts a number to a float.
func toFloat(v Value) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f
	}
	n, _ := asInt(v)
	return float64(n)
}

// signed is +v or -v.
func signed(v Value, negate bool) Value {
	mustDefine(v)
	if !isNumber(v) {
		failType("bad operand type for unary sign: '%s'", typeName(v))
	}
	if n, ok := v.(float64); ok && negate {
		return -n // keeps the sign of zero
	}
	if negate {
		return numberArith("-", 0, v)
	}
	return numberArith("+", 0, v)
}

// compareNumbers orders two numbers; ok is false for NaN.
func compareNumbers(a, b Value) (order int, ok bool) {
	x, xIsInt := asInt(a)
	y, yIsInt := asInt(b)
	if xIsInt && yIsInt {
		return cmp.Compare(x, y), true
	}
	n, xIsBig := a.(*big.Int)
	m, yIsBig := b.(*big.Int)
	if xIsBig && yIsBig {
		return n.Cmp(m), true
	}
	f, g := toFloat(a), toFloat(b)
	return cmp.Compare(f, g), f == f && g == g
}

// readInt is Python's int(s).
func readInt(s string) (int, bool) {
	n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", ""))
	return n, err == nil
}

// readFloat is Python's float(v) for numbers and strings.
func readFloat(v Value) (float64, bool) {
	s, ok := asStr(v)
	if !ok {
		return toFloat(v), isNumber(v)
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", ""), 64)
	return f, (err == nil || math.IsInf(f, 0)) && !strings.ContainsAny(s, "xX")
}
