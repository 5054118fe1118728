package safety

// A phrase is a way to say something in few words that lie near each other.
// What it means is learned, as of every feature, but it counts the same in a
// short text and in a long one.
type phrase struct {
	// steps are the classes that follow each other, each within reach words.
	steps []classes
	reach int
}

var phrases = buildPhrases()

func buildPhrases() []phrase {
	c := theLexicon.named
	return []phrase{
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

// phrases appends the buckets of the phrases in p, of words that are hidden
// and of words that repeat.
func (p *page) phrases(to []uint32) []uint32 {
	for k := range phrases {
		if n := p.count(&phrases[k]); n > 0 {
			to = append(to, bucket(featContext, 256+uint32(k)))
			if n > 2 {
				to = append(to, bucket(featContext, 512+uint32(k)))
			}
		}
	}
	hiddenWords, run := 0, 0
	repeats := false
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
		repeats = repeats || run >= 8
	}
	if hiddenWords > 2 {
		to = append(to, bucket(featContext, 64))
	}
	if repeats {
		to = append(to, bucket(featContext, 65))
	}
	return to
}

// countMax is where counting ends: more says nothing more.
const countMax = 4

// count returns how often a phrase is said.
func (p *page) count(f *phrase) (n int) {
	for i := range p.words {
		if p.words[i].classes&f.steps[0] != 0 && p.saidFrom(i, f) {
			if n++; n == countMax {
				break
			}
		}
	}
	return n
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
