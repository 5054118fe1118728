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
	// Adjust changes scores before anything else. Mask has a bit for each token that may
	// be chosen, bit t%64 of word t/64 for token t; nil allows all.
	Adjust Adjust
	Mask   []uint64
	// Logprobs asks for what the token's log-probability is computed of, and for the
	// TopLogprobs best tokens, at most DrawTopMost.
	Logprobs    bool
	TopLogprobs int
}

// An Adjust is what logit bias and penalties do to scores. The zero value does nothing.
type Adjust struct {
	// Repetition scales tokens of prompt and answer; Frequency, times their number, and
	// Presence are subtracted from those of the answer.
	Repetition, Presence, Frequency float32
	// Tokens are those whose scores change, each once.
	Tokens []Adjustment
	// Coming, if positive, counts one more token of the answer: that which the step before
	// chose for its output row Coming-1.
	Coming int
}

// Counts reports whether the tokens of the answer change scores.
func (a *Adjust) Counts() bool { return a.Repetition != 1 || a.Presence != 0 || a.Frequency != 0 }

// An Adjustment is one token whose score is not taken as it is. Devices are given it as it lies
// in memory.
type Adjustment struct {
	Token parley.Token
	// Steer is added to the score first, then Bias.
	Steer, Bias float32
	// Answered is how often the token is in the answer, and InPrompt for one that is
	// in the prompt alone.
	Answered int32
}

// InPrompt marks a token of the prompt that the answer does not have.
const InPrompt = -1

// Answer counts one more occurrence in the answer.
func (a *Adjustment) Answer() { a.Answered = max(a.Answered, 0) + 1 }

// A DrawResult is a token that was drawn, -1 if no token has a score. The rest is there if
// the draw asked for log-probabilities; scores are those of the network, not adjusted.
type DrawResult struct {
	TokenScore
	// Peak is the best score of all tokens, and Sum the sum of e^(score-Peak) over them:
	// token t adds to the sum number t%DrawLanes, and these are added by halves.
	Peak float32
	Sum  float64
	// Top are the best tokens, best first.
	Top []TokenScore
}

// A TokenScore is a token with its score.
type TokenScore struct {
	Token parley.Token
	Score float32
}

const (
	// DrawTopMost is how many of the best tokens a draw may ask for.
	DrawTopMost = 32
	// DrawLanes is how many sums are added up independently of each other.
	DrawLanes = 1024
)

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
	// AwaitChosen returns when the oldest step is computed, with what it chose. That is
	// valid until the next call.
	AwaitChosen() []DrawResult
}
