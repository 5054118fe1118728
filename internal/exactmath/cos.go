package exactmath

import "math"

// cosTerms is how many terms of the series there are: more change no bit.
const cosTerms = 12

// Cos returns the cosine of x, which is at most a few turns. The error is at most 1e-15.
func Cos(x float64) float64 {
	const twoPi = 2 * math.Pi
	turn := math.Abs(x)
	turn -= float64(math.Round(turn/twoPi) * twoPi)
	sign := 1.0
	turn = math.Abs(turn)
	if turn > math.Pi/2 {
		turn, sign = math.Pi-turn, -1
	}
	square, sum := float64(turn*turn), 1.0
	for i := cosTerms; i > 0; i-- {
		sum = 1 - float64(float64(square/float64(2*i*(2*i-1)))*sum)
	}
	return float64(sign * sum)
}
