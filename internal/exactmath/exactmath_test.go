package exactmath

import (
	"math"
	"math/rand/v2"
	"testing"
)

// off returns how many units in the last place two numbers are apart.
func off(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	unit := math.Nextafter(math.Abs(b), math.Inf(1)) - math.Abs(b)
	return math.Abs(a-b) / unit
}

// anySize draws a positive number of any size.
func anySize(r *rand.Rand) float64 { return math.Ldexp(0.5+r.Float64(), r.IntN(2000)-1000) }

// TestFunctions compares functions with those of package math, where these are right, and where they are special.
func TestFunctions(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300,
		1e300, math.MaxFloat64, 709, 709.8, -708, -745.2, 1023.9, 1024, -1074, -1076, math.Nextafter(1, 0),
		math.Nextafter(1, 2), math.Sqrt2 / 2, 1e-20}
	functions := []struct {
		name        string
		exact, math func(float64) float64
		draw        func(r *rand.Rand) float64
	}{
		{"Exp", Exp, math.Exp, func(r *rand.Rand) float64 { return 1417*r.Float64() - 708 }},
		{"Exp near 0", Exp, math.Exp, func(r *rand.Rand) float64 { return r.Float64() - 0.5 }},
		{"Exp2", Exp2, math.Exp2, func(r *rand.Rand) float64 { return 2045*r.Float64() - 1022 }},
		{"Exp2 near 0", Exp2, math.Exp2, func(r *rand.Rand) float64 { return 2*r.Float64() - 1 }},
		{"Log", Log, math.Log, anySize},
		{"Log near 1", Log, math.Log, func(r *rand.Rand) float64 { return 0.5 + r.Float64() }},
	}
	for _, f := range functions {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 200_000 {
			x := f.draw(r)
			if i < len(special) {
				x = special[i]
			}
			if got, want := f.exact(x), f.math(x); !(off(got, want) <= 2) {
				t.Errorf("%s(%g) is %g; want %g", f.name, x, got, want)
				break
			}
		}
	}
}

func TestLog10(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		if x := anySize(r); !(off(Log10(x), math.Log10(x)) <= 4) { // that of package math has an error, too
			t.Fatalf("Log10(%g) is %g; want %g", x, Log10(x), math.Log10(x))
		}
	}
}

func TestCos(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		if x := 40*r.Float64() - 20; math.Abs(Cos(x)-math.Cos(x)) > 1e-14 {
			t.Fatalf("Cos(%g) is %g; want %g", x, Cos(x), math.Cos(x))
		}
	}
	if Cos(0) != 1 || math.Abs(Cos(math.Pi)+1) > 1e-15 {
		t.Errorf("Cos(0) is %g, Cos(π) is %g", Cos(0), Cos(math.Pi))
	}
}

// TestPow compares powers, and those of zero, infinity and negative numbers.
func TestPow(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, 0.3, math.Inf(1), math.Inf(-1),
		math.NaN(), 1e300, -1e300, 1e-300, 1 << 53, 1<<53 - 1}
	check := func(x, y float64) {
		got, want := Pow(x, y), math.Pow(x, y)
		if !math.IsNaN(want) && math.Signbit(got) != math.Signbit(want) || !(off(got, want) <= 8) {
			t.Errorf("Pow(%g, %g) is %g; want %g", x, y, got, want)
		}
	}
	for _, x := range special {
		for _, y := range special {
			check(x, y)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(10*r.Float64(), 40*r.Float64()-20)
	}
}

// TestVariables compares random variables with those of the standard library, which takes the same from a source.
func TestVariables(t *testing.T) {
	kinds := []struct {
		name        string
		exact, math func(r *rand.Rand) float64
	}{
		{"Normal", Normal, (*rand.Rand).NormFloat64},
		{"Exponential", Exponential, (*rand.Rand).ExpFloat64},
	}
	for _, k := range kinds {
		a, b := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(3, 4))
		for i := range 2_000_000 {
			if got, want := k.exact(a), k.math(b); !(off(got, want) <= 2) {
				t.Errorf("%s number %d is %v; want %v", k.name, i, got, want)
				break
			}
		}
	}
}

// TestSameBits compares results with those of any other machine.
func TestSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	sum := uint64(0)
	add := func(x float64) { sum = sum*0x9e3779b97f4a7c15 + math.Float64bits(x) }
	for range 100_000 {
		x := r.Float64()
		add(Exp(float64(50*x) - 25))
		add(Exp2(float64(50*x) - 25))
		add(Log(x))
		add(Pow(x, 3.7))
		add(Cos(10 * x))
		add(Normal(r))
		add(Exponential(r))
	}
	const want = uint64(0x280d1e1f1f6c02f6)
	if sum != want {
		t.Errorf("the bits of 700,000 results give %#x; want %#x", sum, want)
	}
}
