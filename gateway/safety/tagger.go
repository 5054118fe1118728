package safety

import (
	"math"
	"slices"
	"strings"
	"sync"
)

// TagBits is how many bits of a feature's hash the tagger keeps.
const TagBits = 16

// tagKinds are what the tagger finds; the rules find the rest.
var tagKinds = []string{KindPerson, KindPlace, KindAddress, KindCompany, KindDate, KindTitle, KindPhone, KindLicense}

// Tags is how many tags there are: outside, and for each kind its first token
// and those that follow.
const Tags = 1 + 2*8

// A tag of a token: 0 is outside, 1+2k begins kind k, 2+2k continues it.
type tag = uint8

// A Tagger finds the spans of personal data that only their context reveals:
// the weights of every feature for every tag, and of every tag after another.
type Tagger struct {
	weights [][Tags]int8
	// packed are the weights as they are added up.
	packed []tagLanes
	follow [Tags][Tags]int32
	near   *rivals
	spaces sync.Pool
}

// tagLanes are the weights of a feature, eight tags to a word: few bytes, since
// fetching them is what takes the time. Each has tagZero added and so is never
// negative. They are added up as two words, of every other tag each.
type tagLanes [(Tags + 7) / 8]uint64

const (
	tagZero = 128
	evenTag = 0x00FF00FF00FF00FF
)

// pack prepares the weights for being added up.
func (g *Tagger) pack() {
	g.packed = make([]tagLanes, len(g.weights))
	g.near = rivalsOf(&g.follow)
	g.spaces.New = func() any { return &tagSpace{} }
	for b := range g.weights {
		for t, w := range g.weights[b] {
			g.packed[b][t/8] |= uint64(int(w)+tagZero) << (t % 8 * 8)
		}
	}
}

// score adds up the weights of a token's features, of which there are few.
func (g *Tagger) score(s *[Tags]int32, features []uint32) {
	var even, odd tagLanes
	for _, f := range features {
		w := &g.packed[f]
		even[0] += w[0] & evenTag
		odd[0] += w[0] >> 8 & evenTag
		even[1] += w[1] & evenTag
		odd[1] += w[1] >> 8 & evenTag
		even[2] += w[2] & evenTag
	}
	zero := int32(len(features) * tagZero)
	for t := range s {
		lanes := &even
		if t%2 == 1 {
			lanes = &odd
		}
		s[t] = int32(lanes[t/8]>>(t%8/2*laneBits)&(1<<laneBits-1)) - zero
	}
}

func tagBucket(kind, h uint32) uint32 { return bucket(kind+64, h) >> (BucketBits - TagBits) }

// tagFeatures appends the buckets of token i among its neighbours.
func tagFeatures(to []uint32, tokens []token, i int) []uint32 {
	var none token
	at := func(k int) *token {
		if k < 0 || k >= len(tokens) {
			return &none
		}
		return &tokens[k]
	}
	a, b, t, c, d := at(i-2), at(i-1), at(i), at(i+1), at(i+2)
	add := func(kind, h uint32) { to = append(to, tagBucket(kind, h)) }
	add(1, t.hash)
	add(2, b.hash)
	add(3, c.hash)
	add(4, a.hash)
	add(5, d.hash)
	add(6, b.hash*31+t.hash)
	add(7, t.hash*31+c.hash)
	add(8, t.shape)
	add(9, b.shape*31+t.shape)
	add(10, t.shape*31+c.shape)
	add(11, (b.shape*31+t.shape)*31+c.shape)
	add(12, t.prefix)
	add(13, t.suffix)
	add(14, b.hash*31+t.shape)
	add(15, t.shape*31+c.hash)
	add(16, a.hash*31+b.hash)
	add(17, t.known*31+t.shape)
	add(18, b.known*31+t.shape)
	add(19, t.shape*31+c.known)
	add(20, (b.known*31+t.known)*31+c.known)
	add(21, (a.hash*31+b.hash)*31+t.shape)
	add(22, (a.shape*31+b.shape)*31+t.shape)
	add(23, (t.shape*31+c.shape)*31+d.shape)
	add(24, t.rule*31+b.rule)
	return to
}

// A tagSpace is what finding spans in a text needs and the next text can use again.
type tagSpace struct {
	tokens []token
	scores [][Tags]int32
	// from[i][t] is the best tag before token i if that has tag t.
	from [][Tags]tag
	tags []tag
	// telling tokens are near one that may be part of a name.
	telling []bool
}

// DecodeTags returns the best sequence of tags for scores and for what may follow.
func DecodeTags(scores [][Tags]int32, follow *[Tags][Tags]int32) []tag {
	return (&tagSpace{scores: scores}).decode(follow, rivalsOf(follow))
}

// rivals[a][b] is how far tag b may be behind tag a and still be the better one
// before some tag.
type rivals [Tags][Tags]int32

func rivalsOf(follow *[Tags][Tags]int32) *rivals {
	var r rivals
	for a := range follow {
		for b := range follow {
			r[a][b] = follow[b][0] - follow[a][0]
			for t := 1; t < Tags; t += 2 {
				r[a][b] = max(r[a][b], follow[b][t]-follow[a][t])
			}
		}
	}
	return &r
}

// decode returns the best sequence of tags for the scores.
func (s *tagSpace) decode(follow *[Tags][Tags]int32, near *rivals) []tag {
	n := len(s.scores)
	s.tags = slices.Grow(s.tags[:0], n)[:n]
	if n == 0 {
		return nil
	}
	s.from = slices.Grow(s.from[:0], n)[:n]
	best := s.scores[0]
	for t := 2; t < Tags; t += 2 {
		best[t] = -1 << 28
	}
	for i := 1; i < n; i++ {
		if s.scores[i][1] == unlooked[1] {
			s.outside(i, &best, follow)
			continue
		}
		best = s.next(i, &best, follow, near)
	}
	s.tags[n-1] = 0
	for t := range best {
		if best[t] > best[s.tags[n-1]] {
			s.tags[n-1] = tag(t)
		}
	}
	for i := n - 1; i > 0; i-- {
		s.tags[i-1] = s.from[i][s.tags[i]]
	}
	return s.tags
}

// outside takes the step of [tagSpace.next] to a token that is not looked at.
func (s *tagSpace) outside(i int, best *[Tags]int32, follow *[Tags][Tags]int32) {
	value := best[0] + follow[0][0]
	s.from[i][0] = 0
	for k := 1; k < Tags; k++ {
		if v := best[k] + follow[k][0]; v > value {
			value, s.from[i][0] = v, tag(k)
		}
		best[k] = unlooked[k]
	}
	best[0] = value
	for k := 1; k < Tags; k++ {
		best[k] += value
	}
}

// next returns the best values of tags at token i after those before it. Only
// rivals of the best tag can come before a tag that begins or is outside.
func (s *tagSpace) next(i int, best *[Tags]int32, follow *[Tags][Tags]int32, near *rivals) (next [Tags]int32) {
	top := 0
	for k, v := range best {
		if v > best[top] {
			top = k
		}
	}
	var alive [Tags]tag
	n := 0
	for k, v := range best {
		if best[top]-v <= near[top][k] {
			alive[n] = tag(k)
			n++
		}
	}
	score, from := &s.scores[i], &s.from[i]
	for t := range next {
		var value int32
		if t > 0 && t%2 == 0 {
			value, from[t] = best[t-1]+follow[t-1][t], tag(t-1)
			if b := best[t] + follow[t][t]; b > value {
				value, from[t] = b, tag(t)
			}
		} else {
			value = -1 << 30
			for _, k := range alive[:n] {
				if v := best[k] + follow[k][t]; v > value {
					value, from[t] = v, k
				}
			}
		}
		next[t] = value + score[t]
	}
	return next
}

// find appends the spans of personal data in text: those of the rules, which
// are in found from begin on, and those that the tagger adds between them.
func (g *Tagger) find(found []Finding, begin int, text string) []Finding {
	s := g.spaces.Get().(*tagSpace)
	defer g.spaces.Put(s)
	s.tokens = tokensOf(s.tokens[:0], text)
	ruled(s.tokens, found[begin:])
	s.scores = slices.Grow(s.scores[:0], len(s.tokens))[:len(s.tokens)]
	var features [32]uint32
	hurried := s.hurried()
	for i := range s.tokens {
		if hurried && !s.telling[i] {
			s.scores[i] = unlooked
			continue
		}
		g.score(&s.scores[i], tagFeatures(features[:0], s.tokens, i))
	}
	tags := s.decode(&g.follow, g.near)
	return append(found[:begin], joined(text, found[begin:], s.tokens, tags)...)
}

// unlooked are the scores of a token that is not looked at: it is outside.
var unlooked = func() (s [Tags]int32) {
	for t := 1; t < Tags; t++ {
		s[t] = -1 << 20
	}
	return s
}()

// In texts of more than hurryFrom tokens, of which at least one in capitalShare
// has a capital, only what is at most tellingReach tokens away from a telling
// one is looked at.
const (
	hurryFrom    = 1024
	capitalShare = 40
	tellingReach = 3
)

// hurried reports whether only telling tokens and those near them are looked
// at, and marks them. In long prose most are not, and would take most of the
// time; in a text without capitals they are all there is to go by.
func (s *tagSpace) hurried() bool {
	if len(s.tokens) <= hurryFrom {
		return false
	}
	s.telling = slices.Grow(s.telling[:0], len(s.tokens))[:len(s.tokens)]
	clear(s.telling)
	marked, capitals := 0, 0
	for i := range s.tokens {
		if !s.tokens[i].telling() {
			continue
		}
		if s.tokens[i].capital {
			capitals++
		}
		marked = max(marked, i-tellingReach)
		for ; marked < len(s.tokens) && marked <= i+tellingReach; marked++ {
			s.telling[marked] = true
		}
	}
	return capitals*capitalShare >= len(s.tokens)
}

// joined adds what tags say to what rules found.
func joined(text string, found []Finding, tokens []token, tags []tag) []Finding {
	return JoinNeighbours(text, withoutOverlaps(appendTagged(found, tokens, tags), 0))
}

// JoinNeighbours makes one finding of those of the same kind that nothing but
// space and commas parts: the number of a house and its street are one address.
func JoinNeighbours(text string, found []Finding) []Finding {
	kept := found[:0]
	for _, f := range found {
		if n := len(kept); n > 0 && kept[n-1].Kind == f.Kind && joins[f.Kind] &&
			strings.Trim(text[kept[n-1].End:f.Start], " \n,") == "" {
			kept[n-1].End = f.End
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// joins are the kinds of which neighbours are one.
var joins = map[string]bool{KindAddress: true}

// ruled marks tokens with the rule that found them.
func ruled(tokens []token, found []Finding) {
	k := 0
	for i := range tokens {
		for k < len(found) && found[k].End <= int(tokens[i].start) {
			k++
		}
		if k < len(found) && found[k].Start <= int(tokens[i].start) {
			tokens[i].rule = hashOf([]byte(found[k].Kind))
		}
	}
}

func appendTagged(found []Finding, tokens []token, tags []tag) []Finding {
	for i := 0; i < len(tags); {
		t := tags[i]
		if t == 0 {
			i++
			continue
		}
		j := i + 1
		for j < len(tags) && tags[j] == t+1 {
			j++
		}
		if tokens[i].rule == 0 {
			found = append(found, Finding{
				Category: PII,
				Kind:     tagKinds[(t-1)/2],
				Start:    int(tokens[i].start),
				End:      int(tokens[j-1].end),
				Score:    0.9,
			})
		}
		i = j
	}
	return found
}

// NewTagger rounds weights to eight bits.
func NewTagger(weights [][Tags]float32, follow [Tags][Tags]float32) *Tagger {
	g := &Tagger{weights: make([][Tags]int8, len(weights))}
	largest := float32(1e-6)
	for b := range weights {
		for _, w := range weights[b] {
			largest = max(largest, float32(math.Abs(float64(w))))
		}
	}
	step := largest / 127
	for b := range weights {
		for t, w := range weights[b] {
			g.weights[b][t] = int8(math.Round(float64(w / step)))
		}
	}
	for a := range follow {
		for b, w := range follow[a] {
			g.follow[a][b] = int32(math.Round(float64(w / step)))
		}
	}
	g.pack()
	return g
}
