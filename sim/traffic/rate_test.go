package traffic

import (
	"math"
	"testing"
	"time"
)

// TestRate checks that the events of a rate are as many as the area under it.
func TestRate(t *testing.T) {
	r := Rate{{10 * time.Second, 2}, {20 * time.Second, 10}, {30 * time.Second, 0}, {40 * time.Second, 4}}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	var at time.Duration
	counts := map[int]int{}
	for range 10000 {
		var ok bool
		if at, ok = r.After(at, 0.01); !ok {
			t.Fatal("the events end")
		}
		counts[int((at-1)/(10*time.Second))]++
	}
	for i, want := range []int{2000, 6000} {
		if got := counts[i]; math.Abs(float64(got-want)) > 1 {
			t.Errorf("%d events in span %d, want %d", got, i, want)
		}
	}
	if at, ok := (Rate{{0, 4}, {8 * time.Second, 0}}).After(0, 16.5); ok {
		t.Errorf("event 17 of 16 comes at %v", at)
	}
	if at, _ := r.After(40*time.Second, 8); at != 42*time.Second {
		t.Errorf("8 events at 4 a second after 40 s end at %v", at)
	}
}

func TestBadRates(t *testing.T) {
	for _, r := range []Rate{nil, {{0, -1}}, {{0, math.NaN()}}, {{5, 1}, {5, 1}}, {{-1, 1}}} {
		if r.Validate() == nil {
			t.Errorf("%v is taken", r)
		}
	}
}

func TestDays(t *testing.T) {
	r := Days(5, 50, 1, 15*time.Hour, 2)
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	for hour, want := range map[int]float64{3: 5, 15: 50, 9: 27.5, 27: 5, 39: 50} {
		if got := r.At(time.Duration(hour) * time.Hour); math.Abs(got-want) > 1e-9 {
			t.Errorf("at hour %d the rate is %g, want %g", hour, got, want)
		}
	}
}

// TestDayPower has days with a mean: that of a cosine, and that of a narrow peak.
func TestDayPower(t *testing.T) {
	for _, share := range []float64{0.5, 0.27, 0.1, 0.8} {
		power := DayPower(share)
		r, sum := Days(0, 1, power, 12*time.Hour, 1), 0.0
		for _, p := range r[1:] {
			sum += p.PerSecond / float64(len(r)-1)
		}
		if math.Abs(sum-share) > 0.005 || share == 0.5 && math.Abs(power-1) > 1e-9 {
			t.Errorf("with a power of %g the mean is %g, want %g", power, sum, share)
		}
	}
}

// TestTalks checks that a talk repeats what was said in it, and shares only system
// prompts with others.
func TestTalks(t *testing.T) {
	w := Workload{Kind: Conversation, Seed: 7, Prompt: Fixed(10), Output: Fixed(20), SharedTokens: 30, Turns: Fixed(3),
		Open: 1, Groups: 2}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	groups, seen := map[uint64]bool{}, map[uint64]bool{}
	for n := range uint64(20) {
		talk, before := w.Talk(n), []Part(nil)
		for turn := 1; talk.More(); turn++ {
			r := talk.Next()
			if turn > 3 || r.Turn != turn || len(r.Prompt) != 2*turn {
				t.Fatalf("turn %d is %+v", turn, r)
			}
			for i, p := range before {
				if r.Prompt[i] != p {
					t.Fatalf("part %d of turn %d is %v, before it was %v", i, turn, r.Prompt[i], p)
				}
			}
			groups[r.Prompt[0].Key] = true
			if last := r.Prompt[len(r.Prompt)-1].Key; seen[last] {
				t.Fatalf("question %d is asked twice", last)
			} else {
				seen[last] = true
			}
			before = append(r.Prompt, Part{Role: Assistant, Key: r.Answer, Tokens: r.OutputTokens})
		}
	}
	if len(groups) != 2 {
		t.Errorf("conversations belong to %d groups, want 2", len(groups))
	}
	single := Workload{Kind: Independent, Prompt: Fixed(5), Output: Fixed(5)}
	talk := single.Talk(3)
	if talk.Next(); talk.More() {
		t.Error("an independent request is followed by another")
	}
}
