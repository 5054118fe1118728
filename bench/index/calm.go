package index

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// What is measured is one core. A virtual machine may have half of one, as long as
// another shares it, and then everything takes up to twice as long. That shows in a
// piece of work that needs no memory, is always the same, and has nothing to do with
// what is measured: rounds are chosen by it, and not by what they took.
const (
	// calmWithin is how much longer than ever the yardstick may take in a round that
	// counts.
	calmWithin = 1.03
	// roundsMax is how many rounds there are at most for each that is to count. If
	// too few are calm, the calmest count.
	roundsMax = 20
)

// A round is what it took, and the longer of the yardsticks before and after it.
type round struct{ spent, yard time.Duration }

// A lap is what rounds took, each in order of length: those that count, and all.
type lap struct{ calm, all []time.Duration }

// rounds makes rounds until the given number were calm.
func rounds(n int, work func() time.Duration) lap {
	var all []round
	before := yardstick()
	for least := before; calm(all, least) < n && len(all) < roundsMax*n; {
		spent, after := work(), yardstick()
		all = append(all, round{spent, max(before, after)})
		before, least = after, min(least, after)
	}
	return chosen(all, n)
}

// calm counts the rounds that were, if the yardstick can take so little.
func calm(all []round, least time.Duration) (n int) {
	for _, r := range all {
		if r.within(least) {
			n++
		}
	}
	return n
}

// within reports whether the round was calm, if the yardstick can take so little.
func (r round) within(least time.Duration) bool {
	return float64(r.yard) <= calmWithin*float64(least)
}

// chosen returns what the n calmest rounds took, and what all did.
func chosen(all []round, n int) (l lap) {
	slices.SortStableFunc(all, func(a, b round) int { return cmp.Compare(a.yard, b.yard) })
	for _, r := range all {
		l.all = append(l.all, r.spent)
	}
	l.calm = slices.Sorted(slices.Values(l.all[:min(n, len(all))]))
	slices.Sort(l.all)
	return l
}

// yardstick takes some .3 ms, with as much to do for the core as it can do at once.
func yardstick() time.Duration {
	began := time.Now()
	a, b, c, d := uint64(1), uint64(2), uint64(3), uint64(4)
	for i := range uint64(200_000) {
		a += a<<3 ^ i
		b += b>>5 ^ i
		c ^= c<<7 + i
		d ^= d>>9 + i
	}
	took := time.Since(began)
	runtime.KeepAlive(a + b + c + d)
	return took
}

// timed measures work that needs no preparation.
func timed(work func()) func() time.Duration {
	return func() time.Duration {
		began := time.Now()
		work()
		return time.Since(began)
	}
}
