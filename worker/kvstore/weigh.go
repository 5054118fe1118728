package kvstore

import "time"

const (
	// blocksLeast is the least number of missing blocks for which the store is asked.
	blocksLeast = 4
	// gain is how much of the time to compute a read may be expected to take.
	gain = 0.8
	// withinFactor is how many times the time that was expected a read gets; waitLeast is the
	// least that it gets.
	withinFactor = 3
	waitLeast    = 250 * time.Millisecond
	// speedGuess and computeGuess stand for what was not measured: bytes in a second, and the
	// time to compute a block.
	speedGuess   = 256 << 20
	computeGuess = 1600 * time.Microsecond
	// foundGuess is the share of lookups that find something, as long as nothing is known.
	foundGuess = 0.25
	// tryEvery is how many lookups that did not seem worth it go by before one is made, so that
	// a store that gained blocks or speed is noticed.
	tryEvery = 32
)

// A readStats is what reads of a store have shown. It is pure.
type readStats struct {
	latency time.Duration // until the first block, or until it is known to be missing
	speed   float64       // bytes in a second after that; 0 if not known
	found   float64       // share of lookups that found something
	skipped int           // lookups that did not seem worth it since one was made
}

// A lookup is what weigh decides about.
type lookup struct {
	blocks, blockBytes int
	blockTime          time.Duration // to compute one; 0 if not known
}

// weigh decides whether blocks are looked up, and how long that may take.
func (h *readStats) weigh(q lookup) (within time.Duration, ok bool) {
	if q.blocks < blocksLeast {
		return 0, false
	}
	each := q.blockTime
	if each <= 0 {
		each = computeGuess
	}
	compute := time.Duration(q.blocks) * each
	move := h.latency + time.Duration(float64(q.blocks)*float64(q.blockBytes)/h.rate()*float64(time.Second))
	saved := float64(compute - move)
	if float64(move) > gain*float64(compute) || h.found*saved < (1-h.found)*float64(h.latency) {
		if h.skipped++; h.skipped < tryEvery {
			return 0, false
		}
	}
	h.skipped = 0
	return max(waitLeast, min(withinFactor*move, compute)), true
}

func (h *readStats) rate() float64 {
	if h.speed > 0 {
		return h.speed
	}
	return speedGuess
}

// answered takes in how long the first answer took, and whether it was a block.
func (h *readStats) answered(took time.Duration, found bool) {
	h.latency += (took - h.latency) / 4
	h.found += (share(found) - h.found) / 16
}

// moved takes in how long blocks after the first answer took.
func (h *readStats) moved(bytes int, took time.Duration) {
	speed := float64(bytes) / max(took, time.Microsecond).Seconds()
	if h.speed == 0 {
		h.speed = speed
	}
	h.speed += (speed - h.speed) / 4
}

func share(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
