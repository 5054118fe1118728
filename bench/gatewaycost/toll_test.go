package gatewaycost

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
)

// TestVolleyTellsACutStream makes sure that the client can fail: what does not
// end as it should is an error.
func TestVolleyTellsACutStream(t *testing.T) {
	up := &Upstream{Model: parley.Model{ID: "m", ContextTokens: 100}, Token: 1, Text: " x"}
	server := httptest.NewServer(up.Handler())
	defer server.Close()
	target := Target{Name: "up", URL: server.URL, Model: "m"}
	for _, s := range []shot{{tokens: 3}, {tokens: 3, stream: true},
		{tokens: 3, stream: true, pace: time.Millisecond}} {
		hits, err := target.volley(t.Context(), 10, 3, s)
		if err != nil || len(hits) != 10 || hits[9].first == 0 {
			t.Errorf("%+v: %v, %v", s, hits, err)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := target.volley(soon, 1, 1, shot{tokens: 2, stream: true, pace: time.Hour}); err == nil {
		t.Error("a stream that does not end was taken for whole")
	}
	missing := Target{Name: "none", URL: server.URL + "/nowhere", Model: "m"}
	if _, err := missing.volley(t.Context(), 1, 1, shot{tokens: 1}); err == nil ||
		!strings.Contains(err.Error(), "status 404") {
		t.Errorf("a wrong path: %v", err)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	after := before
	for began := time.Now(); err == nil && after.cpu <= before.cpu && time.Since(began) < time.Minute; {
		for range 10_000 {
			_ = strings.Repeat("x", 1000)
		}
		after, err = usageOf(os.Getpid())
	}
	if err != nil || after.cpu <= before.cpu || after.resident == 0 {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
}

// TestBarsAreThoseOfAMachine makes sure that a slow machine does not miss bars by its
// slowness, and a fast one does not meet them by its speed.
func TestBarsAreThoseOfAMachine(t *testing.T) {
	results := []Result{
		{Name: perRequestName, Unit: "us", Value: 300, Bar: 200,
			Beside: map[string]float64{"nginx": 2 * referenceNginx}},
		{Name: "a chunk", Unit: "us", Value: 50, Bar: 20},
		{Name: "memory", Unit: "KB", Value: 41, Bar: 40},
	}
	scale(results)
	if r := results; r[0].Scaled != 150 || !r[0].Met() || r[1].Scaled != 25 || r[1].Met() || r[2].Scaled != 0 ||
		r[2].Met() {
		t.Errorf("%+v", results)
	}
	results[0].Beside["nginx"] = referenceNginx / 2.0
	if scale(results); results[0].Met() {
		t.Error("a fast machine has met a bar that is for a slower one")
	}
	delete(results[0].Beside, "nginx")
	results[0].Scaled, results[0].Value = 0, 199
	if scale(results); !results[0].Met() {
		t.Error("without nginx the value itself counts")
	}
}

// TestAnOlderGatewayIsABar makes sure that processor time above that of an older gateway
// is missed, round by round, however fast the machine was in each.
func TestAnOlderGatewayIsABar(t *testing.T) {
	r := Result{Name: "a chunk", Unit: "us", Value: 11, Bar: 20}
	if r.Ratio = medianRatio([]float64{10, 11, 21}, []float64{10, 10, 20}); r.Ratio != 1.05 || !r.Met() {
		t.Errorf("%v, met %t", r.Ratio, r.Met())
	}
	if r.Ratio = medianRatio([]float64{11, 22, 33}, []float64{10, 20, 30}); r.Met() {
		t.Errorf("%v is met", r.Ratio)
	}
	report := Report{Results: []Result{r}}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil || len(report.Missed()) != 1 ||
		!strings.Contains(text.String(), "1.100 times before, at most 1.05") {
		t.Errorf("%v:\n%s", err, &text)
	}
}

// TestStreamsAreHeldOpen makes sure that streams count as open when each has sent a token,
// and that one that ends is an error.
func TestStreamsAreHeldOpen(t *testing.T) {
	up := &Upstream{Model: parley.Model{ID: "m", ContextTokens: 100}, Token: 1, Text: " the", Pace: time.Millisecond}
	server := httptest.NewServer(up.Handler())
	defer server.Close()
	target := Target{Name: "up", URL: server.URL, Model: "m", PID: os.Getpid()}
	long := endpoint{name: "chat", path: "/v1/chat/completions", body: `{"max_tokens":1000000,"stream":true}`}
	if _, err := usageOf(os.Getpid()); err != nil {
		t.Skip(err)
	}
	if _, err := target.holdOpen(t.Context(), long, 20, ""); err != nil {
		t.Error(err)
	}
	short := long
	short.body = `{"max_tokens":0,"stream":true}`
	if _, err := target.holdOpen(t.Context(), short, 20, ""); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("streams without a token: %v", err)
	}
	for _, e := range endpoints {
		if !json.Valid([]byte(e.fill("m"))) {
			t.Errorf("%s: %s", e.name, e.fill("m"))
		}
	}
}

// TestTheCalmestRoundsCount makes sure that what is done below a machine is not taken
// for what its programs do.
func TestTheCalmestRoundsCount(t *testing.T) {
	var all []round
	for i, stolen := range []float64{.2, 0, .004, .05, .009, .3, 0, .02} {
		all = append(all, round{[]float64{float64(i), float64(10 * i)}, stolen})
	}
	got := calmest(all, 2)
	if want := [][]float64{{1, 6, 2, 4, 7}, {10, 60, 20, 40, 70}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	if before, after := (clock{100, 5}), (clock{300, 15}); after.stolenSince(before) != .05 ||
		after.stolenSince(after) != 0 {
		t.Errorf("got %v", after.stolenSince(before))
	}
	r := Report{Results: []Result{{Name: "a", Disturbed: 2}, {Name: "b", Disturbed: 1}}}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "3 more rounds do not count") {
		t.Errorf("%v:\n%s", err, &text)
	}
}

func TestReportTellsWhatIsMissed(t *testing.T) {
	r := Report{Results: []Result{{Name: "a", Value: 1, Bar: 2}, {Name: "b", Bar: 2, Beside: map[string]float64{}}}}
	r.Results[1].take([]Target{{Name: "gateway"}, {Name: "nginx"}}, [][]float64{{9, 3, 1.5}, {2, 1, 0.5, 1}})
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || len(r.Missed()) != 1 || !strings.Contains(text.String(), "MISSED  b") ||
		!strings.Contains(text.String(), "1.50 - 9.00") || !strings.Contains(text.String(), "nginx 1.00") {
		t.Errorf("%v, %v:\n%s", r.Missed(), err, &text)
	}
}
