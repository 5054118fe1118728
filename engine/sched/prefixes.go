package sched

import (
	"cmp"
	"slices"
	"sort"
)

// GroupPrefixes orders the parts of one token so that sequences which begin with the same blocks are neighbours: a
// device can then read these blocks once for several. Other parts follow, in their order.
func (p *Plan) GroupPrefixes() {
	slices.SortStableFunc(p.Parts, func(a, b Part) int {
		if a.Tokens == 1 && b.Tokens == 1 {
			return compareTables(a.Seq.Table.Blocks, b.Seq.Table.Blocks)
		}
		return cmp.Compare(min(a.Tokens, 2), min(b.Tokens, 2))
	})
}

// compareTables compares by the first block in which two tables differ. A block that they share has the same tokens
// before it in both, so all before it are shared, too.
func compareTables(a, b []int32) int {
	shorter := min(len(a), len(b))
	at := sort.Search(shorter, func(i int) bool { return a[i] != b[i] })
	if at == shorter {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a[at], b[at])
}
