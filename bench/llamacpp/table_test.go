package llamacpp

import (
	"strings"
	"testing"

	"parley/model/weights"
)

func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range experiments(false) {
		if _, err := weights.ShapeNamed(e.model.Shape); err != nil {
			t.Error(err)
		}
		for _, c := range e.checks {
			if seen[c.Name] || !strings.HasSuffix(c.Name, "/"+e.model.Name()) || c.Bar <= 0 || c.Metric == "" ||
				c.Unit == "" {
				t.Errorf("%+v", c)
			}
			seen[c.Name] = true
		}
	}
	bars := map[string]float64{}
	for _, c := range Table(false) {
		bars[c.Name] = c.Bar
	}
	fast := map[string]float64{}
	for _, c := range Table(true) {
		fast[c.Name] = c.Bar
	}
	if bars["prefill/llama-1b-q4_0"] != 1.4 || fast["prefill/llama-1b-q4_0"] != 1.8 ||
		fast["decode/llama-1b-q4_0"] != bars["decode/llama-1b-q4_0"] {
		t.Errorf("the bars are %v, and %v with fast numerics", bars, fast)
	}
}

func TestSelected(t *testing.T) {
	all := experiments(false)
	some, err := selected(all, []string{"prefill/llama-1b", "cached"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range some {
		for _, c := range e.checks {
			names = append(names, c.Name)
		}
	}
	want := "prefill/llama-1b-q8_0 prefill/llama-1b-q4_0 prefill/llama-1b-f16 prefill/llama-1b-bf16 " +
		"cached/llama-135m-q8_0 cached/llama-1b-q8_0"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if every, err := selected(all, nil); err != nil || len(every) != len(all) {
		t.Errorf("%d of %d, %v", len(every), len(all), err)
	}
	if _, err := selected(all, []string{"decode", "nonsense"}); err == nil ||
		!strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("nonsense gave %v", err)
	}
}
