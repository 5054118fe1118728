package main

import (
	"fmt"
	"iter"
	"slices"

	"parley/gateway/safety"
)

// A scored example has the scores of a classifier that did not learn it.
type scored struct {
	*example
	z [safety.Heads]float32
}

// thresholds are the scores from which on a text is flagged.
type thresholds [safety.Heads]float32

// judging are the heads that decide whether a user's text is flagged.
var judging = []safety.Head{safety.HeadHarm, safety.HeadInjection, safety.HeadIllicit}

func (t *thresholds) flags(s *scored) bool {
	if s.brought {
		return s.z[safety.HeadOrder] > t[safety.HeadOrder]
	}
	for _, h := range judging {
		if s.z[h] > t[h] {
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
func plain(s *scored) bool { return s.brought && s.target[safety.HeadOrder] == 0 }

// The false alarms that thresholds are chosen for: somewhat fewer than are
// allowed, since they are chosen on other texts than they are used on.
const (
	pooledShare    = 0.018
	lookalikeShare = 0.13
	plainShare     = 0.018
)

// marginEnough is how far above its bar a recall need be: beyond it fewer
// false alarms on clean comments are worth more.
const marginEnough = 0.02

// scoreMin is the least threshold: below it a text would be flagged in which
// nothing speaks for it.
const scoreMin = -1.0

// choose returns the thresholds under which the recall that is nearest to its
// bar is farthest from it, up to marginEnough, and of those the ones that flag
// fewest clean comments.
func choose(set []scored) thresholds {
	var best thresholds
	worst, alarms := -10.0, 10.0
	for t := range candidates(set) {
		m := measure(set, &t)
		if m.rate(lookalikeSet) > lookalikeShare+.01 || m.rate(pooledSet) > pooledShare+.001 {
			continue
		}
		if t[safety.HeadHarm] < scoreMin || t[safety.HeadInjection] < scoreMin {
			continue
		}
		margin := min(m.margin(), marginEnough)
		flagged := m.rate("OpenAI moderation, clean") + m.rate("Surge toxicity, clean")
		if margin > worst || margin == worst && flagged < alarms {
			best, worst, alarms = t, margin, flagged
		}
	}
	best[safety.HeadOrder] = above(set, plain, safety.HeadOrder, plainShare)
	return best
}

// candidates share the false alarms that are allowed among the heads.
func candidates(set []scored) iter.Seq[thresholds] {
	return func(yield func(thresholds) bool) {
		for _, harm := range []float64{.05, .1, .15, .2, .25, .3, .35, .45, .6} {
			for _, safeHarm := range []float64{0, .03, .05, .07, .09, .11} {
				for _, safeInjection := range []float64{0, .03, .05, .07, .09, .11} {
					var t thresholds
					t[safety.HeadHarm] = max(above(set, pooled, safety.HeadHarm, pooledShare*harm), above(set, lookalike, safety.HeadHarm, safeHarm))
					t[safety.HeadInjection] = max(above(set, pooled, safety.HeadInjection, pooledShare*(1-harm)), above(set, lookalike, safety.HeadInjection, safeInjection))
					t[safety.HeadIllicit] = max(above(set, pooled, safety.HeadIllicit, .0012), above(set, lookalike, safety.HeadIllicit, max(0, lookalikeShare-safeHarm-safeInjection)))
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

// margin is how far the recall is from its bar that is nearest to it.
func (m measured) margin() float64 {
	margin := 10.0
	for _, b := range bars {
		if b.recall && b.set != "BIPIA in tool results" && m[b.set][1] > 0 {
			margin = min(margin, m.rate(b.set)-b.bar)
		}
	}
	return margin
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
	case plain(s):
		return []string{plainSet}
	case s.brought && s.Source == "bipia_train":
		return []string{"BIPIA in tool results"}
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
	return []string{name}
}

var setNames = map[string]string{
	"openai_moderation": "OpenAI moderation", "inthewild_jailbreak": "in-the-wild jailbreaks", "cyberseceval_pi": "CyberSecEval injections",
	"surge_toxicity": "Surge toxicity", "harmbench_behaviors": "HarmBench behaviors", "xstest": "XSTest unsafe",
}

func (t thresholds) String() string {
	return fmt.Sprintf("harm %.2f, injection %.2f, illicit %.2f, order %.2f", t[safety.HeadHarm], t[safety.HeadInjection], t[safety.HeadIllicit], t[safety.HeadOrder])
}
