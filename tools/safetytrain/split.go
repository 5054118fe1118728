package main

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"
)

// folds is how many parts the data has that is trained on; one part more is
// never trained on.
const folds = 5

// held reports whether a row is never trained on: a fifth of the groups.
func (r *row) held() bool { return r.group%5 == 0 }

// fold is the part of the training data that a row belongs to.
func (r *row) fold() int { return int(r.group / 5 % folds) }

// shingle is how many words in a row make a sign of a text.
const shingle = 4

// sharedMin is the share of signs from which two texts are near duplicates.
const sharedMin = 0.5

// relatedMin is the share of signs from which two texts have passages in common.
const relatedMin = 0.15

// groupNearDuplicates puts texts into groups that share half of their signs,
// directly or over others. Texts made from one template with other names in
// it are one group, too.
func groupNearDuplicates(rows []*row) {
	for i, key := range connected(rows, sharedMin) {
		rows[i].group = key
	}
	for i, key := range connected(rows, relatedMin) {
		rows[i].relatives = key
	}
}

// connected returns for each row the key of those that it shares that share of
// signs with.
func connected(rows []*row, share float64) []uint64 {
	parent := make([]int, len(rows))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	signs := make([][]uint64, len(rows))
	holders := map[uint64][]int{}
	for i, r := range rows {
		signs[i] = signsOf(r.template())
		shared := map[int]int{}
		for _, s := range signs[i] {
			for _, j := range holders[s] {
				shared[j]++
			}
			holders[s] = append(holders[s], i)
		}
		for j, n := range shared {
			if float64(n) >= share*float64(min(len(signs[i]), len(signs[j]))) {
				a, b := root(i), root(j)
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	least := map[int]uint64{}
	for i, r := range rows {
		key := xxhash.Sum64String(normal(r.Text))
		if old, ok := least[root(i)]; !ok || key < old {
			least[root(i)] = key
		}
	}
	keys := make([]uint64, len(rows))
	for i := range rows {
		// The least of many keys is small: it is hashed again to be spread.
		keys[i] = xxhash.Sum64String(string(rune(least[root(i)]>>43)) + string(rune(least[root(i)]>>22&0x1FFFFF)))
	}
	return keys
}

// template is the text with its spans replaced by what they are.
func (r *row) template() string {
	if len(r.Spans) == 0 {
		return r.Text
	}
	runes := []rune(r.Text)
	spans := slices.Clone(r.Spans)
	slices.SortFunc(spans, func(a, b span) int { return b.Start - a.Start })
	for _, s := range spans {
		if s.End <= len(runes) && s.Start < s.End {
			runes = slices.Replace(runes, s.Start, s.End, []rune(" "+s.Type+" ")...)
		}
	}
	return string(runes)
}

func normal(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ")
}

// signsOf returns the distinct runs of words of a text, hashed.
func signsOf(text string) []uint64 {
	words := strings.Fields(normal(text))
	var signs []uint64
	if len(words) <= shingle {
		return []uint64{xxhash.Sum64String(strings.Join(words, " "))}
	}
	for i := range len(words) - shingle + 1 {
		signs = append(signs, xxhash.Sum64String(strings.Join(words[i:i+shingle], " ")))
	}
	slices.Sort(signs)
	return slices.Compact(signs)
}
