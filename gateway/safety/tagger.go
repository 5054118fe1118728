package safety

import "strings"

// TagBits is how many bits of a feature's hash the tagger keeps.
const TagBits = 16

// tagKinds are what the tagger finds; the rules find the rest.
var tagKinds = []string{KindPerson, KindPlace, KindAddress, KindCompany, KindDate, KindTitle, KindPhone, KindLicense}

// Tags is how many tags there are: outside, and for each kind its first token
// and those that follow.
const Tags = 1 + 2*8

// A tag of a token: 0 is outside, 1+2k begins kind k, 2+2k continues it.
type tag = uint8

// A Tagger finds the spans of personal data that only their context tells:
// the weights of every feature for every tag, and of every tag after another.
type Tagger struct {
	weights [][Tags]int8
	follow  [Tags][Tags]int32
}

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
	add := func(kind, h uint32) { to = append(to, bucket(kind+64, h)>>(BucketBits-TagBits)) }
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

// decodeTags returns the best sequence of tags for scores and for what may follow.
func decodeTags(scores [][Tags]int32, follow *[Tags][Tags]int32) []tag {
	n := len(scores)
	if n == 0 {
		return nil
	}
	from := make([][Tags]tag, n)
	best := scores[0]
	for t := 2; t < Tags; t += 2 {
		best[t] = -1 << 28
	}
	for i := 1; i < n; i++ {
		var next [Tags]int32
		for t := range next {
			value, before := bestBefore(&best, follow, tag(t))
			next[t], from[i][t] = value+scores[i][t], before
		}
		best = next
	}
	tags := make([]tag, n)
	for t := range best {
		if best[t] > best[tags[n-1]] {
			tags[n-1] = tag(t)
		}
	}
	for i := n - 1; i > 0; i-- {
		tags[i-1] = from[i][tags[i]]
	}
	return tags
}

func bestBefore(best *[Tags]int32, follow *[Tags][Tags]int32, t tag) (value int32, before tag) {
	if t > 0 && t%2 == 0 {
		a, b := best[t-1]+follow[t-1][t], best[t]+follow[t][t]
		if a >= b {
			return a, t - 1
		}
		return b, t
	}
	value = best[0] + follow[0][t]
	for k := 1; k < Tags; k++ {
		if v := best[k] + follow[k][t]; v > value {
			value, before = v, tag(k)
		}
	}
	return value, before
}

// find appends the spans of personal data in text: those of the rules, which
// are in found from begin on, and those that the tagger adds between them.
func (g *Tagger) find(found []Finding, begin int, text string) []Finding {
	tokens := tokensOf(nil, text)
	ruled(tokens, found[begin:])
	scores := make([][Tags]int32, len(tokens))
	var features [32]uint32
	for i := range tokens {
		s := &scores[i]
		for _, f := range tagFeatures(features[:0], tokens, i) {
			w := &g.weights[f]
			for t := range w {
				s[t] += int32(w[t])
			}
		}
	}
	tags := decodeTags(scores, &g.follow)
	return append(found[:begin], joined(text, found[begin:], tokens, tags)...)
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
		if n := len(kept); n > 0 && kept[n-1].Kind == f.Kind && joins[f.Kind] && strings.Trim(text[kept[n-1].End:f.Start], " \n,") == "" {
			kept[n-1].End = f.End
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// joins are the kinds of which neighbours are one.
var joins = map[string]bool{KindAddress: true}

// ruled tells tokens which rule found them.
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
			found = append(found, Finding{Category: PII, Kind: tagKinds[(t-1)/2], Start: int(tokens[i].start), End: int(tokens[j-1].end), Score: 0.9})
		}
		i = j
	}
	return found
}
