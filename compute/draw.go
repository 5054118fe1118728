package compute

import (
	"math"

	"parley"
)

// A Draw is everything that decides a token besides its scores, in numbers. What they
// mean is defined by engine/sample, whose arithmetic is exact, so that any device
// chooses the same token.
type Draw struct {
	// Seed, Choice and Position name the random number.
	Seed, Choice, Position uint64
	// Greedy takes the best score and ignores what follows.
	Greedy bool
	// TopK is how many of the best may be drawn, at least 1 and at most the vocabulary.
	TopK int
	// Temperature divides the scores.
	Temperature float64
	// TopP is the share of the weight that may be drawn; 1 is all.
	TopP float64
	// MinPSteps is how far below the best score a token may lie, in steps of which
	// DrawSteps halve a weight; +Inf is any distance.
	MinPSteps float64
}

// DrawSteps is the resolution of distances between scores: that many halve a weight.
const DrawSteps = 512

// StepsPerUnit is how many steps one unit of score is worth.
func (d *Draw) StepsPerUnit() float64 { return DrawSteps * math.Log2E / d.Temperature }

// DrawRoots returns 2^(-i/DrawSteps). It uses square roots and products alone: unlike
// math.Exp2, these are rounded the same way on every machine.
func DrawRoots() (table [DrawSteps]float64) {
	for i := range table {
		table[i] = 1
	}
	root := 0.5
	for bit := DrawSteps / 2; bit > 0; bit /= 2 {
		root = math.Sqrt(root)
		for i := range table {
			if i&bit != 0 {
				table[i] *= root
			}
		}
	}
	return table
}

// A Chooser is a backend that can choose tokens on its device. A step that ends with
// Choose is computed while the caller does something else, after the steps before it;
// no more than two may be under way.
type Chooser interface {
	Backend
	// Choose computes the scores of the step's output rows and draws a token for each.
	// It returns before that is done. Tokens of the step that are less than 0 name
	// tokens that the step before chose; see [Chosen].
	Choose(src Buffer, table Weight, draws []Draw)
	// AwaitChosen returns when the oldest step is computed, with the tokens that it chose,
	// -1 where no token has a score. They are valid until the next call.
	AwaitChosen() []parley.Token
}
