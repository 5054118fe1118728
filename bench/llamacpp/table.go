package llamacpp

import (
	"fmt"
	"slices"
	"strings"

	"parley/model/weights"
)

// A Rule says what a check's bar is compared with.
type Rule string

const (
	// Times: how many times as good as llama.cpp, which must be at least the bar.
	Times Rule = "times"
	// AtLeast: our own number must be at least the bar, whatever llama.cpp's is.
	AtLeast Rule = "at least"
	// AtMost: our own number must be at most the bar.
	AtMost Rule = "at most"
)

// A Check is one row of [Table].
type Check struct {
	// Name is what the command line calls it: the experiment and the model.
	Name string `json:"name"`
	// Metric is what is measured, in Unit.
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// LessIsBetter is set of times and of memory.
	LessIsBetter bool    `json:"less_is_better,omitempty"`
	Rule         Rule    `json:"rule"`
	Bar          float64 `json:"bar"`
}

// A Model is a random model that the checks run on.
type Model struct {
	// Shape is one of [weights.Shapes], Quant the type of its matrices.
	Shape string
	Quant weights.DType
}

// Name is the name of the model's file, without its ending.
func (m Model) Name() string { return m.Shape + "-" + strings.ToLower(m.Quant.String()) }

// The shapes that are measured.
const (
	small = "llama-135m"
	large = "llama-1b"
)

// bareBars are the bars for the bare network: decode and prefill, and prefill
// with fast numerics where that differs.
var bareBars = []struct {
	Model
	decode, prefill, fastPrefill float64
}{
	{Model{small, weights.Q8_0}, 1.2, 1.4, 1.4},
	{Model{small, weights.Q4_0}, 1.2, 1.4, 1.4},
	{Model{large, weights.Q8_0}, 1.0, 1.4, 1.8},
	{Model{large, weights.Q4_0}, 1.2, 1.4, 1.8},
	{Model{large, weights.F16}, 1.0, 1.4, 1.4},
	{Model{large, weights.BF16}, 1.0, 1.4, 1.4},
}

// servedModels are those that the servers run.
var servedModels = []Model{{small, weights.Q8_0}, {large, weights.Q8_0}}

const decodeMetric = "decode, 128 tokens"

// An experiment measures some checks at once.
type experiment struct {
	kind   kind
	model  Model
	checks []Check
}

// A kind says how an experiment is done.
type kind int

const (
	bare      kind = iota // the network alone
	neighbour             // the same, beside a busy program
	streams               // eight users, and a prompt that is mostly cached
	crowd                 // sixty-four users, and long prompts
	launch                // from nothing to the first token, and memory then
)

// experiments lists all of them in the order in which they run. Fast says that
// Parley computes with fast numerics.
func experiments(fast bool) (list []experiment) {
	for _, b := range bareBars {
		prefill := b.prefill
		if fast {
			prefill = b.fastPrefill
		}
		list = append(list, experiment{bare, b.Model, []Check{
			{
				Name:   "decode/" + b.Name(),
				Metric: decodeMetric,
				Unit:   "tokens/s",
				Rule:   Times,
				Bar:    b.decode,
			},
			{
				Name:   "prefill/" + b.Name(),
				Metric: "prefill, 512 tokens",
				Unit:   "tokens/s",
				Rule:   Times,
				Bar:    prefill,
			},
		}})
	}
	for _, m := range servedModels {
		list = append(list,
			experiment{neighbour, m, []Check{
				{
					Name:   "neighbour/" + m.Name(),
					Metric: "share of quiet decode speed beside a busy core",
					Unit:   "share",
					Rule:   AtLeast,
					Bar:    0.5,
				},
			}},
			experiment{streams, m, []Check{
				{
					Name:   "streams/" + m.Name(),
					Metric: "8 streams together",
					Unit:   "tokens/s",
					Rule:   Times,
					Bar:    2,
				},
				{
					Name:         "cached/" + m.Name(),
					Metric:       "time to first token, 1400 of 1500 cached",
					Unit:         "ms",
					LessIsBetter: true,
					Rule:         Times,
					Bar:          2,
				},
			}},
			experiment{crowd, m, []Check{
				{
					Name:         "crowd/" + m.Name(),
					Metric:       "64 streams while long prompts come: longest gap, p99",
					Unit:         "ms",
					LessIsBetter: true,
					Rule:         Times,
					Bar:          3,
				},
			}},
			experiment{launch, m, launchChecks(m)})
	}
	return list
}

// launchChecks: how long a start may take is promised for the larger model.
func launchChecks(m Model) []Check {
	memory := Check{
		Name:         "memory/" + m.Name(),
		Metric:       "resident, over weights and key/value pool",
		Unit:         "share",
		LessIsBetter: true,
		Rule:         AtMost,
		Bar:          1.1,
	}
	start := Check{
		Name:         "start/" + m.Name(),
		Metric:       "from exec to first token, files in memory",
		Unit:         "s",
		LessIsBetter: true,
		Rule:         AtMost,
		Bar:          2,
	}
	return []Check{memory, start}
}

// Table lists the checks.
func Table(fast bool) (list []Check) {
	for _, e := range experiments(fast) {
		list = append(list, e.checks...)
	}
	return list
}

// selected returns the experiments that have a check whose name contains one of
// the words, or all of them without words, with those checks alone. It fails on
// a word that no name has.
func selected(list []experiment, words []string) ([]experiment, error) {
	if len(words) == 0 {
		return list, nil
	}
	var out []experiment
	found := map[string]bool{}
	for _, e := range list {
		var checks []Check
		for _, c := range e.checks {
			if word := firstIn(c.Name, words); word != "" {
				found[word] = true
				checks = append(checks, c)
			}
		}
		if len(checks) > 0 {
			out = append(out, experiment{e.kind, e.model, checks})
		}
	}
	for _, w := range words {
		if !found[w] && !slices.ContainsFunc(Table(false), func(c Check) bool { return strings.Contains(c.Name, w) }) {
			return nil, fmt.Errorf("no check has %q in its name: expected a part of such as %s", w,
				list[0].checks[0].Name)
		}
	}
	return out, nil
}

func firstIn(name string, words []string) string {
	for _, w := range words {
		if strings.Contains(name, w) {
			return w
		}
	}
	return ""
}
