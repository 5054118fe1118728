package main

import (
	"math"
	"math/rand/v2"

	"parley/gateway/safety"
)

// A learner is the classifier while it learns: a weight for each bucket and
// head, and the sum of squared slopes that slows each of them down.
type learner struct {
	weights, slopes [][safety.Heads]float32
	bias            [safety.Heads]float32
	// sums holds the running sums of an example's words.
	sums [][safety.Heads]float32
	// total adds up the weights that are averaged in the end.
	total      [][safety.Heads]float32
	remembered float32
}

// How it learns.
type schedule struct {
	epochs    int
	rate      float32
	decay     float32 // share of a weight that is lost when it is touched
	dropWords float32
}

var plan = schedule{epochs: 10, rate: 0.12, decay: 1e-4, dropWords: 0.15}

// presumption is the score of a text in which nothing speaks for or against
// it. It is not learned: most texts are clean, more than the data has.
const presumption = -3

func newLearner() *learner {
	table := func() [][safety.Heads]float32 { return make([][safety.Heads]float32, 1<<safety.BucketBits) }
	l := &learner{weights: table(), slopes: table(), total: table()}
	for h := range l.bias {
		l.bias[h] = presumption
	}
	return l
}

// train teaches the examples that include accepts, in an order that depends
// on nothing but the seed.
func train(examples []*example, include func(*example) bool, plan schedule) *learner {
	l := newLearner()
	var chosen []*example
	for _, e := range examples {
		if include(e) && len(e.sample.Words) > 0 {
			chosen = append(chosen, e)
		}
	}
	random := rand.New(rand.NewPCG(7, 11))
	for epoch := range plan.epochs {
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		rate := plan.rate * (1 - float32(epoch)/float32(plan.epochs+1))
		for _, e := range chosen {
			l.learn(e, rate, plan, random)
		}
		if epoch >= plan.epochs/2 {
			l.remember()
		}
	}
	l.average()
	return l
}

// remember adds the weights as they are now to those that are averaged.
func (l *learner) remember() {
	l.remembered++
	for b := range l.weights {
		for h, w := range l.weights[b] {
			l.total[b][h] += w
		}
	}
}

// average replaces the weights by the mean of those remembered: it swings
// less than where the last steps happened to lead.
func (l *learner) average() {
	for b := range l.weights {
		for h := range l.weights[b] {
			l.weights[b][h] = l.total[b][h] / l.remembered
		}
	}
}

// sum fills l.sums: entry i is what the first i words add up to.
func (l *learner) sum(e *example) (context [safety.Heads]float32) {
	l.sums = append(l.sums[:0], [safety.Heads]float32{})
	for _, buckets := range e.sample.Words {
		s := l.sums[len(l.sums)-1]
		if e.brought {
			for _, b := range buckets {
				s[safety.HeadOrder] += l.weights[b][safety.HeadOrder]
			}
			l.sums = append(l.sums, s)
			continue
		}
		for _, b := range buckets {
			w := &l.weights[b]
			for h := range w {
				s[h] += w[h]
			}
		}
		l.sums = append(l.sums, s)
	}
	for _, b := range e.sample.Context {
		for h := range context {
			context[h] += l.weights[b][h]
		}
	}
	return context
}

// score returns the worst score of every head and the span that has it.
func (l *learner) score(e *example) (z [safety.Heads]float32, at [safety.Heads][2]int) {
	context := l.sum(e)
	for h := range z {
		z[h] = float32(math.Inf(-1))
	}
	for _, s := range e.spans() {
		share := safety.Share(s[1] - s[0])
		for h := range z {
			if v := l.bias[h] + (l.sums[s[1]][h]-l.sums[s[0]][h])*share + context[h]; v > z[h] {
				z[h], at[h] = v, s
			}
		}
	}
	if !e.brought {
		const h = safety.HeadInjection
		for _, s := range e.inner() {
			if v := l.bias[h] + (l.sums[s[1]][h]-l.sums[s[0]][h])*safety.Share(s[1]-s[0]) + context[h]; v > z[h] {
				z[h], at[h] = v, s
			}
		}
	}
	return z, at
}

// learn takes one step: for every head that the example speaks of, the span
// that looks worst moves towards the target.
func (l *learner) learn(e *example, rate float32, plan schedule, random *rand.Rand) {
	z, at := l.score(e)
	done := [safety.Heads]bool{}
	for h := range z {
		if e.target[h] == unknown || done[h] {
			continue
		}
		var slope [safety.Heads]float32
		for k := h; k < int(safety.Heads); k++ {
			if e.target[k] != unknown && at[k] == at[h] && !done[k] {
				done[k] = true
				if miss := sigmoid(z[k]) - float32(e.target[k]); miss > 0.02 || miss < -0.02 {
					slope[k] = e.weight * miss
				}
			}
		}
		if slope != ([safety.Heads]float32{}) {
			l.step(e, at[h], slope, rate, plan, random)
		}
	}
}

func (l *learner) step(e *example, at [2]int, slope [safety.Heads]float32, rate float32, plan schedule, random *rand.Rand) {
	share := safety.Share(at[1] - at[0])
	var scaled [safety.Heads]float32
	for h := range slope {
		scaled[h] = slope[h] * share
	}
	for _, buckets := range e.sample.Words[at[0]:at[1]] {
		if at[1]-at[0] > 4 && random.Float32() < plan.dropWords {
			continue
		}
		l.move(buckets, &scaled, rate, plan.decay)
	}
	l.move(e.sample.Context, &slope, rate*0.5, plan.decay)
}

func (l *learner) move(buckets []uint32, slope *[safety.Heads]float32, rate, decay float32) {
	for _, b := range buckets {
		w, s := &l.weights[b], &l.slopes[b]
		for h, g := range slope {
			if g < 1e-4 && g > -1e-4 {
				continue
			}
			s[h] += g * g
			w[h] -= rate*g/(float32(math.Sqrt(float64(s[h])))+0.05) + decay*w[h]
		}
	}
}

func sigmoid(z float32) float32 { return float32(1 / (1 + math.Exp(-float64(z)))) }
