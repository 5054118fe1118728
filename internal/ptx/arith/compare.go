package arith

// Comparisons are the operators of setp and set.
var Comparisons = []string{
	"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
	"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}

// CompareInt returns the function of an integer comparison.
func CompareInt(op string, t Type) func(a, b uint64) bool {
	s := t.Signed()
	switch op {
	case "eq":
		return func(a, b uint64) bool { return a == b }
	case "ne":
		return func(a, b uint64) bool { return a != b }
	case "lt", "lo":
		return func(a, b uint64) bool { return lessThan(a, b, s) }
	case "le", "ls":
		return func(a, b uint64) bool { return !lessThan(b, a, s) }
	case "gt", "hi":
		return func(a, b uint64) bool { return lessThan(b, a, s) }
	case "ge", "hs":
		return func(a, b uint64) bool { return !lessThan(a, b, s) }
	}
	return nil
}

// CompareFloat returns the function of a floating-point comparison; those with
// a u at the end hold for NaN.
func CompareFloat(op string) func(a, b float64) bool {
	unordered := func(a, b float64) bool { return a != a || b != b }
	switch op {
	case "eq":
		return func(a, b float64) bool { return a == b }
	case "ne":
		return func(a, b float64) bool { return a < b || a > b }
	case "lt":
		return func(a, b float64) bool { return a < b }
	case "le":
		return func(a, b float64) bool { return a <= b }
	case "gt":
		return func(a, b float64) bool { return a > b }
	case "ge":
		return func(a, b float64) bool { return a >= b }
	case "num":
		return func(a, b float64) bool { return !unordered(a, b) }
	case "nan":
		return unordered
	}
	if base := CompareFloat(trimU(op)); base != nil && op != trimU(op) {
		return func(a, b float64) bool { return unordered(a, b) || base(a, b) }
	}
	return nil
}

func trimU(op string) string {
	if len(op) == 3 && op[2] == 'u' {
		return op[:2]
	}
	return "?"
}
