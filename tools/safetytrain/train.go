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
	// kept are the features of a step, random the state of chance.
	kept   []uint32
	random uint64
}

// How it learns.
type schedule struct {
	learners uint64
	epochs   int
	rate     float32
	decay    float32 // share of a weight that is lost when it is touched
	// dropWords and dropFeatures are the shares that are left out of a step.
	dropWords, dropFeatures float32
}

var plan = schedule{
	learners:     3,
	epochs:       8,
	rate:         0.12,
	decay:        1e-4,
	dropWords:    0.35,
	dropFeatures: 0.5,
}

// presumption is the score of a text in which nothing speaks for or against
// it. It is not learned: most texts are clean, more than the data has.
const presumption = -3

func newLearner() *learner {
	table := func() [][safety.Heads]float32 { return make([][safety.Heads]float32, 1<<safety.BucketBits) }
	l := &learner{weights: table(), slopes: table(), total: table(), random: 0x9E3779B97F4A7C15}
	for h := range l.bias {
		l.bias[h] = presumption
	}
	return l
}

// train teaches several learners that differ in the order of the examples and
// in what is left out of them, and returns their mean: what only one of them
// believes is chance.
func train(examples []*example, include func(*example) bool, plan schedule) *learner {
	all := trainOne(examples, include, plan, 1)
	for seed := uint64(2); seed <= plan.learners; seed++ {
		one := trainOne(examples, include, plan, seed)
		for b := range all.weights {
			for h, w := range one.weights[b] {
				all.weights[b][h] += (w - all.weights[b][h]) / float32(seed)
			}
		}
	}
	return all
}

// trainOne teaches the examples that include accepts, in an order that depends
// on nothing but the seed.
func trainOne(examples []*example, include func(*example) bool, plan schedule, seed uint64) *learner {
	l := newLearner()
	l.random *= 2*seed + 1
	var chosen []*example
	for _, e := range examples {
		if include(e) && len(e.sample.Words) > 0 {
			chosen = append(chosen, e)
		}
	}
	random := rand.New(rand.NewPCG(7, 10+seed))
	for epoch := range plan.epochs {
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		rate := plan.rate * (1 - float32(epoch)/float32(plan.epochs+1))
		for _, e := range chosen {
			l.learn(e, rate, plan)
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
func (l *learner) sum(e *example) {
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
}

// around adds up what surrounds the words of a span.
func (l *learner) around(e *example, span [2]int) (context [safety.Heads]float32) {
	l.kept = e.sample.Around(l.kept[:0], span)
	l.addTo(&context, l.kept, 1)
	return context
}

// score returns the worst score of every head and the span that has it.
func (l *learner) score(e *example) (z [safety.Heads]float32, at [safety.Heads][2]int) {
	l.sum(e)
	for h := range z {
		z[h] = float32(math.Inf(-1))
	}
	for _, s := range e.spans() {
		share := safety.Share(s[1] - s[0])
		context := l.around(e, s)
		for h := range z {
			if v := l.bias[h] + (l.sums[s[1]][h]-l.sums[s[0]][h])*share + context[h]; v > z[h] {
				z[h], at[h] = v, s
			}
		}
	}
	if !e.brought {
		const h = safety.HeadInjection
		for _, s := range e.inner() {
			context := l.around(e, s)
			if v := l.bias[h] + (l.sums[s[1]][h]-l.sums[s[0]][h])*safety.Share(s[1]-s[0]) + context[h]; v > z[h] {
				z[h], at[h] = v, s
			}
		}
	}
	crowd := safety.Crowd(len(e.sample.Words), e.origin())
	z[safety.HeadInjection] -= crowd
	z[safety.HeadOrder] -= crowd
	return z, at
}

// learn takes one step: for every head that the example speaks of, the span
// that looks worst moves towards the target.
func (l *learner) learn(e *example, rate float32, plan schedule) {
	_, at := l.score(e)
	done := [safety.Heads]bool{}
	for h := range at {
		if e.target[h] == unknown || done[h] {
			continue
		}
		var moved [safety.Heads]bool
		for k := h; k < int(safety.Heads); k++ {
			if e.target[k] != unknown && at[k] == at[h] && !done[k] {
				done[k], moved[k] = true, true
			}
		}
		l.step(e, at[h], &moved, rate, plan)
	}
}

// step moves heads of a span. Some of its words and features are left out, of
// the score as of what is learned, so that no few of them carry all: what is
// left must do, as it must in texts that say the same in other words.
func (l *learner) step(e *example, at [2]int, moved *[safety.Heads]bool, rate float32, plan schedule) {
	context := e.sample.Around(nil, at)
	kept, whole := l.keep(e.sample.Words[at[0]:at[1]], plan)
	share := safety.Share(at[1] - at[0])
	z := l.bias
	l.addTo(&z, kept, share*whole)
	l.addTo(&z, context, 1)
	var slope, scaled [safety.Heads]float32
	for h := range z {
		if miss := sigmoid(z[h]) - float32(e.target[h]); moved[h] && (miss > 0.02 || miss < -0.02) {
			slope[h] = e.weight * miss
			scaled[h] = slope[h] * share
		}
	}
	if slope == ([safety.Heads]float32{}) {
		return
	}
	l.move(kept, &scaled, rate, plan.decay)
	l.move(context, &slope, rate*0.5, plan.decay)
}

// keep returns the features that are not left out, and how much more they
// count for it.
func (l *learner) keep(words [][]uint32, plan schedule) (kept []uint32, whole float32) {
	all := 0
	l.kept = l.kept[:0]
	for _, buckets := range words {
		all += len(buckets)
		if len(words) > 4 && l.chance() < plan.dropWords {
			continue
		}
		for _, b := range buckets {
			if l.chance() >= plan.dropFeatures {
				l.kept = append(l.kept, b)
			}
		}
	}
	return l.kept, float32(all) / float32(max(len(l.kept), 1))
}

// chance returns a number from 0 to 1.
func (l *learner) chance() float32 {
	l.random ^= l.random << 13
	l.random ^= l.random >> 7
	l.random ^= l.random << 17
	return float32(l.random>>40) / (1 << 24)
}

func (l *learner) addTo(z *[safety.Heads]float32, buckets []uint32, share float32) {
	var s [safety.Heads]float32
	for _, b := range buckets {
		w := &l.weights[b]
		for h := range w {
			s[h] += w[h]
		}
	}
	for h := range z {
		z[h] += s[h] * share
	}
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
