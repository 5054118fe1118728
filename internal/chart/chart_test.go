package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func drawn(t *testing.T, p *Plot) string {
	t.Helper()
	var out strings.Builder
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// wellFormed reads the whole picture as XML.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}

func TestPlotShowsEverything(t *testing.T) {
	p := &Plot{Title: "Parley & <others>", Axis: "times as fast", Rows: []Row{
		{Label: "decode \"1B\"", Note: "1.3 (1.2 to 1.4)", Value: 1.3, Low: 1.2, High: 1.4, Goal: 1.2, Good: true},
		{Label: "prefill", Value: 0.6, Low: 0.5, High: 0.7, Goal: 1.4, Bad: true},
		{Label: "unclear", Value: 1, Low: 0.9, High: 1.5, Goal: 1.2},
	}}
	text := drawn(t, p)
	wellFormed(t, text)
	for _, want := range []string{"Parley &amp; &lt;others&gt;", "prefill: 0.6 (0.5 to 0.7), goal 1.4.",
		`class="good"`, `class="bad"`, `class="open"`, "prefers-color-scheme:dark", ">1.3 (1.2 to 1.4)<"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if again := drawn(t, p); again != text {
		t.Error("the same rows gave another picture")
	}
}

func TestAxisIsOfRatios(t *testing.T) {
	p := &Plot{Rows: []Row{{Value: 4, Low: 0.25, High: 4}}}
	a := p.axis()
	if left, right := a.x(1)-a.x(0.25), a.x(4)-a.x(1); math.Abs(left-right) > 1e-9 {
		t.Errorf("a quarter is %g from 1, four times is %g", left, right)
	}
	if a.x(a.low) != labelWidth || math.Abs(a.x(a.high)-labelWidth-plotWidth) > 1e-9 {
		t.Errorf("the ends lie at %g and %g", a.x(a.low), a.x(a.high))
	}
	wide := &Plot{Rows: []Row{{Value: 1, Low: 1e-9, High: 1e9}}}
	if n := len(wide.axis().ticks()); n < 2 || n > 12 {
		t.Errorf("%d ticks", n)
	}
}

func TestPlotRefusesWhatCannotBeDrawn(t *testing.T) {
	good := Row{Value: 1, Low: 1, High: 1}
	for _, rows := range [][]Row{
		nil, make([]Row, rowsMax+1), {{Value: 0, Low: 0, High: 0}}, {{Value: math.NaN(), Low: 1, High: 1}},
		{{Value: 2, Low: 1, High: 1.5}},
		{good, {Value: 1, Low: 1, High: math.Inf(1)}}, {{Value: 1, Low: 1, High: 1, Goal: -1}},
	} {
		if err := (&Plot{Rows: rows}).WriteSVG(io.Discard); err == nil {
			t.Errorf("%v was drawn", rows)
		}
	}
}
