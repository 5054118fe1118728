package main

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"parley/gateway/safety"
)

//go:embed seeds.txt
var seedsText string

// seedsPerLine bounds how many texts one line gives.
const seedsPerLine = 48

// What a seed counts beside a row of the data. Attacks on coding agents use words
// that harmless requests have, too: they count less.
const (
	seedWeight    = 0.5
	hostileWeight = 0.15
)

var seedHeads = map[string]safety.Head{
	"illicit": safety.HeadIllicit, "violence": safety.HeadViolence, "self-harm": safety.HeadSelfHarm,
	"hate":   safety.HeadHate,
	"sexual": safety.HeadSexual, "minors": safety.HeadMinors, "harassment": safety.HeadHarassment,
}

// seeds returns the examples of the texts written for Parley.
func seeds() []*example {
	var list []*example
	section := ""
	for line := range strings.Lines(seedsText) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "= "); ok {
			section = name
			continue
		}
		if line == "" || strings.HasPrefix(line, "# ") && section == "" {
			continue
		}
		for _, text := range expand(line) {
			list = append(list, seed(section, text))
		}
	}
	return list
}

func seed(section, text string) *example {
	e := &example{row: &row{Text: text, Source: "seed", group: 1}, sample: safety.Extract(text, ""),
		weight: seedWeight, seed: true}
	switch section {
	case "clean":
		e.target = clean()
	case "injection", "hostile":
		e.target = orderTarget(unknown)
		e.target[safety.HeadInjection] = 1
		if section == "hostile" {
			e.weight = hostileWeight
		}
	case "order", "brought":
		e.brought = true
		e.target = orderTarget(0)
		if section == "order" {
			e.target[safety.HeadOrder] = 1
		}
	case "illicit":
		e.target = orderTarget(unknown)
		e.target[safety.HeadIllicit] = 1
	default:
		e.target = harmful()
		e.target[seedHeads[section]] = 1
	}
	return e
}

// expand returns the texts that a line stands for: those with the least
// hashes if there are too many.
func expand(line string) []string {
	texts := []string{""}
	for line != "" {
		plain, rest, found := strings.Cut(line, "[")
		options, after, closed := strings.Cut(rest, "]")
		if !found || !closed {
			plain, options, after = line, "", ""
		}
		var next []string
		for _, t := range texts {
			for o := range strings.SplitSeq(options, "|") {
				next = append(next, t+plain+o)
			}
		}
		texts, line = next, after
	}
	slices.SortFunc(texts, func(a, b string) int {
		if xxhash.Sum64String(a) < xxhash.Sum64String(b) {
			return -1
		}
		return 1
	})
	return texts[:min(len(texts), seedsPerLine)]
}

//go:embed guards.txt
var guardsText string

// guards returns examples of questions after system prompts that forbid them,
// and of questions that have nothing to do with what is forbidden: each after
// its own prompt and, if it is clean, after the others, too.
func guards() (list []*example, systems []string) {
	var clean []string
	for line := range strings.Lines(guardsText) {
		fields := strings.Split(strings.TrimSpace(line), " | ")
		if strings.HasPrefix(line, "#") || len(fields) != 3 {
			continue
		}
		systems, clean = append(systems, fields[0]), append(clean, fields[2])
		list = append(list, guarded(fields[0], fields[1], "injection"))
	}
	for i, text := range clean {
		for k := range 4 {
			list = append(list, guarded(systems[(i+k*5)%len(systems)], text, "clean"))
		}
	}
	return list, systems
}

func guarded(system, text, section string) *example {
	e := seed(section, text)
	e.System = system
	e.sample = safety.Extract(text, system)
	if section == "injection" {
		e.weight = 2
	}
	return e
}
