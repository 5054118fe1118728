package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// A partition parts the rows that are trained on into folds: each is scored by
// a classifier that learned the others.
type partition func(*row) int

// byGroup keeps near duplicates together.
func byGroup(r *row) int { return r.fold() }

// byFamily keeps together what is of one kind, not only what is nearly the
// same: attacks of one technique, safe prompts of one trick, jailbreaks that
// share passages. What is learned of a family is worth nothing in its fold, so
// this measures the classifier on kinds of attacks that it has not met.
func byFamily(r *row) int { return int(xxhash.Sum64String(r.family()) / 7 % folds) }

// family names what a row is one of.
func (r *row) family() string {
	switch r.Source {
	case "cyberseceval_pi", "xstest", "bipia_train", agentsSource, familiesSource:
		if kind := r.kind(); kind != "" {
			return r.Source + " " + kind
		}
	}
	return fmt.Sprint("group ", r.relatives)
}

// kind is the last category of a row that is not one that half of its source has.
func (r *row) kind() string {
	for _, c := range slices.Backward(r.Cats) {
		if !slices.Contains(broadCats, c) {
			return strings.TrimPrefix(c, "contrast_")
		}
	}
	return ""
}

var broadCats = []string{"direct", "indirect", "security-violating", "logic-violating", "text_attack", "code_attack",
	"email_context"}

// crossValidate scores every row that is trained on with a classifier that
// learned nothing of its fold.
func crossValidate(examples []*example, parts partition) []scored {
	var scores [folds][]scored
	var all sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for f := range folds {
		all.Go(func() {
			turns <- struct{}{}
			scores[f] = scoreFold(examples, parts, f)
			<-turns
		})
	}
	all.Wait()
	return slices.Concat(scores[:]...)
}

func scoreFold(examples []*example, parts partition, f int) (list []scored) {
	l := train(examples, func(e *example) bool { return !e.held() && (e.Source == "seed" || parts(e.row) != f) }, plan)
	for _, e := range examples {
		if !e.held() && !e.seed && parts(e.row) == f {
			z, _ := l.score(e)
			list = append(list, scored{e, z, f})
		}
	}
	return list
}

// A trial is what became of cross-validation: all folds together, and each.
type trial struct {
	all   measured
	folds [folds]measured
}

// tried measures each fold under the thresholds that the others chose, so that
// no text has a say in the threshold that it is held to.
func tried(set []scored) trial {
	t := trial{all: measured{}}
	for f := range folds {
		inside := func(s scored) bool { return s.fold == f }
		chosen := choose(slices.DeleteFunc(slices.Clone(set), inside))
		t.folds[f] = measure(slices.DeleteFunc(slices.Clone(set), func(s scored) bool { return !inside(s) }), &chosen)
		t.all.addAll(t.folds[f])
	}
	return t
}

func (m measured) addAll(other measured) {
	for set, c := range other {
		m[set] = [2]int{m[set][0] + c[0], m[set][1] + c[1]}
	}
}

// foldMin is how many texts of a set a fold has at least if it is to be told of.
const foldMin = 5

// worst returns the rate of the fold in which a set does worst.
func (t *trial) worst(b bar) (rate float64, ok bool) {
	for _, m := range t.folds {
		if m[b.set][1] < foldMin {
			continue
		}
		if r := m.rate(b.set); !ok || b.recall == (r < rate) {
			rate, ok = r, true
		}
	}
	return rate, ok
}
