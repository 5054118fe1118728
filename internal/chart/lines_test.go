package chart

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
)

func series() *TimeSeries {
	return &TimeSeries{Title: "A <storm>", X: "seconds", Y: "goodput", Step: 1, Level: 1, LevelLabel: "capacity",
		From: 1, To: 3, SpanLabel: "storm",
		Lines: []Line{{"with", []float64{0.8, 1, 1, 0.8}, true}, {"without", []float64{0.8, 0, 0.25, 0.5}, false}}}
}

func TestCourseIsWellFormed(t *testing.T) {
	var out bytes.Buffer
	if err := series().WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
	}
	for _, want := range []string{"A &lt;storm&gt;", "with: 0.8 on average outside of the span of storm, and 1 in it.",
		"without: 0.65 on average outside of the span of storm, and 0.125 in it.",
		`<polyline class="good"`, `<polyline class="bad"`, ">capacity<"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	var again bytes.Buffer
	if err := series().WriteSVG(&again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("the same series gives other bytes: %v", err)
	}
}

func TestCourseRefusals(t *testing.T) {
	for name, spoil := range map[string]func(*TimeSeries){
		"no line":    func(c *TimeSeries) { c.Lines = nil },
		"no step":    func(c *TimeSeries) { c.Step = 0 },
		"one value":  func(c *TimeSeries) { c.Lines[0].Values = []float64{1} },
		"no number":  func(c *TimeSeries) { c.Lines[0].Values[1] = math.NaN() },
		"below zero": func(c *TimeSeries) { c.Lines[1].Values[1] = -1 },
	} {
		c := series()
		spoil(c)
		if err := c.WriteSVG(io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
