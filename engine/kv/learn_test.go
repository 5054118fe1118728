package kv

import (
	"math"
	"math/rand/v2"
	"testing"
)

// valueInFull is [learner.value] without leaving anything out.
func valueInFull(l *learner, chance *[buckets]float64) (worth [buckets]float64) {
	for k := range buckets {
		alive, hits, seconds := 1.0, 0.0, 0.0
		bestHits, bestSeconds := 0.0, 1.0
		for m := k; m < buckets; m++ {
			hits += alive * chance[m]
			seconds += alive * (l.edges[m+1] - l.edges[m]) * (1 - chance[m]/2)
			alive *= 1 - chance[m]
			if hits*bestSeconds > bestHits*seconds {
				bestHits, bestSeconds = hits, seconds
			}
		}
		worth[k] = bestHits / bestSeconds
	}
	return worth
}

// TestValueLeavesOutNothing compares what blocks are worth, to the last bit, with what the search
// through all times finds.
func TestValueLeavesOutNothing(t *testing.T) {
	l, rng := newLearner(), rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var chance [buckets]float64
		most, steep := math.Pow(rng.Float64(), 3), rng.Float64()*4
		for k := range chance {
			chance[k] = most * math.Pow(rng.Float64(), steep)
			switch rng.IntN(200) {
			case 0:
				chance[k] = 0
			case 1:
				chance[k] = 1.5 * rng.Float64()
			case 2:
				chance[k] = priorChance
			}
		}
		l.value(0, &chance)
		if want := valueInFull(l, &chance); want != [buckets]float64(l.worth[0][:buckets]) {
			t.Fatalf("with chances %v blocks are worth %v, want %v", chance, l.worth[0], want)
		}
	}
}

// TestLeastIsNotAbove checks that the bound by which cells are left out holds for every age.
func TestLeastIsNotAbove(t *testing.T) {
	l, rng := newLearner(), rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		k := uint8(rng.IntN(buckets))
		l.worth[0][k], l.worth[0][k+1] = rng.Float64(), rng.Float64()
		l.bound(0)
		age := l.edges[k] + (l.edges[k+1]-l.edges[k])*(1.1*rng.Float64())
		if got, least := l.worthAt(0, k, age), l.least[0][k]; got < least {
			t.Fatalf("a block is worth %g, less than %g", got, least)
		}
	}
}
