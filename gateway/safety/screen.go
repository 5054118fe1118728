package safety

import (
	"math"
	"sync"
)

// guardOf returns what the system prompt forbids users to ask for. What a tool brings
// may well be about it: a tool result asks for nothing, or is an order whatever it
// is about.
func guardOf(t *Text) *guard {
	if t.Origin == FromTool {
		return nil
	}
	return newGuard(t.System)
}

// A Screen judges texts. It may be used by many goroutines at once.
type Screen struct {
	model  *Model
	tagger *Tagger
	pages  sync.Pool
}

// New returns the screen whose weights are part of the binary.
func New() *Screen {
	model, tagger := trained()
	return NewScreen(model, tagger)
}

// NewScreen returns a screen of its own weights.
func NewScreen(m *Model, g *Tagger) *Screen {
	return &Screen{model: m, tagger: g, pages: sync.Pool{New: func() any { return &workspace{} }}}
}

// A workspace is what judging a text needs and the next text can use again.
type workspace struct {
	page
	buckets []uint32
	// sums[i] is what the first i words add up to.
	sums   []sum
	said   []Utterance
	begins []int
	spans  [][2]int
	// known are the sums of words that were met before: most words of a text
	// are among the few that every text has.
	known [knownWords]knownWord
}

// A knownWord is a short word and what its letters add up to.
type knownWord struct {
	letters [20]byte
	n       uint32
	sum     sum
}

// knownWords is how many words a workspace remembers.
const knownWords = 2048

// own adds what the letters of word i say to s.
func (w *workspace) own(m *Model, s *sum, i int) {
	letters := w.text(i)
	k := &w.known[w.words[i].hash%knownWords]
	if len(letters) > len(k.letters) {
		w.buckets = w.page.own(w.buckets[:0], i)
		m.add(s, w.buckets)
		return
	}
	if int(k.n) != len(letters) || string(k.letters[:k.n]) != string(letters) {
		k.n = uint32(copy(k.letters[:], letters))
		k.sum = sum{}
		w.buckets = w.page.own(w.buckets[:0], i)
		m.add(&k.sum, w.buckets)
	}
	for h := range s {
		s[h] += k.sum[h]
	}
}

// Judge screens a text.
func (s *Screen) Judge(t Text) Verdict {
	var v Verdict
	spans := s.spans
	if t.Names && len(t.Body) > asideMin {
		spans = s.aside(t)
	}
	w := s.pages.Get().(*workspace)
	defer s.pages.Put(w)
	w.readAll(t.Body)
	s.weigh(w, t, &v)
	v.Findings = spans(v.Findings, t)
	for _, f := range v.Findings {
		v.Scores[f.Category] = max(v.Scores[f.Category], f.Score)
	}
	return v
}

// asideMin is the length in bytes from which on names are looked for while the
// classifier judges: a long text waits for the slower of the two.
const asideMin = 4 << 10

// aside begins to find spans and returns what waits for them. What panics does
// so where it is waited for.
func (s *Screen) aside(t Text) func([]Finding, Text) []Finding {
	var found []Finding
	var failure any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { failure = recover() }()
		found = s.spans(nil, t)
	}()
	return func(to []Finding, _ Text) []Finding {
		<-done
		if failure != nil {
			panic(failure)
		}
		return append(to, found...)
	}
}

// spans finds secrets and personal data only.
func (s *Screen) spans(to []Finding, t Text) []Finding {
	begin := len(to)
	to = forms(to, t.Body)
	if t.Names {
		to = s.tagger.find(to, begin, t.Body)
	}
	return to
}

// weigh has the classifier judge the words of w.
func (s *Screen) weigh(w *workspace, t Text, v *Verdict) {
	n := len(w.words)
	if n == 0 {
		return
	}
	w.sums, w.begins = append(w.sums[:0], sum{}), w.begins[:0]
	total := sum{}
	for i := range n {
		w.own(s.model, &total, i)
		w.buckets = w.meeting(w.buckets[:0], i, 0)
		s.model.add(&total, w.buckets)
		w.sums = append(w.sums, total)
		if i == 0 || w.words[i].mark&first != 0 {
			w.begins = append(w.begins, i)
		}
	}
	var context sum
	w.buckets = w.oddities(guardOf(&t).context(w.buckets[:0], &w.page))
	s.model.add(&context, w.buckets)
	w.said = w.page.said(w.said[:0])
	crowd := Crowd(n, t.Origin)

	w.spans = appendSpans(w.spans[:0], n)
	z, at := s.worst(w, w.spans, &context)
	if t.Origin == FromModel {
		s.closely(w, &z, &at)
	}
	v.addHarm(w, &z, &at)
	v.add(w, Illicit, "", probability(z[HeadIllicit]), at[HeadIllicit])
	if t.Origin == FromModel {
		return
	}
	v.add(w, Injection, "direct", probability(z[HeadInjection]-crowd), at[HeadInjection])
	w.spans = appendSentenceSpans(w.spans[:0], w.begins, n)
	if t.Origin == FromTool {
		z, at := s.worst(w, w.spans, &context)
		v.add(w, Injection, "order", probability(z[HeadOrder]-crowd), at[HeadOrder])
	}
	if inner, at := s.worst(w, innerOf(w.spans, n), &context); inner[HeadInjection] > z[HeadInjection] {
		v.add(w, Injection, "embedded", probability(inner[HeadInjection]-crowd), at[HeadInjection])
	}
}

// The worst of many stretches of a text looks bad by chance alone. From crowdUser or
// crowdTool words on, an attempt to take a model over must be the clearer the longer the text
// is: a file that an agent reads has hundreds of sentences, a prompt has few.
const (
	crowdUser, crowdTool           = 512, 128
	crowdUserSlope, crowdToolSlope = 0.4, 0.8
)

// Crowd is what a text of n words from an origin must have above the score of a
// short one.
func Crowd(n int, o Origin) float32 {
	from, slope := crowdUser, crowdUserSlope
	if o == FromTool {
		from, slope = crowdTool, crowdToolSlope
	}
	return float32(slope * math.Log(max(1, float64(n)/float64(from))))
}

// A few words that are much worse than their surroundings count for themselves
// in an answer, where what surrounds them was not planned. They must be so
// by closeMargin, since few words are judged less surely than many.
const (
	closeWords  = 16
	closeStride = 6
	closeMargin = 1
)

// closely raises z where a few words are worse than all.
func (s *Screen) closely(w *workspace, z *[Heads]float32, at *[Heads][2]int) {
	n := len(w.words)
	var none sum
	for from := 0; from < n && n > closeWords; from += closeStride {
		few, where := s.worst(w, [][2]int{{from, min(from+closeWords, n)}}, &none)
		for h := range z {
			if few[h]-closeMargin > z[h] {
				z[h], at[h] = few[h]-closeMargin, where[h]
			}
		}
	}
}

// worst returns the highest score of every head and the span that has it.
func (s *Screen) worst(w *workspace, spans [][2]int, context *sum) (z [Heads]float32, at [Heads][2]int) {
	for h := range z {
		z[h] = float32(math.Inf(-1))
	}
	for _, span := range spans {
		part := w.sums[span[1]]
		for h, before := range w.sums[span[0]] {
			part[h] -= before
		}
		around := *context
		if len(w.said) > 0 {
			w.buckets = saidIn(w.buckets[:0], w.said, span)
			s.model.add(&around, w.buckets)
		}
		for h, value := range s.model.logits(&part, &around, span[1]-span[0]) {
			if value > z[h] {
				z[h], at[h] = value, span
			}
		}
	}
	return z, at
}

func probability(z float32) float32 { return float32(1 / (1 + math.Exp(-float64(z)))) }

// findMin is the score from which on a finding is worth telling.
const findMin = 0.1

// findingsUsual is how many findings there is room for at first.
const findingsUsual = 8

// add notes a score and, if it is worth telling, where it comes from.
func (v *Verdict) add(w *workspace, c Category, kind string, score float32, span [2]int) {
	v.Scores[c] = max(v.Scores[c], score)
	if score < findMin || span[1] == span[0] {
		return
	}
	if v.Findings == nil {
		v.Findings = make([]Finding, 0, findingsUsual)
	}
	v.Findings = append(v.Findings, Finding{
		Category: c,
		Kind:     kind,
		Score:    score,
		Start:    int(w.words[span[0]].start),
		End:      w.lastByte(span),
	})
}

// lastByte is where a span of words ends: hidden words stand behind those
// that they are hidden in.
func (w *workspace) lastByte(span [2]int) int {
	end := int32(0)
	for i := span[0]; i < span[1]; i++ {
		end = max(end, w.words[i].end)
	}
	return int(end)
}

// kindHeads are the heads that tell kinds of harm apart.
var kindHeads = [harms - 1]Head{HeadHarassment, HeadHate, HeadSexual, HeadMinors, HeadViolence, HeadSelfHarm}

// addHarm shares the score of harm among its kinds: the likeliest kind has all
// of it, so that whatever is harmful is some kind of harm.
func (v *Verdict) addHarm(w *workspace, z *[Heads]float32, at *[Heads][2]int) {
	harm := probability(z[HeadHarm])
	likeliest := float32(0)
	for _, h := range kindHeads {
		likeliest = max(likeliest, probability(z[h]))
	}
	for c, h := range kindHeads {
		v.add(w, Category(c), "", harm*probability(z[h])/max(likeliest, 1e-6), at[HeadHarm])
	}
}
