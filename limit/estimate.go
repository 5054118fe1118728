package limit

import "math"

// An Estimate learns how many tokens answers have, so that a request need not reserve the most that it could use.
// The zero value has learned nothing.
type Estimate struct {
	answers         int
	mean, deviation float64
}

const (
	// firstTokens is reserved for an answer while nothing is known, leastTokens at least.
	firstTokens, leastTokens = 1024, 256
	// learning is the weight of a new answer.
	learning = 0.1
)

// Learn takes the length of an answer.
func (e *Estimate) Learn(tokens int64) {
	length := float64(tokens)
	if e.answers++; e.answers == 1 {
		e.mean = length
		return
	}
	weight := max(learning, 1/float64(e.answers))
	e.deviation += float64(weight * (math.Abs(length-e.mean) - e.deviation))
	e.mean += float64(weight * (length - e.mean))
}

// Tokens returns how many tokens to reserve for an answer of at most longest: more than most answers have.
func (e *Estimate) Tokens(longest int64) int64 {
	likely := int64(firstTokens)
	if e.answers > 0 {
		likely = max(leastTokens, int64(math.Ceil(e.mean+2*e.deviation)))
	}
	return min(longest, likely)
}
