package safety

import (
	"cmp"
	"slices"
)

// A phrase is a way to say something in few words that lie near each other.
// What it means is learned, as of every feature, but it counts the same in a
// short stretch of text and in a long one.
type phrase struct {
	// steps are the classes that follow each other, each within reach words.
	steps []classes
	reach int
}

var phrases = buildPhrases()

func buildPhrases() [13]phrase {
	c := theLexicon.named
	return [...]phrase{
		{[]classes{c("overrule"), c("before"), c("rules")}, 4},
		{[]classes{c("overrule"), c("rules")}, 4},
		{[]classes{c("overrule"), c("before")}, 2},
		{[]classes{c("reveal"), c("secret")}, 4},
		{[]classes{c("asker"), c("secret")}, 4},
		{[]classes{c("mode"), c("mode")}, 1},
		{[]classes{c("persona"), c("unbound")}, 6},
		{[]classes{c("you"), c("persona"), c("assistant")}, 5},
		{[]classes{c("unbound"), c("rules")}, 4},
		{[]classes{c("you"), c("unbound"), c("unbound")}, 4},
		{[]classes{c("authority"), c("secret")}, 8},
		{[]classes{c("foreign"), c("foreign")}, 4},
		{[]classes{c("rules"), c("assistant")}, 4},
	}
}

// An Utterance is a phrase where it is said: the number of its first word.
type Utterance struct {
	At     int32
	Phrase uint8
}

// said appends the phrases of p in the order of their words.
func (p *page) said(to []Utterance) []Utterance {
	for i := range p.words {
		if p.words[i].classes&phraseFirsts == 0 {
			continue
		}
		for k := range phrases {
			if f := &phrases[k]; p.words[i].classes&f.steps[0] != 0 && p.saidFrom(i, f) {
				to = append(to, Utterance{int32(i), uint8(k)})
			}
		}
	}
	return to
}

// phraseFirsts are the classes that phrases begin with.
var phraseFirsts = func() (all classes) {
	for k := range phrases {
		all |= phrases[k].steps[0]
	}
	return all
}()

// saidIn appends the buckets of the phrases that begin in a span: what is said
// elsewhere in a long text says nothing of it.
func saidIn(to []uint32, list []Utterance, span [2]int) []uint32 {
	from, _ := slices.BinarySearchFunc(list, span[0], func(s Utterance, at int) int {
		return cmp.Compare(int(s.At), at)
	})
	var counts [len(phrases)]uint8
	for _, s := range list[from:] {
		if int(s.At) >= span[1] {
			break
		}
		counts[s.Phrase] = min(counts[s.Phrase]+1, often+1)
	}
	for k, n := range counts {
		if n > 0 {
			to = append(to, bucket(featContext, 256+uint32(k)))
		}
		if n > often {
			to = append(to, bucket(featContext, 512+uint32(k)))
		}
	}
	return to
}

// often is how many times a phrase is said before it counts twice.
const often = 2

// A run of repeatsFew words that were said just before stands in tables, too; one of
// repeatsMany hardly anywhere but in attacks that drown a system prompt.
const (
	repeatsFew  = 8
	repeatsMany = 24
)

// oddities appends the buckets of words that are hidden and of words that repeat.
func (p *page) oddities(to []uint32) []uint32 {
	hiddenWords, run, longest := 0, 0, 0
	for i := range p.words {
		if p.words[i].mark&hidden != 0 {
			hiddenWords++
		}
		if i >= 3 && (p.words[i].hash == p.words[i-1].hash || p.words[i].hash == p.words[i-2].hash ||
			p.words[i].hash == p.words[i-3].hash) {
			run++
		} else {
			run = 0
		}
		longest = max(longest, run)
	}
	if hiddenWords > 2 {
		to = append(to, bucket(featContext, 64))
	}
	if longest >= repeatsFew {
		to = append(to, bucket(featContext, 65))
	}
	if longest >= repeatsMany {
		to = append(to, bucket(featContext, 66))
	}
	return to
}

func (p *page) saidFrom(i int, f *phrase) bool {
	for _, step := range f.steps[1:] {
		next := -1
		for j := i + 1; j <= min(i+f.reach, len(p.words)-1); j++ {
			if p.words[j].classes&step != 0 {
				next = j
				break
			}
		}
		if next < 0 {
			return false
		}
		i = next
	}
	return true
}
