package spec

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

// machine are the costs of a network that takes pass+row for one row, and of a
// draft network some times faster, for so many who write.
func machine(pass, row time.Duration, faster int, writers int) Costs {
	return Costs{
		Pass: pass + time.Duration(writers)*row, Row: row,
		DraftPass: pass / time.Duration(faster), DraftRow: row / time.Duration(faster), Room: time.Hour,
	}
}

func writers(n int, lookup, model Offer) (out []Writer) {
	for range n {
		out = append(out, Writer{Offers: [Drafters]Offer{lookup, model}, Behind: 1, Remaining: 100})
	}
	return out
}

func TestDecide(t *testing.T) {
	good, bad, none := Offer{8, 0.9}, Offer{8, 0.05}, Offer{}
	for name, c := range map[string]struct {
		writers     []Writer
		costs       Costs
		by          Drafter
		least, most int
	}{
		"nobody offers":             {writers(1, none, none), machine(4*ms, ms/4, 8, 1), ByLookup, 0, 0},
		"lookup alone":              {writers(1, good, none), machine(4*ms, ms/4, 8, 1), ByLookup, 8, 8},
		"model alone":               {writers(1, none, good), machine(4*ms, ms/4, 8, 1), ByModel, 4, 8},
		"as good, but free":         {writers(1, good, good), machine(4*ms, ms/4, 8, 1), ByLookup, 8, 8},
		"lookup without acceptance": {writers(1, bad, good), machine(4*ms, ms/4, 8, 1), ByModel, 4, 8},
		"short lookup":              {writers(1, Offer{1, 0.9}, good), machine(4*ms, ms/4, 8, 1), ByModel, 4, 8},
		"model without acceptance":  {writers(1, good, bad), machine(4*ms, ms/4, 8, 1), ByLookup, 8, 8},
		"none with acceptance":      {writers(1, bad, bad), machine(4*ms, ms/4, 8, 1), ByLookup, 0, 0},
		"draft as slow":             {writers(1, none, good), machine(4*ms, ms/4, 1, 1), ByLookup, 0, 0},
		"rows cost a pass":          {writers(1, none, good), machine(0, ms, 8, 1), ByLookup, 0, 0},
		"few share the machine":     {writers(4, none, good), machine(4*ms, ms/4, 8, 4), ByModel, 2, 8},
		"many share the machine":    {writers(64, good, good), machine(4*ms, ms/2, 8, 64), ByLookup, 0, 0},
		"many, and rows are free":   {writers(64, good, none), machine(30*ms, ms/100, 8, 64), ByLookup, 8, 8},
	} {
		got, draft := Decide(nil, c.writers, c.costs)
		for _, d := range got {
			if d.Depth < c.least || d.Depth > c.most || d.Depth > 0 && d.By != c.by {
				t.Errorf("%s: %+v, want %d to %d by %v", name, d, c.least, c.most, c.by)
				break
			}
		}
		if used := got[0].By == ByModel && got[0].Depth > 0; used != (draft > 0) {
			t.Errorf("%s: the draft network takes %v", name, draft)
		}
	}
}

// TestDecideLosesNothing works out the speed of random decisions by its own
// account: it is never below that without guesses, nor far below that of any
// one depth for all.
func TestDecideLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		n := 1 + rng.IntN(80)
		c := machine(time.Duration(rng.IntN(int(10*ms))), time.Duration(rng.IntN(int(ms))), 1+rng.IntN(20), n)
		var ws []Writer
		for range n {
			w := Writer{Behind: 1, Remaining: 100, Idle: rng.IntN(probeAfter)}
			for d := range w.Offers {
				w.Offers[d] = Offer{rng.IntN(20), rng.Float64()}
			}
			ws = append(ws, w)
		}
		plain := rate(ws, make([]Decision, n), c)
		got, _ := Decide(nil, ws, c)
		best := plain
		for depth := range DepthMost {
			for by := range Drafter(Drafters) {
				same := make([]Decision, n)
				for i := range same {
					same[i] = Decision{Depth: min(depth, ws[i].Offers[by].Most), By: by}
				}
				best = max(best, rate(ws, same, c))
			}
		}
		if r := rate(ws, got, c); r < plain || r < best*0.9 {
			t.Fatalf("%d writers, %+v: %v tokens a second, %v without guesses, %v with one depth for all\n%v", n, c, r,
				plain, best, got)
		}
	}
}

// rate returns how many tokens come in a second.
func rate(ws []Writer, ds []Decision, c Costs) float64 {
	took, brings, passes := c.Pass, 0.0, 0
	for i, d := range ds {
		took += time.Duration(d.Depth) * c.Row
		if d.By == ByModel {
			took += time.Duration(d.Depth) * c.DraftRow
			passes = max(passes, d.Depth)
		}
		all := 1.0
		brings += all
		for range d.Depth {
			all *= ws[i].Offers[d.By].Chance
			brings += all
		}
	}
	return brings / (took + time.Duration(passes)*c.DraftPass).Seconds()
}

// TestDecideReadsWhatIsWorthReading varies how far the draft network is behind.
func TestDecideReadsWhatIsWorthReading(t *testing.T) {
	for name, c := range map[string]struct {
		behind, remaining int
		room              time.Duration
		read              int
		guesses           bool
	}{
		"nothing":               {1, 100, 0, 1, true},
		"the last pass":         {9, 100, 0, 9, true},
		"a prompt":              {500, 100, 40 * ms, 500, true},
		"a prompt bit by bit":   {500, 100, 10 * ms, 250, false},
		"while others wait":     {500, 100, 0, readFree, false},
		"for a few tokens more": {500, 3, 40 * ms, 0, false},
		"a book":                {20000, 200, 40 * ms, 0, false},
	} {
		w := writers(1, Offer{}, Offer{8, 0.9})
		w[0].Behind, w[0].Remaining = c.behind, c.remaining
		costs := machine(4*ms, ms*8/25, 8, 1)
		costs.Room = c.room
		got, _ := Decide(nil, w, costs)
		if d := got[0]; d.Read != c.read || d.Depth > 0 != c.guesses {
			t.Errorf("%s: %+v, want to read %d and guesses %v", name, d, c.read, c.guesses)
		}
	}
	both := writers(2, Offer{}, Offer{8, 0.9})
	both[0].Behind, both[1].Behind = 300, 300
	costs := machine(4*ms, ms*8/25, 8, 2)
	costs.Room = 16 * ms
	if got, _ := Decide(nil, both, costs); got[0].Read != 300 || got[1].Read != 100 || got[1].Depth != 0 {
		t.Errorf("two share the room: %+v", got)
	}
}

// TestDecideTriesAgain lets the draft network be wrong for a while.
func TestDecideTriesAgain(t *testing.T) {
	w := writers(1, Offer{}, Offer{8, 0.01})
	for idle, want := range map[int]int{0: 0, probeAfter - 1: 0, probeAfter: 1} {
		w[0].Idle = idle
		if got, _ := Decide(nil, w, machine(4*ms, ms/4, 8, 1)); got[0].Depth != want {
			t.Errorf("after %d passes: %+v, want %d guesses", idle, got[0], want)
		}
	}
	w[0].Idle = probeAfter
	if got, _ := Decide(nil, w, machine(0, ms, 8, 1)); got[0].Depth != 0 {
		t.Errorf("where even right guesses do not pay it tries again: %+v", got[0])
	}
}

// TestDecideTriesWhatItCanAfford offers guesses that are not worth it, as far as
// is known. Now and then one writer makes some, for whom they cost least.
func TestDecideTriesWhatItCanAfford(t *testing.T) {
	ws := writers(3, Offer{8, 0.1}, Offer{8, 0.1})
	ws[0].Behind, ws[1].Behind = 9, 5
	costs := machine(4*ms, 2*ms, 1, 3)
	// Two guesses cost two rows in the pass, two draft passes, and rows in them.
	for spare, want := range map[time.Duration]Decision{
		0: {}, 2*2*ms + 2*4*ms + 2*2*ms: {},
		2*2*ms + 2*4*ms + 2*2*ms + 1: {Depth: 2, By: ByModel, Read: 1, Trial: true},
	} {
		costs.Spare = spare
		got, _ := Decide(nil, ws, costs)
		if got[0] != (Decision{}) || got[1] != (Decision{}) || got[2] != want {
			t.Errorf("with %v to spare: %+v, want %+v for the last", spare, got, want)
		}
	}
	for i := range ws {
		ws[i].Offers[ByModel] = Offer{}
	}
	costs.Spare = 5 * ms
	if got, _ := Decide(nil, ws, costs); got[0] != (Decision{Depth: 2, Trial: true}) {
		t.Errorf("without a draft network: %+v", got)
	}
}

func TestDecideWithoutAnybody(t *testing.T) {
	if got, draft := Decide([]Decision{{Depth: 7}}, nil, Costs{}); len(got) != 0 || draft != 0 {
		t.Errorf("%v, %v", got, draft)
	}
	if got, _ := Decide([]Decision{{Depth: 7}}, writers(2, Offer{}, Offer{8, 1}),
		Costs{}); fmt.Sprint(got) != fmt.Sprint(make([]Decision, 2)) {
		t.Errorf("while nothing is known of the costs: %v", got)
	}
}

func BenchmarkDecide(b *testing.B) {
	ws, c := writers(64, Offer{8, 0.7}, Offer{8, 0.9}), machine(4*ms, ms/8, 8, 64)
	var out []Decision
	for b.Loop() {
		out, _ = Decide(out, ws, c)
	}
}
