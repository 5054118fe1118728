package spec

// A Depth decides how many tokens to guess for one sequence, from how often
// its guesses were right.
//
// The zero value is ready.
type Depth struct {
	right  float64 // share of the guesses checked lately that were right
	checks int
	idle   int // passes without a guess
}

const (
	// depthMax bounds the guesses of one pass.
	depthMax = 8
	// firstHope is the share of right guesses assumed before any was checked.
	firstHope = 0.6
	// slowness is the share of the past that survives a check.
	slowness = 0.85
	// probeAfter is after how many passes without a guess one is tried, to
	// notice when they would be right again.
	probeAfter = 24
)

// Next returns how many tokens to guess now. Price is what a row more costs,
// in passes' worth of tokens: by how much it lengthens the pass, as a share,
// times the tokens the pass brings without guessing. A guess is worth its row
// as long as the chance that it and all before it are right is above that.
func (d *Depth) Next(price float64) int {
	hope := d.right
	if d.checks == 0 {
		hope = firstHope
	}
	n, chance := 0, hope
	for n < depthMax && chance > price {
		n++
		chance *= hope
	}
	if n > 0 {
		return n
	}
	if d.idle++; d.idle >= probeAfter && price < 1 {
		return 1
	}
	return 0
}

// Learn takes in how many of the guesses of a pass were right. Guesses after
// the first wrong one tell nothing.
func (d *Depth) Learn(guessed, right int) {
	if guessed == 0 {
		return
	}
	d.idle = 0
	if d.checks == 0 {
		d.right = firstHope
	}
	for range right {
		d.right = d.right*slowness + (1 - slowness)
	}
	if right < guessed {
		d.right *= slowness
	}
	d.checks++
}
