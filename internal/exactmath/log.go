package exactmath

import "math"

// odd are 2/n for n = 3, 5, 7 and so on: those of the series of the logarithm.
var odd = [...]float64{
	2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23,
}

// Log returns the natural logarithm of x.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	part, exponent := math.Frexp(x)
	if part < math.Sqrt2/2 {
		part *= 2
		exponent--
	}
	f, k := part-1, float64(exponent)
	// ln(1+f) is 2 artanh(s), written as f less what is small beside it.
	s := f / (2 + f)
	square, sum := float64(s*s), 0.0
	for i := len(odd) - 1; i >= 0; i-- {
		sum = odd[i] + float64(sum*square)
	}
	half := float64(0.5 * f * f)
	less := half - (float64(s*(half+float64(square*sum))) + float64(k*ln2Low))
	return float64(k*ln2High) - (less - f)
}

// Log10 returns the logarithm of x to the base of 10. That of a power of ten need not be whole.
func Log10(x float64) float64 { return Log(x) / math.Ln10 }

// Pow returns x to the power of y. Whole powers are products: each may add an error of a unit in the last place.
func Pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case y == 1:
		return x
	case math.IsNaN(x) || math.IsNaN(y):
		return math.NaN()
	case x == 0 || math.IsInf(x, 0) || math.IsInf(y, 0) || math.Abs(y) >= 1<<53:
		return extreme(x, y)
	case y == 0.5:
		return math.Sqrt(x)
	case y == -0.5:
		return 1 / math.Sqrt(x)
	}
	whole, part := math.Modf(math.Abs(y))
	if part != 0 && x < 0 {
		return math.NaN()
	}
	if part > 0.5 {
		whole, part = whole+1, part-1
	}
	product, exponent := 1.0, 0
	if part != 0 {
		product = Exp(float64(part * Log(x)))
	}
	factor, power := math.Frexp(x)
	for n := int64(whole); n != 0; n >>= 1 {
		if power < -1<<12 || power > 1<<12 { // the last factor is among those left, and is too large or small by itself
			exponent += power
			break
		}
		if n&1 == 1 {
			product, exponent = float64(product*factor), exponent+power
		}
		factor, power = float64(factor*factor), 2*power
		if factor < 0.5 {
			factor, power = 2*factor, power-1
		}
	}
	if y < 0 {
		product, exponent = 1/product, -exponent
	}
	return math.Ldexp(product, exponent)
}

// extreme returns powers that are zero, one or not finite, which are the same everywhere.
func extreme(x, y float64) float64 { return math.Pow(x, y) }
