package cost

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if math.Abs(float64(got-want)) > 0.01*float64(want) {
		t.Errorf("%s takes %v, want %v", what, got, want)
	}
}

// TestRoofline has the arithmetic of a 70B model on four H100 as the consumer chatbot
// of the documentation works it out: 11,314 tokens of prefill a second, 13.4 TB/s.
func TestRoofline(t *testing.T) {
	m, err := Roofline(Device{PrefillRate: 11314, ReadRate: 13.4e12, WeightBytes: 140e9, KVBytes: 327680})
	if err != nil {
		t.Fatal(err)
	}
	prompt, limit := m.Time(Pass{}.Add(4000, 0))
	near(t, "a prompt of 4000 tokens", prompt, 353500*time.Microsecond)
	if limit != Arithmetic {
		t.Error("a long prompt waits for memory")
	}
	var p Pass
	for range 64 {
		p = p.Add(1, 4000)
	}
	step, limit := m.Time(p)
	near(t, "a step of 64 sequences", step, 16707*time.Microsecond) // (140 GB + 64 * 4000 * 320 KiB) / 13.4 TB/s
	if limit != Memory {
		t.Error("decoding waits for arithmetic")
	}
}

func TestKnots(t *testing.T) {
	m := Model{Rows: []Knot{{1, .010}, {16, .010}, {256, .130}}, Read: 1e-6}
	for rows, want := range map[int]time.Duration{1: 10, 8: 10, 16: 10, 136: 70, 256: 130, 376: 190} {
		got, _ := m.Time(Pass{Rows: rows})
		near(t, "a pass by table", got, want*time.Millisecond)
	}
	got, _ := m.Time(Pass{Rows: 1, Read: 10000})
	near(t, "a pass that reads", got, 20*time.Millisecond)
}

func TestValidate(t *testing.T) {
	for text, m := range map[string]Model{
		"no rows":              {},
		"may become less":      {Rows: []Knot{{1, .01}, {4, .001}}},
		"read is -1 s":         {Rows: []Knot{{1, .01}}, Read: -1},
		"at least 1 row":       {Rows: []Knot{{0, .01}}},
		"lookback is NaN s":    {Rows: []Knot{{1, .01}}, Lookback: math.NaN()},
		"takes +Inf s: want":   {Rows: []Knot{{1, math.Inf(1)}}},
		"overhead is 1e+09 s:": {Rows: []Knot{{1, .01}}, Overhead: 1e9},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", m, err, text)
		}
	}
	if _, err := Roofline(Device{PrefillRate: 1, ReadRate: 0, WeightBytes: 1, KVBytes: 1}); err == nil {
		t.Error("a device that reads nothing is taken")
	}
}

// passes draws passes as engines have them: prompts, decoding, and both.
func passes(n int) (out []Pass) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range n {
		var p Pass
		for range rng.IntN(24) {
			p = p.Add(1, rng.IntN(3000))
		}
		if p.Rows == 0 || rng.IntN(3) == 0 {
			p = p.Add(1+rng.IntN(1000), rng.IntN(2)*rng.IntN(2000))
		}
		out = append(out, p)
	}
	return out
}

// TestFit measures a machine whose times are known, with noise of 5 %.
func TestFit(t *testing.T) {
	truth := Model{
		Rows:     []Knot{{1, .004}, {16, .008}, {64, .030}, {1024, .5}},
		Sequence: 5e-5,
		Read:     4e-7,
		Lookback: 2e-9,
	}
	rng := rand.New(rand.NewPCG(2, 2))
	var samples []Sample
	for _, p := range passes(1000) {
		took, _ := truth.Time(p)
		samples = append(samples, Sample{p, time.Duration(float64(took) * (1 + .05*(2*rng.Float64()-1)))})
	}
	m, err := Fit(samples)
	if err != nil {
		t.Fatal(err)
	}
	if e := m.Error; e.Passes != 200 || e.Median > .04 || e.P95 > .08 || math.Abs(e.Total) > .01 {
		t.Errorf("the fit is off by %+v", e)
	}
	for _, p := range passes(200) {
		want, _ := truth.Time(p)
		if got, _ := m.Time(p); math.Abs(float64(got)/float64(want)-1) > .1 {
			t.Errorf("%+v takes %v, want %v", p, got, want)
		}
	}
}

// TestFitKeepsItsLaws fits times that no machine has: less for more rows.
func TestFitKeepsItsLaws(t *testing.T) {
	var samples []Sample
	for i := range 100 {
		samples = append(samples, Sample{Pass{Rows: 1 + i*10, Sequences: 1}, time.Second / time.Duration(1+i)})
	}
	m, err := Fit(samples)
	if err != nil {
		t.Fatal(err)
	}
	if m.Error.P95 < 0.1 {
		t.Errorf("a model that cannot fit says that it is off by %+v", m.Error)
	}
	if _, err := Fit(samples[:10]); err == nil || !strings.Contains(err.Error(), "at least 40") {
		t.Errorf("10 samples give %v", err)
	}
	if _, err := Fit(append(samples, Sample{Pass: Pass{Rows: 1}})); err == nil {
		t.Error("a pass that took no time is fitted")
	}
}

// TestFitKeepsTheTotal fits passes of which one in four was disturbed and took four times
// as long: together they take as long as the model says.
func TestFitKeepsTheTotal(t *testing.T) {
	var samples []Sample
	for i := range 400 {
		p := Pass{}.Add(1+i%7, 100)
		took := time.Duration(p.Rows) * time.Millisecond
		if i%4 == 1 {
			took *= 4
		}
		samples = append(samples, Sample{p, took})
	}
	m, err := Fit(samples)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(m.Error.Total) > 0.05 {
		t.Errorf("all passes are said to take %+.1f %% longer", 100*m.Error.Total)
	}
}

// TestRuns measures a worker whose first pass after a prompt takes twice as long as the model says, and some of whose
// runs are slow as a whole. What is drawn from it is the same, also after longer answers.
func TestRuns(t *testing.T) {
	model := Model{Rows: []Knot{{1, .001}, {101, .101}}}
	prompt, step := Pass{}.Add(100, 0), Pass{}.Add(1, 100)
	var samples []Sample
	add := func(p Pass, ratio float64) {
		took, _ := model.Time(p)
		samples = append(samples, Sample{p, time.Duration(float64(took) * ratio)})
	}
	const runs, steps = 1000, 12
	for i := range runs {
		slow := 1.0
		if i%4 == 0 {
			slow = 3
		}
		add(prompt, slow)
		add(step, 2*slow)
		for range steps - 1 {
			add(step, slow)
		}
	}
	model.keepRuns(samples)
	if len(model.Runs) != runsMax || len(model.Runs[0]) != 1+steps {
		t.Fatalf("%d runs are kept, the first with %d passes", len(model.Runs), len(model.Runs[0]))
	}
	text, err := json.Marshal(&model)
	if err != nil {
		t.Fatal(err)
	}
	var read Model
	if err := json.Unmarshal(text, &read); err != nil || read.Validate() != nil {
		t.Fatal(err, read.Validate())
	}
	draws, again := read.Draws(1, 7), model.Draws(1, 7)
	slow, all := 0, 2000
	for range all {
		took, _ := draws.Time(prompt)
		if same, _ := again.Time(prompt); same != took {
			t.Fatal("equal seeds draw different times")
		}
		first, _ := draws.Time(step)
		second, _ := draws.Time(step)
		again.Time(step)
		again.Time(step)
		if took > 200*time.Millisecond {
			slow++
			near(t, "the second pass of a slow run", second, 3*time.Millisecond)
		}
		if first != 2*second {
			t.Fatalf("the first pass after a prompt takes %v, the second %v", first, second)
		}
	}
	if share := float64(slow) / float64(all); math.Abs(share-.25) > .05 {
		t.Errorf("%.2f of the runs are slow", share)
	}
	var long time.Duration
	for range 10000 {
		took, _ := draws.Time(step)
		long += took
	}
	if mean := long / 10000; mean < 1350*time.Microsecond || mean > 1650*time.Microsecond {
		t.Errorf("a step of a long answer takes %v, want 1.5ms", mean)
	}
}

func TestRunsThatAreWrong(t *testing.T) {
	rows := []Knot{{1, .001}}
	for text, m := range map[string]Model{
		"no passes":  {Rows: rows, Runs: []Run{{}}},
		"took -1 ti": {Rows: rows, Runs: []Run{{1, -1}}},
		"took NaN":   {Rows: rows, Runs: []Run{{math.NaN()}}},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", m, err, text)
		}
	}
	var run Run
	if err := run.UnmarshalText([]byte("1.0 fast")); err == nil || !strings.Contains(err.Error(), `"fast"`) {
		t.Errorf("a run with a word gives %v", err)
	}
	still := Model{Rows: rows}
	if took, _ := still.Draws(1, 1).Time(Pass{}.Add(1, 0)); took != time.Millisecond {
		t.Errorf("a pass without runs takes %v", took)
	}
	brief := Model{Rows: rows, Runs: []Run{{2}}}
	if took, _ := brief.Draws(1, 1).Time(Pass{}.Add(1, 0)); took != time.Millisecond {
		t.Errorf("a pass without a run to follow takes %v", took)
	}
}
