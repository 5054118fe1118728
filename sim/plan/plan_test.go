package plan

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// planner is shared by the tests: it does not change.
var planner = New()

// planFor works out settings of one line.
func planFor(t *testing.T, line string) *Result {
	t.Helper()
	settings, err := ParseSettings(line)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Plan(settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBottlenecks leads each resource in turn to be the one that binds.
func TestBottlenecks(t *testing.T) {
	for _, c := range []struct{ set, want, sentence string }{
		{"model=70b,tp=1", "fit", "140 GB of weights"},
		{"model=7b,prompt=6000,ttft=200ms,percentile=95%,output=25,tpot=10ms", "ttft", "212 ms at the percentile"},
		{"model=70b,tp=8,hit=80%,tpot=10ms,ttft=2", "bandwidth", "within 10 ms"},
		{"model=70b,tp=2,weights=fp8,tpot=5ms,ttft=9", "tpot", "longer than 5 ms"},
		{"model=70b,tp=8,rate=5000,ttft=10,tpot=100ms", "compute", "22,629 tok/s"},
		{"model=70b,tp=8,rate=5000,ttft=10", "prefill", "takes 63% of the time"},
		{"model=70b,tp=8,rate=5000,hit=90%,ttft=2,output=1000", "memory", "hold 332 sessions"},
		{"model=70b,tp=8,hit=90%,ttft=2,sessions_max=8", "batch cap", "runs 8 sessions"},
		{"model=70b,tp=8,hit=90%,ttft=2,rate=5000,budget=1000", "cost", "budget is $1,000"},
		{"model=70b,tp=8,rate=5000", "latency", "of 700 ms"},
	} {
		p := planFor(t, c.set)
		if p.Bottleneck != c.want || !strings.Contains(p.Sentence, c.sentence) {
			t.Errorf("%s: %s: %s; want %s, with %q (%v)", c.set, p.Bottleneck, p.Sentence, c.want, c.sentence, p.Limits)
		}
		if strings.ContainsAny(p.Sentence, "{}") {
			t.Errorf("%s: %s", c.set, p.Sentence)
		}
	}
}

// TestCliff holds the fleet fixed, as at a hit rate of 96 %, and lowers the hit
// rate: the 95th percentile leaves the objective at 95 %, not gradually.
func TestCliff(t *testing.T) {
	const set = "model=7b,prompt=6000,output=25,ttft=200ms,tpot=10ms,percentile=95%,rate=2000,hit="
	sized := planFor(t, set+"96%")
	if !sized.Attainable || sized.Values["ttft_tail"] > 0.2 {
		t.Fatalf("at 96 %%: %s, TTFT %s", sized.Sentence, sized.Text("ttft_tail"))
	}
	last := 0.0
	for _, hit := range []string{"98%", "96%", "94%", "80%", "0%"} {
		p := planFor(t, set+hit+",replicas_peak="+sized.Text("replicas_peak"))
		if p.Values["ttft_tail"] < last {
			t.Errorf("TTFT falls from %g to %g when the hit rate falls to %s", last, p.Values["ttft_tail"], hit)
		}
		last = p.Values["ttft_tail"]
		if over := last > 0.2; over != (hit != "98%" && hit != "96%") {
			t.Errorf("at %s the 95th percentile is %g s", hit, last)
		}
	}
	if !math.IsInf(last, 1) {
		t.Errorf("without hits a fleet for 96 %% has a TTFT of %g s: prefill exceeds it", last)
	}
}

// TestTimestamp is the one line of code that lowers the hit rate from 80 % to
// 10 %: the same fleet no longer carries the load.
func TestTimestamp(t *testing.T) {
	const set = "model=70b,tp=8,rate=5000,ttft=2,new=0,hit="
	before := planFor(t, set+"80%")
	after := planFor(t, set+"10%")
	if grown := after.Values["replicas_exact"] / before.Values["replicas_exact"]; grown < 2 {
		t.Errorf("the fleet grows by %g", grown)
	}
}

// TestNoLimitIsNoNumber: JSON has no infinity.
func TestNoLimitIsNoNumber(t *testing.T) {
	p := planFor(t, "model=70b,tp=8,hit=100%,new=0")
	if _, err := json.Marshal(p); err != nil {
		t.Error(err)
	}
}

func TestWhatIf(t *testing.T) {
	before := planFor(t, "model=70b,tp=8,hit=90%,ttft=2,output=1000")
	after, err := planner.Plan(before.Settings.With(Settings{"kv": "fp8"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Values["sessions_memory"] / before.Values["sessions_memory"]; math.Abs(got-2) > 0.01 {
		t.Errorf("fp8 gives %g times the sessions", got)
	}
}

func TestWhyShowsTheFormulaWithItsInputs(t *testing.T) {
	p := planFor(t, "model=70b,tp=4")
	why, err := p.Why("kv_token")
	if err != nil {
		t.Fatal(err)
	}
	if want := "2 * 80 * 8 * (128 * 2 B + 0 B)"; why.Filled != want || why.Value != "328 kB" {
		t.Errorf("%q = %q, want %q", why.Filled, why.Value, want)
	}
	if why, _ := p.Why("tp"); why.Filled != "" || why.Value != "4" {
		t.Errorf("what was set is explained by %q", why.Filled)
	}
	if _, err := p.Why("kv_tokn"); err == nil || !strings.Contains(err.Error(), "did you mean kv_token?") {
		t.Errorf("a wrong name: %v", err)
	}
}

func TestWrongSettings(t *testing.T) {
	for line, want := range map[string]string{
		"model=llama-9":       `no model "llama-9": use one of 13b, 70b`,
		"device=h1000":        "a100, b200, h100, h200, l40s",
		"kv=fp3":              "bf16, f32, fp16, fp8, int4, int8",
		"promt=3000":          "did you mean prompt?",
		"prompt=many":         `prompt: "many" is not a quantity such as 3000`,
		"prompt=0":            "prompt: it must be more than 0",
		"hit=80":              "percentage such as 80%",
		"percentile=1":        "such as 0.99",
		"swing=0.5":           "peak over the trough",
		"memory=80 parsecs":   "such as 80GB",
		"rate=-5":             "such as 5000",
		"zzzzzzzzzzzz=1":      "--why all",
		"ttft=2,output=1e999": "not a quantity",
	} {
		settings, err := ParseSettings(line)
		if err == nil {
			_, err = planner.Plan(settings)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if _, err := ParseSettings("kv"); err == nil {
		t.Error("a setting without a value is accepted")
	}
}

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		text string
		want float64
		back string
	}{
		{Bytes, "80GB", 80e9, "80 GB"}, {Bytes, "320KiB", 327680, "328 kB"}, {Bytes, "12", 12, "12 B"},
		{BytesPerSecond, "3.35TB/s", 3.35e12, "3.35 TB/s"}, {OpsPerSecond, "990T", 990e12, "990 TFLOP/s"},
		{Seconds, "700ms", 0.7, "700 ms"}, {Seconds, "19s", 19, "19 s"}, {Seconds, "2h", 7200, "120 min"},
		{Seconds, "0.0000043", 4.3e-6, "4.3 µs"}, {Fraction, "80%", 0.8, "80%"}, {Fraction, "0.375", 0.375, "37.5%"},
		{Count, "10M", 1e7, "10,000,000"}, {Count, "7B", 7e9, "7,000,000,000"}, {Tokens, "1,000", 1000, "1,000 tok"},
		{Dollars, "$4.1667", 4.1667, "$4.17"}, {Dollars, "0.00123", 0.00123, "$0.00123"},
		{DollarsPerHour, "3", 3, "$3.00/h"},
		{Dollars, "90M", 9e7, "$90,000,000"}, {Count, "99.96", 99.96, "100"}, {Count, "0", 0, "0"},
	} {
		got, err := Parse(c.unit, c.text)
		if err != nil || math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s is %g, %v; want %g", c.text, got, err, c.want)
		}
		if back := Format(c.unit, got); back != c.back {
			t.Errorf("%s is written %q, want %q", c.text, back, c.back)
		}
	}
}

// TestSheetRefuses feeds the reader of the sheet what must not be in it.
func TestSheetRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1 | n":                    "want name = formula",
		"a = 1 | n | x\na = 2 | n | y": "not a new name",
		"a = b | n | x":                `no cell "b"`,
		"a = 1 | furlong | x":          "no unit",
		"a = 1 + | n | x":              "formula",
		"a = sin(1) | n | x":           "no operation sin",
		"a = min(1) | n | x":           "no operation min of 1",
		"a = func() {} | n | x":        "is not a number or a name",
		"a = 1 2 | n | x":              `"2" is not expected`,
		"a = (1 + 2 | n | x":           `"" is not ")"`,
		"a = max(1 2) | n | x":         `"2" is not ","`,
		"a = 1 $ 2 | n | x":            `"$" is not expected`,
		"## Limits\nx = 1 | {gone}":    `no cell "gone"`,
		"A = 1 | n | x":                "not a new name",
	} {
		if _, err := parseSheet(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	circle, err := parseSheet("a = b | n | x\nb = a | n | y")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := circle.Evaluate(nil); err == nil || !strings.Contains(err.Error(), "depends on itself") {
		t.Errorf("a circle: %v", err)
	}
}

// TestEveryModelAndDevice plans all pairs: no value is undefined, and where a model fits it has a cost.
func TestEveryModelAndDevice(t *testing.T) {
	for model := range planner.Catalog.Models {
		for device := range planner.Catalog.Devices {
			p, err := planner.Plan(Settings{"model": model, "device": device, "tp": "8", "dau": "1M", "hit": "0.5"})
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range p.Values {
				if math.IsNaN(value) && p.Bottleneck != "fit" {
					t.Errorf("%s on %s: %s is undefined", model, device, name)
				}
			}
			if p.Bottleneck != "fit" && p.Values["rate_bandwidth"] > 0 && !(p.Values["month_follow"] > 0) {
				t.Errorf("%s on %s costs %s", model, device, p.Text("month_follow"))
			}
			if _, err := json.Marshal(p.Numbers()); err != nil {
				t.Errorf("%s on %s: %v", model, device, err)
			}
		}
	}
}

// TestPlansMeetTheirObjectives: the latencies predicted for the fleet of a plan are within
// the objectives from which it was derived, whatever binds.
func TestPlansMeetTheirObjectives(t *testing.T) {
	attained := 0
	for _, model := range []string{"7b", "70b", "qwen3-235b-a22b"} {
		for _, hit := range []string{"0", "0.5", "0.94", "0.97", "0.995", "1"} {
			for _, more := range []string{"", ",output=1000", ",prompt=500", ",ttft=2", ",tpot=15ms"} {
				p := planFor(t, "tp=8,rate=3000,percentile=95%,model="+model+",hit="+hit+more)
				if !p.Attainable {
					continue
				}
				attained++
				v := p.Values
				late := v["ttft_tail"] > v["ttft"]*1.001 || v["tpot_mean"] > v["tpot"]*1.001
				if late || v["batch"] > v["sessions_memory"] {
					t.Errorf("%s, hit %s%s: TTFT %s, TPOT %s, batch %s (%s)", model, hit, more,
						p.Text("ttft_tail"), p.Text("tpot_mean"), p.Text("batch"), p.Sentence)
				}
			}
		}
	}
	if attained < 60 {
		t.Errorf("only %d plans were attainable", attained)
	}
}

func TestFileOfAUser(t *testing.T) {
	ours, settings, err := planner.Read([]byte(`
devices:
  Mine: {memory: 96GB, bandwidth: 4TB/s, flops: 800T, price: 2}
models:
  ours: {params: 12B, layers: 40, kv_heads: 8, head_dim: 128}
device: mine
model: ours
kv: fp8
hit: 80%
tp: 2
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ours.Plan(settings)
	if err != nil {
		t.Fatal(err)
	}
	v := p.Values
	if v["memory"] != 96e9 || v["kv_bytes"] != 1 || v["hit"] != 0.8 || ours.Catalog.Models["70b"] == nil {
		t.Errorf("%v of %v", p.Values, settings)
	}
	_, _, err = planner.Read([]byte("devices: {x: {memry: 1GB}}"))
	if want := `devices: x: no setting "memry": did you mean memory?`; err == nil || err.Error() != want {
		t.Errorf("a wrong field: %v, want %s", err, want)
	}
	_, _, err = planner.Read([]byte("devices: {x: {memory: 0}}"))
	if want := "devices: x: memory: it must be more than 0"; err == nil || err.Error() != want {
		t.Errorf("a device without memory: %v, want %s", err, want)
	}
	if _, _, err := planner.Read([]byte("devices: [")); err == nil {
		t.Error("what is not YAML is read")
	}
}

func TestConfigOfHuggingFace(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Cells
	}{
		{"llama-3-8b", `{"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
			"num_key_value_heads":8,"vocab_size":128256,"tie_word_embeddings":false}`,
			Cells{"params": 8.03e9, "active_params": 8.03e9, "layers": 32, "kv_heads": 8, "head_dim": 128}},
		{"qwen3-235b-a22b", `{"head_dim":128,"hidden_size":4096,"intermediate_size":12288,"moe_intermediate_size":1536,
			"num_attention_heads":64,"num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":94,
			"num_key_value_heads":4,"vocab_size":151936,"sliding_window":null,"use_sliding_window":false}`,
			Cells{"params": 235.09e9, "active_params": 22.19e9, "layers": 94, "kv_heads": 4, "head_dim": 128}},
		{"latent", `{"hidden_size":7168,"intermediate_size":18432,"moe_intermediate_size":2048,
			"num_attention_heads":128,"head_dim":128,"num_hidden_layers":61,
			"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,
			"first_k_dense_replace":3,
			"vocab_size":129280,"kv_lora_rank":512,"qk_rope_head_dim":64}`,
			Cells{"kv_heads": 1, "head_dim": 288}},
		{"sliding", `{"text_config":{"hidden_size":64,"intermediate_size":128,"num_attention_heads":4,
			"num_hidden_layers":3,"vocab_size":100,"sliding_window":32,
			"layer_types":["sliding_attention","sliding_attention","full_attention"]}}`,
			Cells{"window_layers": 2, "window": 32, "kv_heads": 4, "head_dim": 16}},
	} {
		got, err := ReadConfig([]byte(c.text))
		if err != nil {
			t.Fatal(c.name, err)
		}
		for name, want := range c.want {
			if math.Abs(got[name]-want) > 0.001*want {
				t.Errorf("%s: %s is %g, want %g", c.name, name, got[name], want)
			}
		}
	}
	for text, want := range map[string]string{
		"{": "not a config.json",
		`{"num_hidden_layers":1,"hidden_size":1,"num_attention_heads":1,"vocab_size":1,"intermediate_size":1,
			"num_key_value_heads":-1}`: "kv_heads is -1",
		"{}": "config.json has no",
		`{"num_hidden_layers":1,"hidden_size":1,"num_attention_heads":1,"vocab_size":1}`: "intermediate_size",
	} {
		if _, err := ReadConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWindowBoundsASession: layers with a window keep no more than it.
func TestWindowBoundsASession(t *testing.T) {
	p := planFor(t, "model=70b,layers=4,window_layers=3,window=1024,context=4096")
	if got, want := p.Values["kv_session"], p.Values["kv_token"]/4*(4096+3*1024); got != want {
		t.Errorf("%g, want %g", got, want)
	}
}

// TestPrecedence compares formulas with their trees.
func TestPrecedence(t *testing.T) {
	for text, want := range map[string]string{
		"1 - 2 - 3":              `["-",["-",1,2],3]`,
		"1 - (2 - 3)":            `["-",1,["-",2,3]]`,
		"1 + 2 * 3 / 4 >= .5":    `["\u003e=",["+",1,["/",["*",2,3],4]],0.5]`,
		"a_b*2.5e-3+max(x, (y))": `["+",["*","a_b",0.0025],["max","x","y"]]`,
		"when(a < 1, b, c)":      `["when",["\u003c","a",1],"b","c"]`,
	} {
		e, err := parseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("%s is read as %s, want %s, %v", text, got, want, err)
		}
	}
	if _, err := parseExpr(strings.Repeat("(", 1_000_000)); err == nil {
		t.Error("a million parentheses are read")
	}
}

// TestFormulasReadAsWritten compares formulas written from their trees with
// the text of the sheet: what a user is shown is what is computed.
func TestFormulasReadAsWritten(t *testing.T) {
	for _, c := range planner.Sheet.Cells {
		if c.Expr == nil {
			continue
		}
		again, err := parseExpr(c.Expr.format(func(n string) string { return n }))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		a, _ := json.Marshal(c.Expr)
		b, _ := json.Marshal(again)
		if !slices.Equal(a, b) {
			t.Errorf("%s: %s became %s", c.Name, a, b)
		}
	}
}
