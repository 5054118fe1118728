package exactmath

import "math"

const (
	// ln2High has so few bits that its product with an exponent is exact; ln2Low is the rest.
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
	// expMost and expLeast are the arguments above which the exponential overflows, and below which it is zero.
	expMost, expLeast = 7.09782712893383973096e+02, -7.45133219101941108420e+02
)

// inverses are 1/n!, from n = 2 on.
var inverses = [...]float64{
	1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
	1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
}

// Exp returns e to the power of x.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > expMost:
		return math.Inf(1)
	case x < expLeast:
		return 0
	}
	k := math.Round(float64(x * math.Log2E))
	high, low := x-float64(k*ln2High), float64(k*ln2Low)
	return math.Ldexp(series(high, low), int(k))
}

// Exp2 returns 2 to the power of x.
func Exp2(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x >= 1024:
		return math.Inf(1)
	case x < -1075:
		return 0
	}
	k := math.Round(x)
	t := x - k
	return math.Ldexp(series(float64(t*ln2High), -float64(t*ln2Low)), int(k))
}

// series returns e to the power of high-low, which is at most half of ln 2 from zero.
func series(high, low float64) float64 {
	r := high - low
	sum := 0.0
	for i := len(inverses) - 1; i >= 0; i-- {
		sum = inverses[i] + float64(sum*r)
	}
	return 1 + (high - (low - float64(float64(r*r)*sum)))
}
