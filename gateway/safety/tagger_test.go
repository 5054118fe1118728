package safety

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// plainDecode tries every tag before every tag.
func plainDecode(scores [][Tags]int32, follow *[Tags][Tags]int32) []tag {
	best := scores[0]
	for t := 2; t < Tags; t += 2 {
		best[t] = -1 << 28
	}
	from := make([][Tags]tag, len(scores))
	for i := 1; i < len(scores); i++ {
		var next [Tags]int32
		for t := range Tags {
			value := int32(-1 << 30)
			for k := range Tags {
				if t > 0 && t%2 == 0 && k != t && k != t-1 {
					continue
				}
				if v := best[k] + follow[k][t]; v > value {
					value, from[i][t] = v, tag(k)
				}
			}
			next[t] = value + scores[i][t]
		}
		best = next
	}
	tags := make([]tag, len(scores))
	for t := range best {
		if best[t] > best[tags[len(tags)-1]] {
			tags[len(tags)-1] = tag(t)
		}
	}
	for i := len(tags) - 1; i > 0; i-- {
		tags[i-1] = from[i][tags[i]]
	}
	return tags
}

// Leaving out tags that cannot win changes nothing.
func TestDecodeIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var follow [Tags][Tags]int32
		for a := range follow {
			for b := range follow[a] {
				follow[a][b] = int32(random.IntN(60) - 30)
			}
		}
		scores := make([][Tags]int32, 1+random.IntN(30))
		for i := range scores {
			for k := range scores[i] {
				scores[i][k] = int32(random.IntN(200) - 100)
			}
		}
		if got, want := DecodeTags(scores, &follow), plainDecode(scores, &follow); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// Adding weights packed gives what adding them one by one gives.
func TestPackedSums(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	m := &Model{weights: make([][Heads]int16, 64)}
	for b := range m.weights {
		for h := range m.weights[b] {
			m.weights[b][h] = int16(random.IntN(2*steps+1) - steps)
		}
	}
	for h := range m.weights[0] {
		m.weights[0][h], m.weights[1][h] = steps, -steps
	}
	m.pack()
	for n := range 300 {
		buckets := make([]uint32, n)
		for i := range buckets {
			if n%3 > 0 {
				buckets[i] = uint32(random.IntN(64)) * uint32(n%3-1)
			}
		}
		var got, want sum
		m.add(&got, buckets)
		for _, b := range buckets {
			for h, w := range m.weights[b] {
				want[h] += int32(w)
			}
		}
		if got != want {
			t.Fatalf("%d buckets: %v, want %v", n, got, want)
		}
	}
}

// The scores of tags are the sums of their weights.
func TestPackedTags(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	g := &Tagger{weights: make([][Tags]int8, 32)}
	for b := range g.weights {
		for k := range g.weights[b] {
			g.weights[b][k] = int8(random.IntN(255) - 127)
		}
	}
	for k := range g.weights[0] {
		g.weights[0][k], g.weights[1][k] = 127, -127
	}
	g.pack()
	for n := range 33 {
		features := make([]uint32, n)
		for i := range features {
			features[i] = uint32(random.IntN(32)) * uint32(min(n%3, 1))
		}
		var got, want [Tags]int32
		g.score(&got, features)
		for _, f := range features {
			for k, w := range g.weights[f] {
				want[k] += int32(w)
			}
		}
		if got != want {
			t.Fatalf("%d features: %v, want %v", n, got, want)
		}
	}
}

// A word that was met before says the same as one that is new.
func TestKnownWordsChangeNothing(t *testing.T) {
	text := "The harbour was quiet. A harbour is quiet, and antidisestablishmentarianism is the harbour's word. Quiet!"
	s := New()
	for range 3 {
		got := s.Judge(Text{Body: text})
		if want := New().Judge(Text{Body: text}); got.Scores != want.Scores {
			t.Fatalf("%v, want %v", got.Scores, want.Scores)
		}
	}
}

// In a long text names are found as in a short one.
func TestNamesInLongTexts(t *testing.T) {
	s := New()
	plain := strings.Repeat("The boats lay still in the harbour and nobody was there to see it. ", 120)
	for _, name := range []string{"My name is Anna Smith and I live in Berlin.",
		"Please call John Miller at 555 123 4567."} {
		alone := s.Names(name)
		within := s.Names(plain + name + " " + plain)
		if len(alone) == 0 || len(within) != len(alone) {
			t.Fatalf("%q: %+v, in a long text %+v", name, alone, within)
		}
		for i, f := range within {
			if f.Kind != alone[i].Kind || f.Start-len(plain) != alone[i].Start || f.End-len(plain) != alone[i].End {
				t.Errorf("%q: %+v, in a long text %+v", name, alone[i], f)
			}
		}
	}
}

// What panics while names are looked for does so in the one who asked, who can
// recover from it.
func TestPanicsAsideAreRecoverable(t *testing.T) {
	model, _ := trained()
	broken := NewScreen(model, nil)
	defer func() {
		if recover() == nil {
			t.Error("a screen without a tagger found names")
		}
	}()
	broken.Judge(Text{Body: strings.Repeat("Anna Smith lives here. ", 1000), Names: true})
}
