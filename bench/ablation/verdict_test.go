package ablation

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	more := Mechanism{Rule: Gains, Floor: 2}
	less := Mechanism{Rule: Gains, Floor: 2, LessIsBetter: true}
	sure := Mechanism{Rule: SurelyGains, Floor: 0.95}
	within := Mechanism{Rule: Within, Floor: 100}
	for _, c := range []struct {
		name      string
		m         Mechanism
		off, on   []float64
		gain      float64
		low, high float64
		met       bool
	}{
		{"more is better", more, []float64{10, 10, 10}, []float64{30, 25, 10}, 2.5, 1, 3, true},
		{"not enough more", more, []float64{10, 10, 10}, []float64{30, 19, 18}, 1.9, 1.8, 3, false},
		{"just enough", more, []float64{10}, []float64{20}, 2, 2, 2, true},
		{"less is better", less, []float64{10, 30, 50}, []float64{1, 10, 10}, 5, 3, 10, true},
		{"less is not enough less", less, []float64{10, 10, 10}, []float64{9, 9, 9}, 10.0 / 9, 10.0 / 9, 10.0 / 9,
			false},
		{"pairs count, not medians", more, []float64{1, 10, 100}, []float64{3, 30, 300}, 3, 3, 3, true},
		{"surely no loss", sure, []float64{1, 1, 1}, []float64{0.96, 1, 1.1}, 1, 0.96, 1.1, true},
		{"perhaps a loss", sure, []float64{1, 1, 1}, []float64{0.9, 1, 1.1}, 1, 0.9, 1.1, false},
		{"within the limit", within, nil, []float64{90}, 0, 90, 90, true},
		{"beyond the limit", within, nil, []float64{101}, 0, 101, 101, false},
	} {
		r, err := judge(c.m, Sample{Off: c.off, On: c.on}, time.Second)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		near := math.Abs(r.Gain-c.gain) < 1e-9 && math.Abs(r.Interval.Low-c.low) < 1e-9 &&
			math.Abs(r.Interval.High-c.high) < 1e-9
		if !near || r.Met != c.met {
			t.Errorf("%s: gain %g from %g to %g, met %v; want %g from %g to %g, %v", c.name, r.Gain, r.Interval.Low,
				r.Interval.High, r.Met, c.gain, c.low, c.high, c.met)
		}
	}
}

func TestJudgeRefusesWhatSaysNothing(t *testing.T) {
	for _, s := range []Sample{{}, {Off: []float64{1}}, {On: []float64{1}}, {Off: []float64{1, 2}, On: []float64{1}},
		{Off: []float64{0}, On: []float64{1}}, {Off: []float64{1}, On: []float64{0}}} {
		if r, err := judge(Mechanism{Rule: Gains, Floor: 1}, s, 0); err == nil {
			t.Errorf("%v gave %+v", s, r)
		}
	}
	if r, err := judge(Mechanism{Rule: Within, Floor: 1}, Sample{}, 0); err == nil {
		t.Errorf("nothing is within a limit: %+v", r)
	}
}

// report has every mechanism, the first one below its floor.
func report(t *testing.T) *Report {
	t.Helper()
	r := &Report{Schema: Schema, Program: "parley test", Machine: "a machine", Started: time.Unix(1_700_000_000, 0),
		Seconds: 75}
	for i, m := range Table {
		s := Sample{Off: []float64{10, 10}, On: []float64{1000, 1001}, Note: "note of " + m.Name}
		switch {
		case i == 0:
			s.On = []float64{11, 12}
		case m.Rule == Within:
			s.Off, s.On = nil, []float64{50}
		case m.LessIsBetter:
			s.Off, s.On = s.On, s.Off
		}
		x, err := judge(m, s, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		r.Results = append(r.Results, x)
	}
	return r
}

func TestTextSaysItAll(t *testing.T) {
	r := report(t)
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, m := range Table {
		for _, want := range []string{m.Name, m.Metric, m.Claim, m.Source, m.On, "note of " + m.Name} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("the text has no %q", want)
			}
		}
	}
	for _, want := range []string{"parley test", "a machine", "2023-11-14 22:13 UTC, 1m15s", "MISSED  batching",
		"Floors met: 9 of 10. Missed: batching.", "1.15x", "1.10-1.20 (50%)", "at most 100", "0.95x surely",
		"one round"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, text.String())
		}
	}
	r.Results, r.Quick = r.Results[1:], true
	text.Reset()
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "Floors met: 9 of 9.") ||
		!strings.Contains(text.String(), "quick") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}

func TestJSONHasTheTableAndTheRounds(t *testing.T) {
	text, err := json.Marshal(report(t))
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Schema  string
		Results []struct {
			Name, Claim, Source string
			Floor, Gain         float64
			Met                 bool
			OnRounds            []float64 `json:"on_rounds"`
			Interval            struct{ Low, High, Coverage float64 }
		}
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	first := read.Results[0]
	if read.Schema != Schema || len(read.Results) != len(Table) || first.Name != "batching" || first.Met ||
		first.Floor != 1.8 || len(first.OnRounds) != 2 || first.Interval.High != 1.2 {
		t.Errorf("%s", text)
	}
}

func TestPlotIsAPicture(t *testing.T) {
	var svg strings.Builder
	if err := report(t).Plot().WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"batching: throughput", "published 36.9x", "50.0 of 100 ms", "prefers-color-scheme"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the picture has no %q", want)
		}
	}
}
