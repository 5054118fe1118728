package sample

import (
	"bytes"
	"math"
	"math/bits"
	"slices"

	"parley/compute"
)

const (
	// stepsPerBucket makes a bucket a quarter of an octave: fine enough that
	// one rarely holds more than a few thousand tokens.
	stepsPerBucket = stepsPerOctave / 4
	bucketsUsed    = horizonSteps/stepsPerBucket + 1
	// noBucket marks a token of weight 0.
	noBucket = math.MaxUint8
	// sortedMax is the number of keys that are sorted rather than split again.
	sortedMax = 48
	noRank    = math.MaxInt
	noMass    = math.MaxUint64
)

// A Scratch is working memory for choosing tokens. The zero value is ready.
// Samplers that take turns share one; it grows to the largest vocabulary it
// meets and then stays. It must not be used by two goroutines at once.
type Scratch struct {
	// scores are the adjusted scores of the whole vocabulary.
	scores []float32
	// ranked are the best few, best first, and short are their scores.
	ranked []key
	short  []float32
	// bucketOf names the bucket of every score that is being weighed, and
	// members holds those of one bucket.
	bucketOf []byte
	members  []key
	// mass is the sum of the weights in each bucket, and count, where it was
	// asked for, the number of its scores.
	mass  [math.MaxUint8 + 1]uint64
	count [math.MaxUint8 + 1]int
	// lanes and top are for log-probabilities.
	lanes [compute.DrawLanes]float64
	top   []compute.TokenScore
}

// sized returns buffer with length n, reallocated only if it is too small.
func sized[T any](buffer []T, n int) []T {
	return slices.Grow(buffer[:0], n)[:n]
}

// copyOf returns a copy of scores that may be changed.
func (sc *Scratch) copyOf(scores []float32) []float32 {
	sc.scores = append(sc.scores[:0], scores...)
	return sc.scores
}

// finite returns scores without plus infinities, and the index of the best,
// or -1 if none is above minus infinity. It copies only if it must.
func (sc *Scratch) finite(scores []float32) ([]float32, int) {
	best := argmax(scores)
	if best < 0 || scores[best] <= math.MaxFloat32 {
		return scores, best
	}
	scores = sc.copyOf(scores)
	for i, score := range scores {
		scores[i] = clean(score)
	}
	return scores, argmax(scores)
}

// argmax returns the lowest index of the greatest score, or -1 if no score is
// above minus infinity.
func argmax(scores []float32) int {
	best, at := float32(math.Inf(-1)), -1
	for i := nextAbove(scores, 0, best); i < len(scores); i = nextAbove(scores, i+1, best) {
		best, at = scores[i], i
	}
	return at
}

// nextAbove returns the first index at or after from whose score is above
// bound, or len(scores). It looks at eight scores for each turn of the loop,
// because most calls cross most of a vocabulary.
func nextAbove(scores []float32, from int, bound float32) int {
	for ; from+8 <= len(scores); from += 8 {
		s := (*[8]float32)(scores[from:])
		if s[0] > bound || s[1] > bound || s[2] > bound || s[3] > bound ||
			s[4] > bound || s[5] > bound || s[6] > bound || s[7] > bound {
			break
		}
	}
	for from < len(scores) && !(scores[from] > bound) {
		from++
	}
	return from
}

// rank returns the n best scores, best first. It keeps at most 2n, drops the
// worse half whenever they are full, and compares the rest with the worst kept:
// indices rise, so a later equal score never displaces an earlier one.
func (sc *Scratch) rank(scores []float32, n int) []key {
	n = min(n, len(scores))
	kept := slices.Grow(sc.ranked[:0], 2*n)
	worst := float32(math.Inf(-1))
	for i := nextAbove(scores, 0, worst); i < len(scores); i = nextAbove(scores, i+1, worst) {
		kept = append(kept, keyOf(scores[i], i))
		if len(kept) == 2*n {
			slices.Sort(kept)
			kept = kept[:n]
			worst = kept[n-1].score()
		}
	}
	slices.Sort(kept)
	sc.ranked = kept[:min(n, len(kept))]
	return sc.ranked
}

// scoresOf returns the scores of keys, in their order.
func (sc *Scratch) scoresOf(keys []key) []float32 {
	sc.short = sc.short[:0]
	for _, k := range keys {
		sc.short = append(sc.short, k.score())
	}
	return sc.short
}

// weigh sorts scores into buckets by their distance from the peak, leaving
// out what is farther than limitSteps, and returns the sum of the weights.
func (sc *Scratch) weigh(scores []float32, c curve, limitSteps float64) uint64 {
	sc.bucketOf = sized(sc.bucketOf, len(scores))
	clear(sc.mass[:])
	bucketOf := sc.bucketOf[:len(scores)]
	for i, score := range scores {
		steps := c.steps(score)
		if !(steps <= limitSteps) {
			bucketOf[i] = noBucket
			continue
		}
		bucket := bucketAt(steps)
		bucketOf[i] = bucket
		sc.mass[bucket] += weightAt(steps)
	}
	total := uint64(0)
	for _, mass := range sc.mass[:bucketsUsed] {
		total += mass
	}
	return total
}

func bucketAt(steps float64) byte { return byte(uint(int(steps)) / stepsPerBucket) }

// countBuckets fills count for the weighed scores.
func (sc *Scratch) countBuckets() {
	clear(sc.count[:])
	for _, bucket := range sc.bucketOf {
		sc.count[bucket]++
	}
}

// membersOf returns the keys of the weighed scores in bucket, by index.
func (sc *Scratch) membersOf(bucket byte, scores []float32) []key {
	members := sc.members[:0]
	for from := 0; ; {
		next := bytes.IndexByte(sc.bucketOf[from:], bucket)
		if next < 0 {
			break
		}
		from += next + 1
		members = append(members, keyOf(scores[from-1], from-1))
	}
	sc.members = members
	return members
}

// massWithin sums the weights of the weighed scores up to limitSteps from the peak.
func (sc *Scratch) massWithin(scores []float32, c curve, limitSteps float64) uint64 {
	edge := bucketAt(min(limitSteps, horizonSteps))
	sum := uint64(0)
	for _, mass := range sc.mass[:edge] {
		sum += mass
	}
	for _, k := range sc.membersOf(edge, scores) {
		if c.steps(k.score()) <= limitSteps {
			sum += c.weight(k.score())
		}
	}
	return sum
}

// reach walks the weighed scores from the best down until their weights sum to
// wantMass or, if countBuckets was called for them, they are wantRank many, and returns the index it stops at and
// the sum up to and including it. Index -1 means that they all fell short.
func (sc *Scratch) reach(scores []float32, c curve, wantMass uint64, wantRank int) (index int, mass uint64) {
	passed := uint64(0)
	for bucket := range bucketsUsed {
		if sc.mass[bucket] >= wantMass || sc.count[bucket] >= wantRank {
			index, mass = c.reach(sc.membersOf(byte(bucket), scores), wantMass, wantRank)
			return index, passed + mass
		}
		passed += sc.mass[bucket]
		wantMass -= sc.mass[bucket]
		wantRank -= sc.count[bucket]
	}
	return -1, passed
}

// reach is [Scratch.reach] over unsorted keys that are known to suffice. It
// splits them and continues in the part that holds the answer, so it takes time
// in proportion to them; should the splits be unlucky, it sorts.
func (c curve) reach(keys []key, wantMass uint64, wantRank int) (index int, mass uint64) {
	for splits := 2 * bits.Len(uint(len(keys))); len(keys) > sortedMax && splits > 0; splits-- {
		better := split(keys)
		sum := c.massOf(keys[:better])
		if sum >= wantMass || better >= wantRank {
			keys = keys[:better]
			continue
		}
		keys = keys[better:]
		mass += sum
		wantMass -= sum
		wantRank -= better
	}
	slices.Sort(keys)
	for _, k := range keys {
		weight := c.weight(k.score())
		mass += weight
		if weight >= wantMass || wantRank <= 1 {
			return k.index(), mass
		}
		wantMass -= weight
		wantRank--
	}
	return -1, mass
}

func (c curve) massOf(keys []key) uint64 {
	sum := uint64(0)
	for _, k := range keys {
		sum += c.weight(k.score())
	}
	return sum
}

// split moves the keys at or below the median of three before the others, and
// returns how many they are. Keys are distinct and at least three, so neither
// part is empty.
func split(keys []key) int {
	first, middle, last := keys[0], keys[len(keys)/2], keys[len(keys)-1]
	pivot := max(min(first, middle), min(max(first, middle), last))
	better := 0
	for i, k := range keys {
		if k <= pivot {
			keys[i], keys[better] = keys[better], k
			better++
		}
	}
	return better
}
