package main

import (
	"math/rand/v2"
	"slices"

	"github.com/cespare/xxhash/v2"

	"parley/gateway/safety"
)

// kindOf are our names for the types of the spans in the data.
var kindOf = map[string]string{
	"PERSON": safety.KindPerson, "ADDRESS": safety.KindAddress, "LOCATION": safety.KindPlace,
	"ORGANIZATION": safety.KindCompany,
	"CREDIT_CARD":  safety.KindCard, "PHONE_NUMBER": safety.KindPhone, "DATE_TIME": safety.KindDate,
	"EMAIL_ADDRESS": safety.KindEmail,
	"US_SSN":        safety.KindSSN, "IBAN_CODE": safety.KindIBAN, "DOMAIN_NAME": safety.KindURL,
	"TITLE": safety.KindTitle, "PREFIX": safety.KindPrefix,
	"US_DRIVER_LICENSE": safety.KindLicense, "IP_ADDRESS": safety.KindIP,
}

// A tagged text is a row with the tags that its spans give its tokens.
type tagged struct {
	*row
	sample *safety.TagSample
	gold   []uint8
}

func taggedOf(rows []*row) []*tagged {
	var list []*tagged
	for _, r := range rows {
		if r.Source != "presidio_generated_large" {
			continue
		}
		list = append(list, newTagged(r))
	}
	return list
}

func newTagged(r *row) *tagged {
	t := &tagged{row: r, sample: safety.ExtractTags(r.Text)}
	t.gold = goldTags(r, t.sample)
	return t
}

// byteSpans returns the spans of a row in bytes, in order.
func (r *row) byteSpans() []safety.Finding {
	offsets := []int{}
	for i := range r.Text {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(r.Text))
	var list []safety.Finding
	for _, s := range r.Spans {
		if s.End < len(offsets) && s.Start < s.End {
			list = append(list, safety.Finding{Kind: kindOf[s.Type], Start: offsets[s.Start], End: offsets[s.End]})
		}
	}
	slices.SortFunc(list, func(a, b safety.Finding) int { return a.Start - b.Start })
	return safety.JoinNeighbours(r.Text, list)
}

func goldTags(r *row, s *safety.TagSample) []uint8 {
	gold := make([]uint8, len(s.Starts))
	for _, f := range r.byteSpans() {
		k := slices.Index(safety.TagKinds(), f.Kind)
		begun := false
		for i := range gold {
			if k < 0 || s.Ruled[i] || s.Starts[i] < f.Start || s.Ends[i] > f.End {
				continue
			}
			gold[i] = uint8(1 + 2*k)
			if begun {
				gold[i]++
			}
			begun = true
		}
	}
	return gold
}

// A tagLearner is the tagger while it learns: a perceptron whose weights are
// averaged over all steps.
type tagLearner struct {
	weights, total [][safety.Tags]float32
	follow, ftotal [safety.Tags][safety.Tags]float32
	step           float32
}

// tagEpochs is how often the tagger sees a text, tagScale how fine its weights
// are while it learns.
const (
	tagEpochs = 12
	tagScale  = 64
)

func trainTags(list []*tagged, include func(*row) bool) *tagLearner {
	l := &tagLearner{weights: make([][safety.Tags]float32, 1<<safety.TagBits),
		total: make([][safety.Tags]float32, 1<<safety.TagBits)}
	var chosen []*tagged
	for _, t := range list {
		if include(t.row) && len(t.gold) > 0 {
			chosen = append(chosen, t)
		}
	}
	random := rand.New(rand.NewPCG(3, 5))
	chosen = append(chosen, invented(chosen, random)...)
	for range tagEpochs {
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		for _, t := range chosen {
			l.learn(t)
		}
	}
	l.average()
	return l
}

func (l *tagLearner) tags(s *safety.TagSample) []uint8 {
	scores := make([][safety.Tags]int32, len(s.Features))
	for i, features := range s.Features {
		for _, f := range features {
			for t, w := range l.weights[f] {
				scores[i][t] += int32(w * tagScale)
			}
		}
	}
	var follow [safety.Tags][safety.Tags]int32
	for a := range follow {
		for b := range follow {
			follow[a][b] = int32(l.follow[a][b] * tagScale)
		}
	}
	return safety.DecodeTags(scores, &follow)
}

func (l *tagLearner) learn(t *tagged) {
	l.step++
	said := l.tags(t.sample)
	for i, features := range t.sample.Features {
		if said[i] != t.gold[i] {
			for _, f := range features {
				l.add(f, t.gold[i], 1)
				l.add(f, said[i], -1)
			}
		}
		if i > 0 && (said[i] != t.gold[i] || said[i-1] != t.gold[i-1]) {
			l.addFollow(t.gold[i-1], t.gold[i], 1)
			l.addFollow(said[i-1], said[i], -1)
		}
	}
}

func (l *tagLearner) add(f uint32, t uint8, by float32) {
	l.weights[f][t] += by
	l.total[f][t] += by * l.step
}

func (l *tagLearner) addFollow(a, b uint8, by float32) {
	l.follow[a][b] += by
	l.ftotal[a][b] += by * l.step
}

// average replaces every weight by its mean over all steps.
func (l *tagLearner) average() {
	for f := range l.weights {
		for t := range l.weights[f] {
			l.weights[f][t] -= l.total[f][t] / l.step
		}
	}
	for a := range l.follow {
		for b := range l.follow[a] {
			l.follow[a][b] -= l.ftotal[a][b] / l.step
		}
	}
}

// findings joins what tags say with what rules find.
func (l *tagLearner) findings(t *tagged) []safety.Finding {
	return safety.JoinTags(t.Text, l.tags(t.sample))
}

// A spanScore counts spans that were found rightly.
type spanScore struct{ right, said, gold, near int }

func (s *spanScore) count(found, gold []safety.Finding) {
	s.said += len(found)
	s.gold += len(gold)
	for _, g := range gold {
		for _, f := range found {
			if f.Kind != g.Kind {
				continue
			}
			if f.Start == g.Start && f.End == g.End {
				s.right++
			}
			overlap := min(f.End, g.End) - max(f.Start, g.Start)
			if 2*overlap > max(f.End, g.End)-min(f.Start, g.Start) {
				s.near++
				break
			}
		}
	}
}

// f1 is the mean of precision and recall for n spans found rightly.
func (s *spanScore) f1(n int) float64 { return 2 * float64(n) / float64(max(s.said+s.gold, 1)) }

// heldText reports whether a text is never trained on by the tagger: a fifth
// of all texts. The same sentence with another name in it may be trained on,
// since names are what is to be found.
func (r *row) heldText() bool { return xxhash.Sum64String(normal(r.Text))%5 == 0 }

// scoreSpans measures how well spans are found: in texts that were not trained on
// by the tagger in the binary; in kinds of sentences that were not trained on,
// by one that is trained for it; and by rules alone.
func scoreSpans(rows []*row) (known, unknown, rules spanScore) {
	list := taggedOf(rows)
	screen := safety.New()
	l := trainTags(list, func(r *row) bool { return !r.held() })
	for _, t := range list {
		if t.heldText() {
			known.count(personal(screen.Names(t.Text)), t.byteSpans())
			rules.count(personal(safety.Forms(t.Text)), t.byteSpans())
		}
		if t.held() {
			unknown.count(personal(l.findings(t)), t.byteSpans())
		}
	}
	return known, unknown, rules
}

func personal(found []safety.Finding) []safety.Finding {
	return slices.DeleteFunc(found, func(f safety.Finding) bool { return f.Category != safety.PII })
}
