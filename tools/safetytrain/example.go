package main

import (
	"math"
	"strings"

	"parley/gateway/safety"
)

// unknown marks a head of which an example says nothing.
const unknown = -1

// An example is a row as it is trained on and scored.
type example struct {
	*row
	sample *safety.Sample
	target [safety.Heads]int8
	weight float32
	// brought examples are text that a tool brings: they are judged sentence by
	// sentence for orders.
	brought bool
	// seed examples were written by us; they are trained on and never scored.
	seed bool
}

// origin is where a text comes from.
func (e *example) origin() safety.Origin {
	if e.brought {
		return safety.FromTool
	}
	return safety.FromUser
}

// spans are the stretches of which the worst counts.
func (e *example) spans() [][2]int {
	if !e.brought {
		return safety.Spans(len(e.sample.Words))
	}
	return safety.SentenceSpans(e.sample.Sentences, len(e.sample.Words))
}

// inner are the stretches in which an attack may be hidden in a longer text.
func (e *example) inner() [][2]int {
	return safety.InnerSpans(e.sample.Sentences, len(e.sample.Words))
}

// clean is the target of a text with which nothing is wrong.
func clean() (t [safety.Heads]int8) {
	t[safety.HeadOrder] = unknown
	return t
}

// harmful is the target of a text that is harmful in ways that are not known.
func harmful() (t [safety.Heads]int8) {
	for h := range t {
		t[h] = unknown
	}
	t[safety.HeadHarm] = 1
	return t
}

// targetOf says what a row teaches as a user's text; ok is false if nothing.
func targetOf(r *row) (t [safety.Heads]int8, weight float32, ok bool) {
	switch r.Source {
	case "bipia_train", "presidio_generated_large":
		return t, 0, false
	case "inthewild_jailbreak", "cyberseceval_pi":
		for h := range t {
			t[h] = unknown
		}
		t[safety.HeadInjection] = 1
		if r.Source == "cyberseceval_pi" {
			return t, 3, true
		}
		return t, 2, true
	}
	if r.Label == 0 && r.Source == "xstest" {
		return clean(), 4, true
	}
	if r.Label == 0 {
		return clean(), cleanWeight(r), true
	}
	t = harmful()
	switch r.Source {
	case "openai_moderation":
		moderationTarget(r, &t)
		return t, 1, true
	case "surge_toxicity":
		t[safety.HeadHarassment] = 1
		return t, 1, true
	case "harmbench_behaviors":
		t[safety.HeadHarm], t[safety.HeadIllicit] = unknown, 1
		return t, 1.5, !r.has("copyright")
	case "xstest":
		t[safety.HeadHarm], t[safety.HeadIllicit] = unknown, 1
		return t, 1.5, true
	}
	return t, 0, false
}

// cleanWeight is what a clean row counts: more where rows differ much from
// each other.
func cleanWeight(r *row) float32 {
	switch {
	case r.has("gsm8k") || r.has("mbpp"):
		return 0.6
	case r.Source == "benign_prompts":
		return 2
	}
	return 1
}

// moderationTarget sets the kinds of harm that the moderation set distinguishes.
func moderationTarget(r *row, t *[safety.Heads]int8) {
	kinds := map[safety.Head][]string{
		safety.HeadSexual: {"S", "S3"}, safety.HeadMinors: {"S3"}, safety.HeadHate: {"H", "H2"},
		safety.HeadHarassment: {"HR"},
		safety.HeadViolence:   {"V", "V2", "H2"}, safety.HeadSelfHarm: {"SH"},
	}
	for head, cats := range kinds {
		t[head] = 0
		for _, c := range cats {
			if r.has(c) {
				t[head] = 1
			}
		}
	}
	if t[safety.HeadHate] == 1 && t[safety.HeadHarassment] == 0 {
		t[safety.HeadHarassment] = unknown
	}
}

// examplesOf makes the examples of users' texts.
func examplesOf(rows []*row) []*example {
	var list []*example
	templates := map[string]bool{}
	for _, r := range rows {
		if form := strings.ToLower(r.template()); r.Source == "presidio_generated_large" && !templates[form] {
			templates[form] = true
			list = append(list, &example{
				row:    r,
				sample: safety.Extract(r.Text, ""),
				target: clean(),
				weight: 1,
				seed:   true,
			})
		}
		if t, weight, ok := targetOf(r); ok {
			list = append(list, &example{row: r, sample: safety.Extract(r.Text, r.System), target: t, weight: weight})
		}
	}
	return list
}

// spreadOut lets attacks that are nearly the same count less each, so that
// many copies of one do not drown what is rare: n of them count as the root of
// n ones.
func spreadOut(examples []*example) {
	type cluster struct {
		group  uint64
		source string
	}
	sizes := map[cluster]float64{}
	attack := func(e *example) bool { return !e.seed && !e.brought && e.target[safety.HeadInjection] == 1 }
	for _, e := range examples {
		if attack(e) {
			sizes[cluster{e.group, e.Source}]++
		}
	}
	for _, e := range examples {
		if attack(e) {
			e.weight *= float32(clusterWeight / math.Sqrt(sizes[cluster{e.group, e.Source}]))
		}
	}
}

// How much of a long attack a part of it has, in words, and what the part counts
// beside the whole.
const (
	partWords  = 70
	partWeight = 0.4
)

// partsOf repeats long jailbreaks as their beginning and their end alone: the
// worst passage of a text carries it otherwise, and what stands elsewhere is
// never learned. They are trained on where the whole is, and never scored.
func partsOf(examples []*example) (list []*example) {
	for _, e := range examples {
		words := strings.Fields(e.Text)
		if e.Source != "inthewild_jailbreak" || len(words) < 2*partWords {
			continue
		}
		for _, part := range [][]string{words[:partWords], words[len(words)-partWords:]} {
			again := *e
			again.sample = safety.Extract(strings.Join(part, " "), "")
			again.weight *= partWeight
			again.seed = true
			list = append(list, &again)
		}
	}
	return list
}

// clusterWeight makes up for what is lost on the whole.
const clusterWeight = 1.5

// underGuard repeats clean examples after system prompts that forbid
// something, so that being forbidden something does not indicate an attack. They
// are trained on and never scored.
func underGuard(examples []*example, systems []string) []*example {
	var list []*example
	for _, e := range examples {
		if e.Label == 0 && e.group%3 == 0 {
			again := *e
			again.sample = safety.Extract(e.Text, systems[int(e.group/3%uint64(len(systems)))])
			again.seed = true
			list = append(list, &again)
		}
	}
	return list
}

// orderTarget is the target of a text that a tool brings.
func orderTarget(order int8) (t [safety.Heads]int8) {
	for h := range t {
		t[h] = unknown
	}
	t[safety.HeadOrder] = order
	return t
}

// asked are the sets of benign prompts that give orders; in what a tool
// brings they are out of place.
var asked = []string{"ifeval", "self_instruct_user", "vicuna_bench", "mt_bench", "mbpp"}

// broughtOf makes the examples of what tools bring: attacks, orders, and
// plain text.
func broughtOf(rows []*row) []*example {
	var list []*example
	add := func(r *row, text string, order int8, weight float32) {
		list = append(list, &example{
			row:     r,
			sample:  safety.Extract(text, ""),
			target:  orderTarget(order),
			weight:  weight,
			brought: true,
		})
	}
	templates := map[string]bool{}
	for _, r := range rows {
		switch {
		case r.Source == "bipia_train" && r.Label == 1:
			add(r, r.Text, 1, 3)
		case r.Source == "bipia_train":
			add(r, r.Text, 0, 4)
			letter := *list[len(list)-1]
			letter.target, letter.brought, letter.seed = clean(), false, true
			list = append(list, &letter)
		case r.Source == "benign_prompts":
			for _, set := range asked {
				if r.has(set) {
					add(r, firstSentence(r.Text), 1, 0.5)
				}
			}
		case r.Source == "presidio_generated_large":
			if t := strings.ToLower(r.template()); !templates[t] {
				templates[t] = true
				add(r, r.Text, 0, 0.5)
			}
		case r.Label == 0 && (r.Source == "openai_moderation" || r.Source == "surge_toxicity"):
			add(r, r.Text, 0, 1)
		}
	}
	return list
}

func firstSentence(text string) string {
	if i := strings.IndexAny(text, ".?!\n:"); i > 20 {
		return text[:i+1]
	}
	return text
}
