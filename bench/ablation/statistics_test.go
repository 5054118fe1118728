package ablation

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(1000-i)*time.Millisecond)
	}
	for _, c := range []struct{ p, want float64 }{{0.5, 500}, {0.99, 990}, {0.999, 999}, {1, 1000}, {0, 1}} {
		if got := percentile(times, c.p); got != c.want {
			t.Errorf("percentile %g is %g ms, want %g", c.p, got, c.want)
		}
	}
	if percentile(nil, 0.5) != 0 || times[0] != time.Second {
		t.Error("no times have a percentile, or the times were moved")
	}
}

func TestMostAtOnce(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		spells []spell
		want   int
	}{
		{nil, 0},
		{[]spell{{at(1), at(2)}}, 1},
		{[]spell{{at(1), at(2)}, {at(2), at(3)}}, 1},
		{[]spell{{at(1), at(9)}, {at(2), at(3)}, {at(4), at(8)}, {at(5), at(6)}}, 3},
	} {
		if got := mostAtOnce(c.spells); got != c.want {
			t.Errorf("%v: %d at once, want %d", c.spells, got, c.want)
		}
	}
}

// The made-up lengths have the mean and the skew of the recorded ones: of 16
// answers the longest is 2.33 times as long as the average.
func TestAzureLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	mean := func(l *lengths) float64 {
		sum := 0
		for range 200_000 {
			sum += l.draw(rng)
		}
		return float64(sum) / 200_000
	}
	if got := mean(&azurePrompts); math.Abs(got-1155) > 30 {
		t.Errorf("prompts have %.0f tokens on average, want 1155", got)
	}
	answers := mean(&azureAnswers)
	if math.Abs(answers-211) > 6 {
		t.Errorf("answers have %.0f tokens on average, want 211", answers)
	}
	longest := 0
	for range 10_000 {
		var batch []int
		for range 16 {
			batch = append(batch, azureAnswers.draw(rng))
		}
		longest += slices.Max(batch)
	}
	if got := float64(longest) / 10_000 / answers; math.Abs(got-2.33) > 0.1 {
		t.Errorf("the longest of 16 answers is %.2f times the average, want 2.33", got)
	}
}
