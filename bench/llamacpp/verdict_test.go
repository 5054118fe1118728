package llamacpp

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	times := Check{Name: "decode/x", Rule: Times, Bar: 1.2}
	faster := Check{Name: "cached/x", Rule: Times, Bar: 2, LessIsBetter: true}
	atMost := Check{Name: "start/x", Rule: AtMost, Bar: 2, LessIsBetter: true}
	atLeast := Check{Name: "neighbour/x", Rule: AtLeast, Bar: 0.5}
	for _, c := range []struct {
		check        Check
		ours, theirs []float64
		fault        string
		score        float64
		want         Verdict
	}{
		{times, []float64{13, 14, 15}, []float64{10, 10, 10}, "", 1.4, Met},
		{times, []float64{11, 14, 15}, []float64{10, 10, 10}, "", 1.4, Unclear},
		{times, []float64{9, 10, 11}, []float64{10, 10, 10}, "", 1, Missed},
		{times, []float64{13, 14, 15}, []float64{10, 10, 10}, "a request failed", 1.4, Missed},
		{faster, []float64{10, 20, 30}, []float64{30, 60, 90}, "", 3, Met},
		{faster, []float64{30, 60, 90}, []float64{10, 20, 30}, "", 1. / 3, Missed},
		{atMost, []float64{1.5, 1.6}, []float64{9, 9}, "", 1.55, Met},
		{atMost, []float64{1.9, 2.3}, []float64{1, 1}, "", 2.1, Unclear},
		{atMost, []float64{2.1, 2.3}, []float64{9, 9}, "", 2.2, Missed},
		{atLeast, []float64{0.6, 0.7}, []float64{0.01, 0.01}, "", 0.65, Met},
		{atLeast, []float64{0.3, 0.4}, []float64{0.01, 0.01}, "", 0.35, Missed},
	} {
		r, err := judge(c.check, Sample{Ours: c.ours, Theirs: c.theirs, Fault: c.fault})
		if err != nil || r.Verdict != c.want || math.Abs(r.Score-c.score) > 1e-9 {
			t.Errorf("%+v with %v against %v: %s, score %g, %v; want %s and %g", c.check, c.ours, c.theirs, r.Verdict,
				r.Score, err, c.want, c.score)
		}
	}
	if _, err := judge(times, Sample{Ours: []float64{1}, Theirs: []float64{0}}); err == nil {
		t.Error("a side that did nothing was judged")
	}
}

func sampleReport(t *testing.T) *Report {
	t.Helper()
	r := &Report{Schema: Schema, Program: "parley 1", Peer: "llama.cpp build 7", Machine: "a machine", Threads: 2,
		Started: time.Unix(0, 0), Seconds: 3, BandwidthGB: []float64{24, 26}}
	for _, c := range Table(false) {
		x, err := judge(c, Sample{Ours: []float64{2, 3}, Theirs: []float64{1, 1}, Notes: []string{"a note"}})
		if err != nil {
			t.Fatal(err)
		}
		r.Results = append(r.Results, x)
	}
	return r
}

func TestReportIsReadBack(t *testing.T) {
	r := sampleReport(t)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadReport(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var a, b strings.Builder
	if err := r.WriteText(&a); err != nil {
		t.Fatal(err)
	}
	if err := again.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() || !slices.Equal(r.Missed(), again.Missed()) {
		t.Errorf("read back, the report is another:\n%s\n%s", a.String(), b.String())
	}
	for _, want := range []string{"parley 1 against llama.cpp build 7", "2 threads", "24 26 GB/s",
		"MISSED   memory/llama-135m-q8_0", "(50%)", "  a note"} {
		if !strings.Contains(a.String(), want) {
			t.Errorf("%q is not in\n%s", want, a.String())
		}
	}
	plot, err := again.Plot()
	if err != nil {
		t.Fatal(err)
	}
	var svg bytes.Buffer
	if err := plot.WriteSVG(&svg); err != nil || !strings.Contains(svg.String(), "prefill/llama-1b-bf16") ||
		strings.Contains(svg.String(), "memory/") {
		t.Errorf("%v\n%s", err, svg.String())
	}
}

func TestReadReportRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "no report",
		"{}":                          `expected "parley-peer/1"`,
		`{"schema":"parley-peer/1"}`:  "no results",
		`{"schema":"parley-bench/1"}`: `expected "parley-peer/1"`,
		`{"schema":"parley-peer/1","results":[{"name":"x"}]}`:            "expected a positive number",
		`{"schema":"parley-peer/1","results":[{"name":"x","score":-1}]}`: "expected a positive number",
		strings.Repeat(" ", reportBytesMax+1):                            "more than",
	} {
		if _, err := ReadReport(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gave %v, want %q", text, err, want)
		}
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add(
		[]byte(
			`{"schema":"parley-peer/1","results":[{"name":"x","rule":"times","score":2,"our_median":2,"their_median":1,"interval":{"low":1,"high":3}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReport(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := r.WriteText(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		if plot, err := r.Plot(); err == nil {
			_ = plot.WriteSVG(&bytes.Buffer{}) // a foreign report may have intervals that cannot be drawn
		}
	})
}
