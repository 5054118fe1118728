package route

import (
	"cmp"
	"slices"
	"time"

	"parley"
	"parley/internal/exactmath"
)

// A worker that has just come holds nothing. What the others are asked for most lately is
// likely to be asked for next, so it is worth fetching before the first request comes.

// A Use is a prompt that was asked lately, with its answer: the keys of its blocks, for the
// size of those of the worker in question.
type Use struct {
	Keys []parley.BlockKey
	At   time.Time
}

// A Warming is a part of what a worker fetches before it gets requests: leading tokens of a use,
// by its number.
type Warming struct {
	Use int
	*Transfer
}

const (
	// warmShare is the share of a worker's memory that is filled before it gets requests.
	warmShare = 0.5
	// warmHalf is how long it takes until a use counts half.
	warmHalf = 10 * time.Minute
)

// WarmUp decides what a worker should fetch before it gets requests, the best first: of
// the latest uses in its pool those blocks that were used most, lately more than long ago,
// as many as fill a share of its memory and as are expected to come within a time. Blocks of
// a prefix that several uses share come once.
func (r *Router) WarmUp(to ID, uses []Use, within time.Duration, now time.Time) (plan []Warming) {
	w := r.workers[to]
	if w.index == nil || w.status.Exchange.Format == "" || w.CapacityTokens == 0 {
		return nil
	}
	heat := heatOf(uses, now)
	chosen := hottest(uses, heat, int(warmShare*float64(w.CapacityTokens))/w.BlockTokens)
	order := make([]int, 0, len(uses))
	for i := range uses {
		if chosen.depth(uses[i].Keys) > 0 {
			order = append(order, i)
		}
	}
	last := func(i int) float64 { return heat[uses[i].Keys[chosen.depth(uses[i].Keys)-1]] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(last(b), last(a)) })
	taken := blockSet{}
	var sum time.Duration
	for _, i := range order {
		keys := uses[i].Keys[:chosen.depth(uses[i].Keys)]
		t := r.warmFrom(to, keys, taken.depth(keys), now)
		if t == nil || sum+t.Move > within {
			continue
		}
		sum += t.Move
		plan = append(plan, Warming{i, t})
		taken.add(keys[:t.Tokens/w.BlockTokens])
	}
	return plan
}

// warmFrom returns the transfer of blocks from the worker that holds most of them, of which
// the first are on their way already; nil if none is worth it.
func (r *Router) warmFrom(to ID, keys []parley.BlockKey, taken int, now time.Time) (best *Transfer) {
	w := r.workers[to]
	w.index.Lookup(keys, &w.index.matches)
	has := max(taken, int(w.index.matches.Of(w.number).Blocks)) * w.BlockTokens
	for id, from := range r.workers {
		if from == nil || from == w || !from.gives(w) {
			continue
		}
		match := from.index.matches.Of(from.number)
		held := min(int(match.Blocks-match.Expected), len(keys)) * w.BlockTokens
		if held-has < fetchLeast || best != nil && best.Tokens >= held {
			continue
		}
		if t, worth := r.weigh(ID(id), to, held, held-has, now); worth {
			t.Within = max(t.Within, withinFactor*t.Move)
			best = t
		}
	}
	return best
}

// A Handing is a part of what a worker that leaves gives to another one: leading tokens of a use,
// by its number.
type Handing struct {
	Use int
	To  ID
	*Transfer
}

// A receiver is a worker that may get what another one leaves.
type receiver struct {
	id     ID
	given  blockSet
	tokens int // that it gets
	room   int // for further tokens
	time   time.Duration
}

// HandOver decides what others that are able to should fetch from a worker that is about to leave: of the latest
// uses in its pool, the most used first, what no worker holds that will be asked for it. That goes to the worker with
// room for it that holds most of what comes before it, of several to the one that gets least. A worker gets at most
// what fills a share of its memory, and what is expected to come within a time.
func (r *Router) HandOver(from ID, able func(ID) bool, uses []Use, within time.Duration, now time.Time) (
	plan []Handing) {
	leaving := r.workers[from]
	if leaving.index == nil {
		return nil
	}
	receivers := r.receiversFrom(leaving, able)
	heat := heatOf(uses, now)
	order := make([]int, 0, len(uses))
	for i := range uses {
		if len(uses[i].Keys) > 0 {
			order = append(order, i)
		}
	}
	last := func(i int) float64 { return heat[uses[i].Keys[len(uses[i].Keys)-1]] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(last(b), last(a)) })
	for _, i := range order {
		keys, matches := uses[i].Keys, &leaving.index.matches
		leaving.index.Lookup(keys, matches)
		own := matches.Of(leaving.number)
		held := min(int(own.Blocks-own.Expected), len(keys))
		var to *receiver
		has := 0
		for _, c := range receivers {
			depth := max(int(matches.Of(r.workers[c.id].number).Blocks), c.given.depth(keys))
			if (held-depth)*leaving.BlockTokens > c.room {
				continue
			}
			if to == nil || depth > has || depth == has && c.tokens < to.tokens {
				to, has = c, depth
			}
		}
		more := (held - has) * leaving.BlockTokens
		if to == nil || more < fetchLeast {
			continue
		}
		t, worth := r.weigh(from, to.id, held*leaving.BlockTokens, more, now)
		if !worth || to.time+t.Move > within {
			continue
		}
		t.Within = max(t.Within, withinFactor*t.Move)
		to.given.add(keys[:held])
		to.tokens, to.room, to.time = to.tokens+more, to.room-more, to.time+t.Move
		plan = append(plan, Handing{i, to.id, t})
	}
	return plan
}

// receiversFrom returns the workers that can use blocks of one that leaves: those for the same part of requests.
// Without such workers the others take its requests over, and so its blocks.
func (r *Router) receiversFrom(leaving *worker, able func(ID) bool) (all []*receiver) {
	var others []*receiver
	prompts := leaving.status.Role == parley.RolePrefill
	for id, w := range r.workers {
		if w == nil || w == leaving || !w.status.Ready || !leaving.gives(w) || !able(ID(id)) {
			continue
		}
		c := &receiver{id: ID(id), given: blockSet{}, room: int(warmShare * float64(w.CapacityTokens))}
		switch {
		case prompts && w.status.Role != parley.RoleDecode, !prompts && w.status.Role != parley.RolePrefill:
			all = append(all, c)
		case !w.status.RoleOnly:
			others = append(others, c)
		}
	}
	if len(all) == 0 {
		return others
	}
	return all
}

// heatOf returns how much each block was used lately. A block has at least that of those
// which follow it.
func heatOf(uses []Use, now time.Time) map[parley.BlockKey]float64 {
	heat := map[parley.BlockKey]float64{}
	for i := range uses {
		worth := exactmath.Exp2(-now.Sub(uses[i].At).Seconds() / warmHalf.Seconds())
		for _, k := range uses[i].Keys {
			heat[k] += worth
		}
	}
	return heat
}

// hottest returns the blocks that were used most. With a block it has all before it.
func hottest(uses []Use, heat map[parley.BlockKey]float64, most int) blockSet {
	type place struct {
		key   parley.BlockKey
		depth int
	}
	places, seen := make([]place, 0, len(heat)), blockSet{}
	for i := range uses {
		for depth, k := range uses[i].Keys {
			if !seen[k] {
				seen[k] = true
				places = append(places, place{k, depth})
			}
		}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(heat[b.key], heat[a.key]), cmp.Compare(a.depth, b.depth))
	})
	chosen := blockSet{}
	for _, p := range places[:min(most, len(places))] {
		chosen[p.key] = true
	}
	return chosen
}

// A blockSet is a set of blocks.
type blockSet map[parley.BlockKey]bool

// depth returns how many of the first blocks are in the set.
func (s blockSet) depth(keys []parley.BlockKey) (n int) {
	for n < len(keys) && s[keys[n]] {
		n++
	}
	return n
}

func (s blockSet) add(keys []parley.BlockKey) {
	for _, k := range keys {
		s[k] = true
	}
}
