package jinja

import "strings"

// A test answers "v is name(args)".
type test = func(r *state, v Value, args callArgs) bool

var testTable = map[string]test{
	"defined":   plainTest(func(v Value) bool { return !is[*undefined](v) }),
	"undefined": plainTest(is[*undefined]),
	"none":      plainTest(func(v Value) bool { return v == nil }),
	"boolean":   plainTest(is[bool]),
	"true":      plainTest(func(v Value) bool { return v == true }),
	"false":     plainTest(func(v Value) bool { return v == false }),
	"integer":   plainTest(isInteger),
	"float":     plainTest(is[float64]),
	"number":    plainTest(isNumber),
	"string":    plainTest(isString),
	"mapping":   plainTest(is[*Map]),
	"sequence":  plainTest(isSequence),
	"iterable":  plainTest(isIterable),
	"callable":  plainTest(func(v Value) bool { return is[*function](v) || is[*undefined](v) }),
	"lower":     textTest(strings.ToLower),
	"upper":     textTest(strings.ToUpper),
	"odd":       remainderTest(1),
	"even":      remainderTest(0),

	"divisibleby": func(r *state, v Value, args callArgs) bool {
		return r.equal(r.arith("%", v, args.bind("divisibleby", 1, "num").values[0]), 0)
	},
	"in": func(r *state, v Value, args callArgs) bool {
		return r.contains(args.bind("in", 1, "seq").values[0], v)
	},
	"==": compareTest("=="), "eq": compareTest("=="), "equalto": compareTest("=="),
	"!=": compareTest("!="), "ne": compareTest("!="),
	"<": compareTest("<"), "lt": compareTest("<"), "lessthan": compareTest("<"),
	"<=": compareTest("<="), "le": compareTest("<="),
	">": compareTest(">"), "gt": compareTest(">"), "greaterthan": compareTest(">"),
	">=": compareTest(">="), "ge": compareTest(">="),
}

func plainTest(holds func(Value) bool) test {
	return func(_ *state, v Value, args callArgs) bool {
		args.none("test")
		return holds(v)
	}
}

// textTest says that a text has a case and is in it.
func textTest(convert func(string) string) test {
	return func(r *state, v Value, args callArgs) bool {
		args.none("test")
		s := r.str(v)
		r.allocString(3 * len(s))
		return convert(s) == s && strings.ToLower(s) != strings.ToUpper(s)
	}
}

func remainderTest(remainder int) test {
	return func(r *state, v Value, args callArgs) bool {
		args.none("test")
		return r.equal(r.arith("%", v, 2), remainder)
	}
}

func compareTest(op string) test {
	compare := comparisons[op]
	return func(r *state, v Value, args callArgs) bool {
		return compare(r, v, args.bind("test", 1, "other/").values[0])
	}
}
