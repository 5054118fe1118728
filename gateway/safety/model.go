package safety

import "math"

// A Head is one thing that the classifier says of a text.
type Head uint8

// The heads. HeadHarm is a text that does harm, HeadInjection an attempt to
// take a model over, HeadIllicit a request for help with what does harm. Those
// behind them distinguish kinds of harm. HeadOrder is an instruction to the reader of the
// text, which no tool result should be.
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
	// packed are the weights as they are added up.
	packed []lanes
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
func Share(n int) float32 {
	if n < len(shares) {
		return shares[n]
	}
	return shareOf(n)
}

func shareOf(n int) float32 { return float32(1 / math.Sqrt(float64(n+shortText))) }

var shares = func() (t [Window + 1]float32) {
	for n := range t {
		t[n] = shareOf(n)
	}
	return t
}()

// lanes are the weights of a bucket, four heads to a word. Each has laneZero
// added and so is never negative: adding words adds all heads at once, and
// laneSums of them do not overflow.
type lanes [(Heads + 3) / 4]uint64

const (
	laneBits = 16
	laneZero = steps + 1
	laneSums = (1<<laneBits - 1) / (2*steps + 1)
)

// pack prepares the weights for being added up.
func (m *Model) pack() {
	m.packed = make([]lanes, len(m.weights))
	for b := range m.weights {
		for h, w := range m.weights[b] {
			m.packed[b][h/4] |= uint64(int(w)+laneZero) << (h % 4 * laneBits)
		}
	}
}

// add adds the weights of buckets.
func (m *Model) add(s *sum, buckets []uint32) {
	for len(buckets) > 0 {
		part := buckets[:min(len(buckets), laneSums)]
		buckets = buckets[len(part):]
		var all lanes
		for _, b := range part {
			w := &m.packed[b]
			all[0] += w[0]
			all[1] += w[1]
			all[2] += w[2]
		}
		zero := int32(len(part) * laneZero)
		for h := range s {
			s[h] += int32(all[h/4]>>(h%4*laneBits)&(1<<laneBits-1)) - zero
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

// steps is how many steps the largest weight of a head has.
const steps = 500

// NewModel rounds weights to whole steps. A text whose score is at a head's
// threshold gets the score 0.
func NewModel(weights [][Heads]float32, bias, thresholds [Heads]float32) *Model {
	m := &Model{weights: make([][Heads]int16, len(weights))}
	for h := range m.step {
		largest := float32(0)
		for b := range weights {
			largest = max(largest, float32(math.Abs(float64(weights[b][h]))))
		}
		m.step[h] = max(largest, 1e-6) / steps
		m.bias[h] = bias[h] - thresholds[h]
		for b := range weights {
			m.weights[b][h] = int16(math.Round(float64(weights[b][h] / m.step[h])))
		}
	}
	m.pack()
	return m
}
