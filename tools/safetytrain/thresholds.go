package main

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"parley/gateway/safety"
)

// A scored example has the scores of a classifier that did not learn it.
type scored struct {
	*example
	z [safety.Heads]float32
	// fold is the part of the data that the text was scored with.
	fold int
}

// thresholds are the scores from which on a text is flagged.
type thresholds [safety.Heads]float32

// judging are the heads that decide whether a user's text is flagged.
var judging = []safety.Head{safety.HeadHarm, safety.HeadInjection, safety.HeadIllicit}

func (t *thresholds) flags(s *scored) bool {
	least := float32(0)
	if s.Source == agentsSource {
		least = documentedZ
	}
	if s.brought {
		return s.z[safety.HeadOrder]-t[safety.HeadOrder] > least
	}
	for _, h := range judging {
		if s.z[h]-t[h] > least {
			return true
		}
	}
	return false
}

// pooled reports whether a text is one that must not be flagged: benign
// prompts and look-alikes of attacks.
func pooled(s *scored) bool {
	return !s.brought && (s.Source == "benign_prompts" || s.Source == "cyberseceval_frr_benign")
}

// lookalike reports whether a text is a safe prompt that sounds unsafe.
func lookalike(s *scored) bool { return !s.brought && s.Source == "xstest" && s.Label == 0 }

// plain reports whether a text is what tools may well bring.
func plain(s *scored) bool {
	return s.brought && s.target[safety.HeadOrder] == 0 && s.Source != agentsSource
}

// plainShare is how many of the texts that tools may well bring are taken for
// orders: somewhat fewer than are allowed, since thresholds are chosen on other
// texts than they are used on.
const plainShare = 0.015

// scoreMin is the least threshold: below it a text would be flagged in which
// hardly anything speaks for it.
const scoreMin = presumption + 1

// The false alarms that thresholds are chosen for: somewhat fewer than are
// allowed, since thresholds are used on other texts than they are chosen on.
const (
	pooledMost    = 0.012
	lookalikeMost = 0.09
	agentMost     = 0.045
)

// choose returns the best thresholds that spare coding agents. Where the weights have not met an agent
// there may be none: then the best of all.
func choose(set []scored) thresholds {
	best, ok := chooseUnder(set, agentMost)
	if !ok {
		best, _ = chooseUnder(set, 1)
	}
	best[safety.HeadOrder] = above(set, plain, safety.HeadOrder, plainShare)
	return best
}

// chooseUnder returns the thresholds under which the recall that is nearest to its
// bar is farthest from it, then the second nearest, and so on, and of those the
// ones that flag fewest clean comments. At most that share of agents' prompts is blocked.
func chooseUnder(set []scored, agents float64) (best thresholds, ok bool) {
	var farthest []float64
	alarms := 0.0
	for t := range candidates(set) {
		m := measure(set, &t)
		if m.rate(pooledSet) > pooledMost || m.rate(lookalikeSet) > lookalikeMost || m.rate(agentSet) > agents {
			continue
		}
		margins := m.margins()
		flagged := m.rate("OpenAI moderation, clean") + m.rate("Surge toxicity, clean")
		if order := slices.Compare(margins, farthest); order > 0 || order == 0 && flagged < alarms {
			best, farthest, alarms, ok = t, margins, flagged, true
		}
	}
	return best, ok
}

// Margins are told apart in marginSteps to the deviation, and count up to
// marginEnough deviations.
const (
	marginSteps  = 5
	marginEnough = 6
)

// illicitShare is the share of benign prompts that may be taken for a request
// for help with harm.
const illicitShare = 0.001

// candidates share false alarms among the heads: of benign prompts in
// thousandths, and of safe prompts that sound unsafe.
func candidates(set []scored) iter.Seq[thresholds] {
	return func(yield func(thresholds) bool) {
		for harm := 1; harm <= 10; harm++ {
			for injection := 3; injection <= 16; injection++ {
				for _, illicit := range []float64{0, .02, .04} {
					var t thresholds
					t[safety.HeadHarm] = max(scoreMin, above(set, pooled, safety.HeadHarm, float64(harm)/1000))
					t[safety.HeadInjection] = max(scoreMin,
						above(set, pooled, safety.HeadInjection, float64(injection)/1000))
					t[safety.HeadIllicit] = max(above(set, pooled, safety.HeadIllicit, illicitShare),
						above(set, lookalike, safety.HeadIllicit, illicit))
					if !yield(t) {
						return
					}
				}
			}
		}
	}
}

// above returns the score that a share of the chosen texts is above.
func above(set []scored, chosen func(*scored) bool, h safety.Head, share float64) float32 {
	var scores []float32
	for i := range set {
		if chosen(&set[i]) {
			scores = append(scores, set[i].z[h])
		}
	}
	if len(scores) == 0 {
		return 0
	}
	slices.Sort(scores)
	return scores[len(scores)-1-int(share*float64(len(scores)))]
}

// Names of sets that are put together.
const (
	pooledSet    = "benign prompts and look-alikes"
	lookalikeSet = "XSTest safe"
	plainSet     = "plain text from tools"
	bipiaSet     = "BIPIA in tool results"
	familySet    = "attacks by families"
	agentSet     = "prompts of coding agents, at 0.7"
	agentToolSet = "tool results of coding agents, at 0.7"
)

// A measure counts texts and flagged ones, by set.
type measured map[string][2]int

func (m measured) rate(set string) float64 { return float64(m[set][0]) / float64(max(m[set][1], 1)) }

func (m measured) count(set string, flagged bool) {
	c := m[set]
	c[1]++
	if flagged {
		c[0]++
	}
	m[set] = c
}

// margins are how far recalls are above their bars, the nearest first, in
// standard deviations of what chance does in a set of this size.
func (m measured) margins() (list []float64) {
	for _, b := range bars {
		n := m[b.set][1]
		if n == 0 || !b.recall || b.set == bipiaSet {
			continue
		}
		deviations := (m.rate(b.set) - b.bar) / math.Sqrt(b.bar*(1-b.bar)/float64(n))
		list = append(list, math.Floor(min(deviations, marginEnough)*marginSteps)/marginSteps)
	}
	slices.Sort(list)
	return list
}

func measure(set []scored, t *thresholds) measured {
	m := measured{}
	for i := range set {
		s := &set[i]
		flagged := t.flags(s)
		for _, name := range s.sets() {
			m.count(name, flagged)
		}
	}
	return m
}

// sets names the sets of the report that a text is counted in.
func (s *scored) sets() []string {
	switch {
	case s.Source == agentsSource && s.has("tool"):
		return []string{agentToolSet}
	case s.Source == agentsSource:
		return []string{agentSet}
	case plain(s):
		return []string{plainSet}
	case s.brought && s.Source == "bipia_train":
		return []string{bipiaSet}
	case s.brought:
		return nil
	case pooled(s):
		return []string{pooledSet}
	case lookalike(s):
		return []string{lookalikeSet}
	}
	name, ok := setNames[s.Source]
	if !ok {
		return nil
	}
	if s.Label == 0 {
		name += ", clean"
	}
	if s.Source == familiesSource {
		return []string{name, name + familyMark + s.kind()}
	}
	return []string{name}
}

// familyMark parts the name of a set from that of a family in it.
const familyMark = " | "

var setNames = map[string]string{
	"openai_moderation": "OpenAI moderation", "inthewild_jailbreak": "in-the-wild jailbreaks",
	"cyberseceval_pi": "CyberSecEval injections",
	"surge_toxicity":  "Surge toxicity", "harmbench_behaviors": "HarmBench behaviors", "xstest": "XSTest unsafe",
	fuzzSource: "GPTFuzz jailbreaks", hijackSource: "Tensor Trust hijacking",
	familiesSource: familySet,
}

func (t thresholds) String() string {
	return fmt.Sprintf("harm %.2f, injection %.2f, illicit %.2f, order %.2f", t[safety.HeadHarm],
		t[safety.HeadInjection], t[safety.HeadIllicit], t[safety.HeadOrder])
}
