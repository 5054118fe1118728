package admin

import "math"

// delta is how much a counter grew. One that was reset grew by all it has.
func delta(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

func share(part, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return round(part / all)
}

// round keeps four decimals: more are noise, and cost bytes.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }
