package safety

import "math"

// A Head is one thing that the classifier says of a text.
type Head uint8

// The heads. HeadHarm is a text that does harm, HeadInjection an attempt to
// take a model over, HeadIllicit a request for help with what does harm. Those
// behind them tell kinds of harm apart. HeadOrder is an order to whoever reads
// the text, which nothing that a tool brings should be.
const (
	HeadHarm Head = iota
	HeadInjection
	HeadIllicit
	HeadHarassment
	HeadHate
	HeadSexual
	HeadMinors
	HeadViolence
	HeadSelfHarm
	HeadOrder
	Heads // how many there are
)

// A sum is what features add to each head, in units of the head's step.
type sum [Heads]int32

// A Model is the classifier: for every bucket the weights of all heads.
type Model struct {
	weights [][Heads]int16
	// step is the size of one unit of weight, bias what an empty text has.
	step, bias [Heads]float32
}

// Bags and windows. A text is judged as the worst of its windows, so that a
// sentence does not drown in a book.
const (
	// Window is how many words are judged together, Stride how far apart
	// windows begin.
	Window = 64
	Stride = 32
	// shortText keeps scores of a few words from running away.
	shortText = 4
)

// Share is what n words are divided by.
func Share(n int) float32 { return float32(1 / math.Sqrt(float64(n+shortText))) }

// add adds the weights of buckets.
func (m *Model) add(s *sum, buckets []uint32) {
	for _, b := range buckets {
		w := &m.weights[b]
		for h := range w {
			s[h] += int32(w[h])
		}
	}
}

// logits turns the sums of n words and of their context into scores.
func (m *Model) logits(s, context *sum, n int) (z [Heads]float32) {
	share := Share(n)
	for h := range z {
		z[h] = m.bias[h] + m.step[h]*(float32(s[h])*share+float32(context[h]))
	}
	return z
}
