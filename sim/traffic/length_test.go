package traffic

import (
	"math"
	"testing"
)

func TestLengthsHaveTheStatisticsAsked(t *testing.T) {
	rng := newRand(3, 1)
	for text, want := range map[string]struct{ mean, cv float64 }{
		"128":                 {128, 0},
		"100-300":             {200, math.Sqrt((201.0*201-1)/12) / 200},
		"lognormal:500:0.8":   {500, 0.8},
		"lognormal:1155:1.09": {1155, 1.09},
	} {
		l, err := ParseLength(text)
		if err != nil {
			t.Fatal(err)
		}
		mean, cv := moments(300_000, func() float64 { return float64(l.Draw(rng)) })
		if !near(mean, want.mean, 0.02) || math.Abs(cv-want.cv) > 0.03 {
			t.Errorf("%s: mean %.1f, CV %.3f, want %.1f and %.3f", text, mean, cv, want.mean, want.cv)
		}
		if l.String() != text {
			t.Errorf("%s is written %s", text, l)
		}
	}
}

func TestLengthsStayWithinBounds(t *testing.T) {
	rng := newRand(3, 1)
	l, err := ParseLength("lognormal:300:3:700")
	if err != nil || l.String() != "lognormal:300:3:700" {
		t.Fatal(l, err)
	}
	least, most := 700, 0
	for range 20_000 {
		n := l.Draw(rng)
		least, most = min(least, n), max(most, n)
	}
	if least < 1 || most != 700 {
		t.Errorf("lengths from %d to %d", least, most)
	}
}

func FuzzParseLength(f *testing.F) {
	for _, text := range []string{"", "0", "-5", "5-3", "x", "1-", "9999999999999999999", "lognormal", "lognormal:1",
		"lognormal:0:1",
		"lognormal:nan:1", "lognormal:5:0", "lognormal:5:1:0", "lognormal:5:1:2:3", "128", "1-9", "lognormal:5:1e9"} {
		f.Add(text)
	}
	rng := newRand(1, 1)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLength(text)
		if err != nil {
			return
		}
		if n := l.Draw(rng); n < 1 || n > LengthMax {
			t.Errorf("%q drew %d", text, n)
		}
		if again, err := ParseLength(l.String()); err != nil || again != l {
			t.Errorf("%q is written %q, which reads %+v, %v", text, l, again, err)
		}
	})
}

func TestParseLengthRefuses(t *testing.T) {
	for _, text := range []string{"", "0", "-5", "5-3", "x", "1-", "lognormal:1", "lognormal:nan:1", "lognormal:5:0",
		"lognormal:5:1:0", "9999999999"} {
		if l, err := ParseLength(text); err == nil {
			t.Errorf("%q was taken as %+v", text, l)
		}
	}
}
