package jinja

import (
	"math/big"
)

// A testFunc answers "v is name(args)".
type testFunc func(in *interp, v Value, args callArgs) (bool, error)

var testTable map[string]testFunc

func init() {
	testTable = map[string]testFunc{
		"defined":   plainTest(func(v Value) bool { return !isUndefined(v) }),
		"undefined": plainTest(isUndefined),
		"none":      plainTest(func(v Value) bool { return v == nil }),
		"boolean":   plainTest(isBool),
		"true":      plainTest(func(v Value) bool { return v == true }),
		"false":     plainTest(func(v Value) bool { return v == false }),
		"integer":   plainTest(isInteger),
		"float":     plainTest(isFloat),
		"number":    plainTest(isNumber),
		"string":    plainTest(isString),
		"mapping":   plainTest(isMapping),
		"sequence":  plainTest(isSequence),
		"callable":  plainTest(isCallable),
		"iterable":  testIterable,
		"lower":     textTest(isLowerText),
		"upper":     textTest(isUpperText),
		"odd":       remainderTest(2, 1),
		"even":      remainderTest(2, 0),

		"divisibleby": testDivisible,
		"sameas":      testSame,
		"in":          testIn,
	}
	for op, names := range map[compareOp][]string{
		opEq: {"==", "eq", "equalto"},
		opNe: {"!=", "ne"},
		opLt: {"<", "lt", "lessthan"},
		opLe: {"<=", "le"},
		opGt: {">", "gt", "greaterthan"},
		opGe: {">=", "ge"},
	} {
		for _, name := range names {
			testTable[name] = compareTest(op)
		}
	}
}

func isUndefined(v Value) bool {
	_, ok := v.(*Undefined)
	return ok
}

func isBool(v Value) bool {
	_, ok := v.(bool)
	return ok
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int, *big.Int:
		return true
	}
	return false
}

func isFloat(v Value) bool {
	_, ok := v.(float64)
	return ok
}

func isString(v Value) bool {
	_, ok := asStr(v)
	return ok
}

func isMapping(v Value) bool {
	_, ok := v.(*Map)
	return ok
}

// isSequence says that v has a length and items: a dict does, a view of one
// does not, and an undefined value does too.
func isSequence(v Value) bool {
	switch v.(type) {
	case string, *Text, *List, *Tuple, *Map, rangeValue, *Undefined:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *function, *macro, *loopState, *joiner, *Undefined:
		return true
	}
	return false
}

func plainTest(holds func(Value) bool) testFunc {
	return func(_ *interp, v Value, args callArgs) (bool, error) {
		return holds(v), args.none("test")
	}
}

func textTest(holds func(string) bool) testFunc {
	return func(in *interp, v Value, args callArgs) (bool, error) {
		s, err := in.str(v)
		if err != nil {
			return false, err
		}
		return holds(s), args.none("test")
	}
}

func remainderTest(divisor, remainder int) testFunc {
	return func(in *interp, v Value, args callArgs) (bool, error) {
		r, err := in.arith('%', v, divisor)
		if err != nil {
			return false, err
		}
		if err := args.none("test"); err != nil {
			return false, err
		}
		return in.equal(r, remainder)
	}
}

func oneArg(args callArgs, name string) (Value, error) {
	values, err := args.required("test", 1, name)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

func testDivisible(in *interp, v Value, args callArgs) (bool, error) {
	divisor, err := oneArg(args, "num")
	if err != nil {
		return false, err
	}
	r, err := in.arith('%', v, divisor)
	if err != nil {
		return false, err
	}
	return in.equal(r, 0)
}

func compareTest(op compareOp) testFunc {
	return func(in *interp, v Value, args callArgs) (bool, error) {
		other, err := oneArg(args, "b/")
		if err != nil {
			return false, err
		}
		return in.compare(op, v, other)
	}
}

func testIn(in *interp, v Value, args callArgs) (bool, error) {
	container, err := oneArg(args, "seq")
	if err != nil {
		return false, err
	}
	return in.contains(container, v)
}

// testSame is Python's "is". Equal strings and small numbers are one object
// there, which no template can rely on for longer ones.
func testSame(in *interp, v Value, args callArgs) (bool, error) {
	other, err := oneArg(args, "other")
	if err != nil {
		return false, err
	}
	switch v.(type) {
	case nil, bool:
		return v == other, nil
	case string, *Text, int, float64:
		if typeName(v) != typeName(other) {
			return false, nil
		}
		return in.equal(v, other)
	}
	return v == other, nil
}

func testIterable(in *interp, v Value, args callArgs) (bool, error) {
	_, err := in.iterate(v)
	return err == nil, args.none("iterable")
}
