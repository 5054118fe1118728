package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// floatOf is Python's float(v).
func (in *interp) floatOf(v Value) (float64, error) {
	if u, ok := v.(*Undefined); ok {
		return 0, u.err()
	}
	if s, ok := asStr(v); ok {
		return parsePythonFloat(s)
	}
	if !isNumber(v) {
		return 0, typeErrorf("float() argument must be a string or a real number, not '%s'", typeName(v))
	}
	return toFloat(v)
}

func parsePythonFloat(s string) (float64, error) {
	text := strings.TrimFunc(s, isSpace)
	clean, ok := withoutUnderscores(text)
	f, err := strconv.ParseFloat(clean, 64)
	isHex := strings.ContainsAny(clean, "xXpP")
	if !ok || isHex || (err != nil && !math.IsInf(f, 0)) {
		return 0, valueErrorf("could not convert string to float: %s", quote(s))
	}
	return f, nil
}

// withoutUnderscores drops single underscores between digits; ok is false if
// there are others.
func withoutUnderscores(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, true
	}
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || !isHexDigit(s[i-1]) || !isHexDigit(byteAt(s, i+1))) {
			return s, false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func isHexDigit(c byte) bool {
	return isDecimal(c) || (c|0x20 >= 'a' && c|0x20 <= 'z')
}

// intFromFloat is int(f).
func intFromFloat(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, valueErrorf("cannot convert float %s to integer", formatFloat(f))
	}
	n, _ := big.NewFloat(f).Int(nil)
	return shrink(n), nil
}

func parsePythonInt(s string, base int) (Value, error) {
	text := strings.TrimFunc(s, isSpace)
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	prefixes := map[string]int{"0x": 16, "0o": 8, "0b": 2}
	if len(digits) > 2 {
		if b, ok := prefixes[strings.ToLower(digits[:2])]; ok && (base == 0 || base == b) {
			digits, base = strings.TrimPrefix(digits[2:], "_"), b
		}
	}
	if base == 0 {
		base = 10
	}
	clean, ok := withoutUnderscores(digits)
	if !ok || clean == "" || len(clean) > intBitsMax || strings.ContainsAny(clean, "+-") || base < 2 || base > 36 {
		return nil, valueErrorf("invalid literal for int() with base %d: %s", base, quote(s))
	}
	n, ok := new(big.Int).SetString(clean, base)
	if !ok || n.BitLen() > intBitsMax {
		return nil, valueErrorf("invalid literal for int() with base %d: %s", base, quote(s))
	}
	if strings.HasPrefix(text, "-") {
		n.Neg(n)
	}
	return shrink(n), nil
}

func filterInt(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("int", "default", "base")
	if err != nil {
		return nil, err
	}
	if isAbsent(values[0]) {
		values[0] = 0
	}
	base, err := intOr("int", values[1], 10)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	if s, ok := asStr(v); ok {
		if n, err := parsePythonInt(s, base); err == nil {
			return n, nil
		}
	}
	if n, ok := asBig(v); ok {
		return shrink(n), nil
	}
	f, err := in.floatOf(v)
	if err != nil {
		return values[0], nil
	}
	if math.IsInf(f, 0) && isFloat(v) {
		return nil, valueErrorf("OverflowError: cannot convert float infinity to integer")
	}
	n, err := intFromFloat(f)
	if err != nil {
		return values[0], nil
	}
	return n, nil
}

func filterFloat(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("float", "default")
	if err != nil {
		return nil, err
	}
	if isAbsent(values[0]) {
		values[0] = 0.0
	}
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	f, err := in.floatOf(v)
	if err != nil {
		return values[0], nil
	}
	return f, nil
}

func filterAbs(in *interp, v Value, args callArgs) (Value, error) {
	if err := args.none("abs"); err != nil {
		return nil, err
	}
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	n, ok := asBig(v)
	if !ok {
		return nil, typeErrorf("bad operand type for abs(): '%s'", typeName(v))
	}
	return shrink(new(big.Int).Abs(n)), nil
}

func filterRound(in *interp, v Value, args callArgs) (Value, error) {
	values, err := args.params("round", "precision", "method")
	if err != nil {
		return nil, err
	}
	precision, err := intOr("round", values[0], 0)
	if err != nil {
		return nil, err
	}
	precision = max(min(precision, 400), -400)
	method, err := strOr("round", values[1], "common")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*Undefined); ok {
		return nil, u.err()
	}
	if !isNumber(v) {
		return nil, typeErrorf("type %s doesn't define __round__ method", typeName(v))
	}
	switch method {
	case "common":
		return roundCommon(v, precision)
	case "ceil", "floor":
		return in.roundTo(v, precision, method == "ceil")
	}
	return nil, valueErrorf("method must be common, ceil or floor")
}

// roundCommon is Python's round(v, precision): halves go to the even side.
func roundCommon(v Value, precision int) (Value, error) {
	if n, ok := asBig(v); ok {
		return roundInt(n, precision), nil
	}
	f, err := toFloat(v)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return f, err
	}
	if precision >= 0 {
		f, err = strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return f, err
	}
	exact, _ := new(big.Float).SetFloat64(f).Rat(nil)
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil))
	scaled := exact.Quo(exact, scale)
	whole := halfEven(scaled)
	out, _ := new(big.Rat).Mul(new(big.Rat).SetInt(whole), scale).Float64()
	return out, nil
}

// halfEven rounds a fraction to the nearest integer.
func halfEven(r *big.Rat) *big.Int {
	twice := new(big.Rat).Add(r, r)
	doubled := new(big.Int).Add(new(big.Int).Set(twice.Num()), twice.Denom())
	whole := new(big.Int).Div(doubled, new(big.Int).Lsh(twice.Denom(), 1))
	isHalf := new(big.Rat).Sub(new(big.Rat).SetInt(whole), r).Cmp(big.NewRat(1, 2)) == 0
	if isHalf && whole.Bit(0) == 1 {
		whole.Sub(whole, big.NewInt(1))
	}
	return whole
}

func roundInt(n *big.Int, precision int) Value {
	if precision >= 0 {
		return shrink(n)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	whole := halfEven(new(big.Rat).SetFrac(n, scale))
	return shrink(whole.Mul(whole, scale))
}

// roundTo scales, rounds in one direction and scales back, in floats.
func (in *interp) roundTo(v Value, precision int, up bool) (Value, error) {
	scale, err := in.arith('p', 10, precision)
	if err != nil {
		return nil, err
	}
	scaled, err := in.arith('*', v, scale)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(float64); ok {
		if up {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		if scaled, err = intFromFloat(f); err != nil {
			return nil, err
		}
	}
	return in.arith('/', scaled, scale)
}
