package kv

import "math/bits"

// The kinds of blocks whose reuse is learned apart. A block that was hit
// before is likely to be hit again, the more often the more; among those never
// hit, it matters what sort of request brought them, and how much it brought.
const (
	kindAnswer  = 0 // past the prompt: the next turn may leave it out or write it anew
	kindFresh   = 1 // never hit, by origin and size: origins*sizes kinds
	kindKnown   = kindFresh + origins*sizes
	kinds       = kindKnown + 2*hitLevels
	hitLevels   = 4 // hit 1, 2-3, 4-7, 8 or more times
	origins     = 3
	sizes       = 3
	buckets     = 40 // of age: [0,1s), then each √2 longer than the one before
	sharedByAll = 8  // hits from which a block is a common prefix, not a conversation
)

const (
	begins   origin = iota // new after a common beginning, or altogether
	branches               // leaves a private context early and adds much of its own
	follows                // mostly known: a conversation continues
)

func originOf(knownBlocks, promptBlocks int, lastHits uint8) origin {
	switch {
	case knownBlocks*4 >= promptBlocks*3 && knownBlocks > 0:
		return follows
	case knownBlocks == 0 || lastHits >= sharedByAll:
		return begins
	}
	return branches
}

// sizeOf buckets the tokens a request adds to what is known.
func sizeOf(newTokens int) int {
	switch {
	case newTokens < 4096:
		return 0
	case newTokens < 16384:
		return 1
	}
	return 2
}

// kindOf returns the kind of a block with the given number of hits that was last
// used by a request of this origin and size.
func kindOf(hits uint8, answer bool, from origin, size int) uint8 {
	if answer && hits == 0 {
		return kindAnswer
	}
	if hits == 0 {
		return uint8(kindFresh + int(from)*sizes + size)
	}
	level := min(bits.Len8(hits), hitLevels) - 1
	if from == follows {
		return uint8(kindKnown + level)
	}
	return uint8(kindKnown + hitLevels + level)
}

// A learner estimates from the past how soon blocks of each kind and age are
// used again. All counts are of blocks, halved when they grow so that the
// estimate follows the load.
type learner struct {
	again   [kinds][buckets]float64 // were used at that age
	ended   [kinds][buckets]float64 // left that age: used, or grown older
	waiting [kinds][buckets]float64 // are at that age now
	known   [kinds]bool             // there was such a block
	oldest  int                     // no block was ever in a bucket of age from this one on
	others  *Reuse                  // what other caches have observed
	// worth is the expected hits per second of keeping a block, for the best
	// length of time, at the lower edge of each bucket.
	worth [kinds][buckets + 1]float64
	least [kinds][buckets]float64 // as bound found it
	// later is the chance that a block is used again at all, by its age.
	later      [kinds][buckets]float64
	edges      [buckets + 1]float64 // seconds
	spanBlocks float64              // mean size of spans: blocks used as one are one observation
	next       int                  // the kind whose worth is computed next
}

const (
	// priorChance is the chance of reuse assumed for a bucket of age before
	// anything is known. Buckets grow with age, so equal chances mean that the
	// rate falls with age, which is the assumption of LRU.
	priorChance = 0.02
	// memorySpans is how many spans an estimate remembers, those of other caches included, and
	// ownSpans how many of its own in any case.
	memorySpans = 2000
	ownSpans    = 100
	leastStay   = 1e-9
)

func newLearner() *learner {
	l := &learner{spanBlocks: 1, others: &nothing, oldest: 1}
	edge := 1.0
	for k := 1; k <= buckets; k++ {
		l.edges[k] = edge
		edge *= 1.4142135623730951
	}
	for kind := range kinds {
		l.estimate(kind)
	}
	return l
}

// arrive, grow, reuse and lose move blocks through the ages.
func (l *learner) arrive(kind uint8, blocks int) {
	l.known[kind] = true
	l.waiting[kind][0] += float64(blocks)
	l.spanBlocks += float64((float64(blocks) - l.spanBlocks) / 128)
}

func (l *learner) grow(kind, from uint8, blocks int) {
	n := float64(blocks)
	l.oldest = max(l.oldest, int(from)+2)
	l.waiting[kind][from] -= n
	l.waiting[kind][from+1] += n
	l.ended[kind][from] += n
}

func (l *learner) reuse(kind, at uint8) {
	l.waiting[kind][at]--
	l.ended[kind][at]++
	l.again[kind][at]++
}

func (l *learner) lose(kind, at uint8) { l.waiting[kind][at]-- }

// study brings the estimate of one kind up to date, another one each time, so
// that no call costs much.
func (l *learner) study() {
	l.estimate(l.next)
	l.next = (l.next + 1) % kinds
}

// observed returns how many blocks of a kind were used again at an age, of how
// many. Neighbouring ages count half: a chance does not jump with age, but
// small samples do. Those waiting have been exposed for about half the time.
func (l *learner) observed(kind, k int) (again, of float64) {
	o := l.others
	for j, weight := range [...]float64{0.25, 0.5, 0.25} {
		i := k + j - 1
		switch {
		case i < 0 || i >= buckets:
		case o == &nothing:
			again += float64(weight * l.again[kind][i])
			of += float64(weight * (l.ended[kind][i] + float64(l.waiting[kind][i]/2)))
		default:
			again += float64(weight * (l.again[kind][i] + o.again[kind][i]))
			waiting := float64((l.waiting[kind][i] + o.waiting[kind][i]) / 2)
			of += float64(weight * (l.ended[kind][i] + o.ended[kind][i] + waiting))
		}
	}
	return again, of
}

// estimate computes a kind's chances of reuse by age. What the kind itself has
// too few samples for comes from all kinds together, and that from the prior.
func (l *learner) estimate(kind int) {
	var chance, allAgain, allOf [buckets]float64
	ages := buckets // nothing was observed of those from here on
	if l.others == &nothing {
		ages = l.oldest
	}
	for other := range kinds {
		if !l.known[other] {
			continue
		}
		again, ended, waiting := &l.again[other], &l.ended[other], &l.waiting[other]
		o := l.others
		if o == &nothing {
			for k := range ages {
				allAgain[k] += again[k]
				allOf[k] += ended[k] + float64(waiting[k]/2)
			}
			continue
		}
		for k := range buckets {
			allAgain[k] += again[k] + o.again[other][k]
			allOf[k] += ended[k] + o.ended[other][k] + float64((waiting[k]+o.waiting[other][k])/2)
		}
	}
	for k := range buckets {
		if k > ages+1 { // as the one before, of which neither it nor its neighbours were observed
			chance[k] = chance[k-1]
			continue
		}
		common := (allAgain[k] + float64(l.spanBlocks*priorChance)) / (allOf[k] + l.spanBlocks)
		again, of := l.observed(kind, k)
		chance[k] = (again + float64(l.spanBlocks*common)) / (of + l.spanBlocks)
	}
	l.value(kind, &chance)
	for k := range ages {
		most := max(float64(memorySpans*l.spanBlocks)-l.others.ended[kind][k], ownSpans*l.spanBlocks)
		if l.ended[kind][k] > most {
			l.ended[kind][k] /= 2
			l.again[kind][k] /= 2
		}
	}
}

// value computes what a block is worth at each age: over all times it might be
// kept from then on, the greatest ratio of expected hits to expected time
// until hit or eviction. With a price per block and second, exactly the blocks
// worth more than the price are worth keeping.
func (l *learner) value(kind int, chance *[buckets]float64) {
	var width, half, stays [buckets]float64
	// best is the greatest ratio that a bucket from that one on has by itself, and a little more: times from there on
	// are left out when a greater one was found. Rounding is less than that little while a block stays with leastStay.
	var best [buckets + 1]float64
	all, sound := 1.0, true
	for k := buckets - 1; k >= 0; k-- {
		width[k], half[k], stays[k] = l.edges[k+1]-l.edges[k], 1-float64(chance[k]/2), 1-chance[k]
		best[k] = max(best[k+1], chance[k]/(width[k]*half[k])*1.001)
		all *= stays[k]
		sound = sound && chance[k] >= 0 && all >= leastStay
	}
	for k := range buckets {
		alive, hits, seconds := 1.0, 0.0, 0.0
		bestHits, bestSeconds := 0.0, 1.0
		for m := k; m < buckets && !(sound && best[m]*bestSeconds < bestHits); m++ {
			hits += float64(alive * chance[m])
			seconds += float64(alive * width[m] * half[m])
			alive *= stays[m]
			if hits*bestSeconds > bestHits*seconds {
				bestHits, bestSeconds = hits, seconds
			}
		}
		l.worth[kind][k] = bestHits / bestSeconds
	}
	l.worth[kind][buckets] = l.worth[kind][buckets-1]
	l.bound(kind)
	later := 0.0
	for k := buckets - 1; k >= 0; k-- {
		later = chance[k] + float64((1-chance[k])*later)
		l.later[kind][k] = later
	}
}

// worthAt returns what a block is worth at an exact age in seconds within its bucket.
func (l *learner) worthAt(kind, bucket uint8, age float64) float64 {
	low, high := l.worth[kind][bucket], l.worth[kind][bucket+1]
	from, to := l.edges[bucket], l.edges[bucket+1]
	return low + float64((high-low)*min(max((age-from)/(to-from), 0), 1))
}

// bound notes what any block of a bucket is worth at least: less by more than worthAt can be wrong by rounding.
func (l *learner) bound(kind int) {
	for k := range buckets {
		l.least[kind][k] = min(l.worth[kind][k], l.worth[kind][k+1]) * (1 - 1e-9)
	}
}

// risesAt reports whether blocks of that bucket gain worth with age.
func (l *learner) risesAt(kind, bucket uint8) bool {
	return l.worth[kind][bucket+1] > l.worth[kind][bucket]
}

// An origin says how a request relates to what was known when it came.
type origin uint8
