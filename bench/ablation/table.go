package ablation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Rule says when a mechanism has reached its floor.
type Rule string

const (
	// Gains: the median gain is at least the floor.
	Gains Rule = "gains"
	// SurelyGains: the lower bound of the gain's confidence interval is at least the floor.
	SurelyGains Rule = "surely gains"
	// Within: nothing is compared; the measured value must not exceed the floor.
	Within Rule = "within"
)

// A Mechanism is one row of [Table].
type Mechanism struct {
	// Name is what the command line calls it.
	Name string `json:"name"`
	// Off and On name the two sides; Off is empty where there is only one.
	Off string `json:"off,omitempty"`
	On  string `json:"on"`
	// Metric is what is measured, in Unit.
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// LessIsBetter is set for times: the gain is then off over on.
	LessIsBetter bool `json:"less_is_better,omitempty"`
	// Rule and Floor decide whether the mechanism does what it is there for.
	Rule  Rule    `json:"rule"`
	Floor float64 `json:"floor"`
	// Claim is what was published, Source by whom. Claimed is the gain in it, if
	// it speaks of the same thing.
	Claim   string `json:"claim"`
	Source  string `json:"source"`
	Claimed string `json:"claimed,omitempty"`
}

// TargetDefault is the time per token that the engine keeps to unless it is
// told otherwise.
const TargetDefault = 50 * time.Millisecond

// Table lists what is measured, in the order in which it is measured.
var Table = []Mechanism{
	{
		Name:    "batching",
		Off:     "static batches",
		On:      "continuous",
		Metric:  "throughput",
		Unit:    "tokens/s",
		Rule:    Gains,
		Floor:   1.8,
		Claim:   "36.9x at the same latency",
		Source:  "Orca, OSDI '22",
		Claimed: "36.9x",
	},
	{
		Name:    "paging",
		Off:     "longest answer reserved",
		On:      "pages",
		Metric:  "requests at once",
		Unit:    "requests",
		Rule:    Gains,
		Floor:   3,
		Claim:   "4.3x requests at once (30.4 and 7.0), 2-4x throughput",
		Source:  "PagedAttention, SOSP '23",
		Claimed: "4.3x",
	},
	{
		Name:         "prefix-cache",
		Off:          "no prefix cache",
		On:           "prefix cache",
		Metric:       "time to first token",
		Unit:         "ms",
		LessIsBetter: true,
		Rule:         Gains,
		Floor:        30,
		Claim:        "about 50x for 6,000 cached tokens",
		Source:       "the arithmetic of prefill",
		Claimed:      "50x",
	},
	{
		Name:         "chunked-prefill",
		Off:          "whole prompts",
		On:           "chunks",
		Metric:       "gap p99",
		Unit:         "ms",
		LessIsBetter: true,
		Rule:         Gains,
		Floor:        5,
		Claim:        "2.6-5.6x load at the same p99 gap",
		Source:       "Sarathi-Serve, OSDI '24",
	},
	{
		Name:    "int8-kv",
		Off:     "bf16 keys and values",
		On:      "int8",
		Metric:  "sessions in the same bytes",
		Unit:    "sessions",
		Rule:    Gains,
		Floor:   1.9,
		Claim:   "2x",
		Source:  "the size of the numbers",
		Claimed: "2x",
	},
	{
		Name:    "lookup",
		Off:     "no speculation",
		On:      "prompt lookup",
		Metric:  "copying, one stream",
		Unit:    "tokens/s",
		Rule:    Gains,
		Floor:   1.5,
		Claim:   "2-4x where answers quote the prompt",
		Source:  "prompt lookup decoding, 2023",
		Claimed: "2-4x",
	},
	{
		Name:    "draft",
		Off:     "no speculation",
		On:      "draft model",
		Metric:  "chat, one stream",
		Unit:    "tokens/s",
		Rule:    Gains,
		Floor:   1.4,
		Claim:   "2-3x",
		Source:  "speculative decoding, ICML '23",
		Claimed: "2-3x",
	},
	{
		Name:   "full-load",
		Off:    "no speculation",
		On:     "speculation",
		Metric: "throughput, all seats taken",
		Unit:   "tokens/s",
		Rule:   SurelyGains,
		Floor:  0.95,
		Claim:  "a loss where processors are busy",
		Source: "manuals of engines that have it",
	},
	{
		Name:    "eviction",
		Off:     "LRU",
		On:      "learned eviction",
		Metric:  "prompt tokens found",
		Unit:    "%",
		Rule:    Gains,
		Floor:   1.05,
		Claim:   "1.08-1.24x by knowing the load",
		Source:  "KVCache in the Wild, ATC '25",
		Claimed: "1.08-1.24x",
	},
	{
		Name:         "gap",
		On:           "prompts that fill the context",
		Metric:       "gap p99.9, 16 streams",
		Unit:         "ms",
		LessIsBetter: true,
		Rule:         Within,
		Floor:        2 * float64(TargetDefault/time.Millisecond),
		Claim:        "twice the target of 50 ms",
		Source:       "our own bar",
	},
}

// Names lists the names of all mechanisms.
func Names() (names []string) {
	for _, m := range Table {
		names = append(names, m.Name)
	}
	return names
}

// Select returns the mechanisms of these names in the order of the table, or all
// of them if there are none. It fails on a name that does not exist.
func Select(names []string) ([]Mechanism, error) {
	for _, n := range names {
		if !slices.Contains(Names(), n) {
			return nil, fmt.Errorf("no mechanism is called %q: expected some of %s", n, strings.Join(Names(), ", "))
		}
	}
	var out []Mechanism
	for _, m := range Table {
		if len(names) == 0 || slices.Contains(names, m.Name) {
			out = append(out, m)
		}
	}
	return out, nil
}
