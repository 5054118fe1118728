package route

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
)

// A Prompt is the keys of a prompt's full blocks, for one size of blocks.
type Prompt struct {
	BlockTokens int
	Keys        []parley.BlockKey
}

// A Request is what a decision needs to know.
type Request struct {
	Model, Pool string
	// Key brings requests together for which nothing else is known: a
	// conversation or a tenant. Empty if there is none.
	Key string
	// PromptTokens and OutputTokens are the context it may grow to.
	PromptTokens, OutputTokens int
	// Prompts are for the sizes that [Router.BlockSizes] returns.
	Prompts []Prompt
	// Avoid are workers that have failed it.
	Avoid []ID
	// HeldBy are workers that have just computed the whole prompt, whatever they have
	// reported of it so far.
	HeldBy []ID
	// Prefill is set if the prompt is to be computed and nothing else.
	Prefill bool

	// reader is the worker that the prompt is computed for; nil for any.
	reader *worker
}

func (q *Request) keys(blockTokens int) []parley.BlockKey {
	for i := range q.Prompts {
		if q.Prompts[i].BlockTokens == blockTokens {
			return q.Prompts[i].Keys
		}
	}
	return nil
}

// A Reason is why a worker cannot take a request, or should not.
type Reason uint8

// The reasons. Those from Busy on only count while another worker can take it.
const (
	OtherModel Reason = iota // serves another model
	OtherPool                // stands in another pool
	NotReady                 // is not healthy, or draining
	Avoided                  // has failed this request
	TooSmall                 // could never hold the context
	NoRoom                   // cannot hold the context beside what runs
	Busy                     // has had more than its share of work
	Watermark                // has its memory in use beyond the watermark
	OtherRole                // is meant for another part of requests
	reasons
)

var reasonWords = [reasons]string{"of another model", "of another pool", "not ready", "avoided", "too small",
	"without room", "busy", "over the watermark", "of another role"}

// A How is the rule that a worker was picked by.
type How uint8

// The rules.
const (
	ByScore How = iota // it had the least score
	ByTie              // it was the less loaded of two near ties
	ByKey              // nothing was known, and the key hashes to it
)

// A Decision says which worker a request goes to, and why.
type Decision struct {
	Worker ID
	Name   string
	How    How
	// Cached tokens of the prompt are on the worker, Expected of them because
	// they were sent there lately; Uncached must be computed.
	Cached, Expected, Uncached int
	// Score is in tokens; Ahead is how much more the next best had, and Ties
	// how many were as good.
	Score, Ahead float64
	Ties         int
	// Able is how many workers could have taken it, and Refused why the others
	// could not or should not.
	Able    int
	Refused [reasons]int
	// Passed is set if the best score was passed over because its worker was
	// busy or over the watermark.
	Passed string
	// Fetch is what the worker should fetch from another one, nil for nothing. Uncached
	// does not count it.
	Fetch *Transfer
	// Declined is what the worker could have fetched and is to compute, because that is
	// expected to take less time; nil for nothing.
	Declined *Transfer
	// Prompt is the name of the worker that computes Elsewhere tokens of the prompt for
	// this one, by the means of their engines; empty for none. Uncached does not count them.
	Prompt    string
	Elsewhere int

	// sent is what [Router.Sent] noted: when, and from which block on nothing was expected of the worker before.
	sent struct {
		at      time.Time
		first   parley.BlockKey
		expects bool
	}
}

// expect notes from which block on nothing was expected of the worker before the request was sent.
func (d *Decision) expect(first parley.BlockKey, found bool, now time.Time) {
	d.sent.first, d.sent.expects, d.sent.at = first, found, now
}

// fetch notes that the worker should fetch blocks; nil for none.
func (d *Decision) fetch(t *Transfer) {
	if d.Fetch != nil {
		d.Uncached += d.Fetch.More
	}
	if d.Fetch = t; t != nil {
		d.Uncached = max(0, d.Uncached-t.More)
	}
}

// decline notes what the worker could have fetched, if it fetches nothing.
func (d *Decision) decline(t *Transfer) {
	if d.Fetch == nil {
		d.Declined = t
	}
}

// pair notes that another worker computes the prompt.
func (d *Decision) pair(name string) { d.Prompt, d.Elsewhere, d.Uncached = name, d.Uncached, 0 }

// String returns the decision in one line.
func (d Decision) String() string {
	b := make([]byte, 0, 96) // every request has one, so it is put together by hand
	number := func(before string, n int) { b = strconv.AppendInt(append(b, before...), int64(n), 10) }
	rounded := func(before string, f float64) { b = strconv.AppendFloat(append(b, before...), f, 'f', 0, 64) }
	b = append(append(append(b, d.Name...), " by "...), [...]string{"score", "tie", "key"}[d.How]...)
	number(": ", d.Cached)
	all := d.Cached + d.Uncached + d.Elsewhere
	if d.Fetch != nil {
		all += d.Fetch.More
	}
	number(" of ", all)
	b = append(b, " tokens cached"...)
	if d.Expected > 0 {
		number(" (", d.Expected)
		b = append(b, " expected)"...)
	}
	rounded(", score ", d.Score)
	switch {
	case d.Able > 1 && d.Ties > 1:
		number(", ", d.Ties)
		b = append(b, " near ties"...)
	case d.Able > 1:
		rounded(", next +", d.Ahead)
	}
	if d.Passed != "" {
		b = append(append(b, ", instead of "...), d.Passed...)
	}
	if d.Fetch != nil {
		b = append(append(b, ", "...), d.Fetch.String()...)
	} else if t := d.Declined; t != nil {
		number(", computes ", t.More)
		b = append(append(append(append(b, " tokens that "...), t.Name...), " has: fetched about "...), t.times()...)
	}
	if d.Prompt != "" {
		b = append(append(b, ", prompt computed by "...), d.Prompt...)
	}
	number("; ", d.Able)
	return string(append(append(b, " able"...), refusals(&d.Refused)...))
}

func refusals(counts *[reasons]int) string {
	var b strings.Builder
	for reason, n := range counts {
		if n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, reasonWords[reason])
		}
	}
	return b.String()
}

// A NoWorker error says why no worker can take a request.
type NoWorker struct{ Refused [reasons]int }

// Error returns the reasons in one line.
func (e *NoWorker) Error() string { return "no worker can take the request" + refusals(&e.Refused) }

// Waits reports whether a worker could take the request later, when there is
// room again or it is ready again.
func (e *NoWorker) Waits() bool { return e.Refused[NoRoom] > 0 || e.Refused[NotReady] > 0 }

// A candidate is a worker that can take the request.
type candidate struct {
	id      ID
	w       *worker
	cached  int
	expect  int
	score   float64
	work    float64
	setBack Reason // reasons if there is none
}

// Pick decides where a request goes. It changes nothing: [Router.Sent] notes
// that the decision was followed. The error is a [*NoWorker].
func (r *Router) Pick(q *Request, now time.Time) (Decision, error) {
	r.lookUp(q, now)
	var d Decision
	r.filter(q, &d)
	if len(r.ranked) == 0 {
		return Decision{}, &NoWorker{d.Refused}
	}
	known := r.rate(q)
	d.Able = len(r.ranked)
	best := &r.ranked[0]
	for i := range r.ranked[1:] {
		if c := &r.ranked[1+i]; c.score < best.score || c.score == best.score && byScore(*c, *best) < 0 {
			best = c
		}
	}
	if best.setBack != reasons && known {
		d.Passed = best.w.Name
	}
	r.setBack(&d)
	r.choose(q, known, &d)
	return d, nil
}

// Cached returns how many tokens of a prompt the worker holds that holds most of it,
// of those that can take the request; known is false if none of them reports its blocks.
func (r *Router) Cached(q *Request, now time.Time) (tokens int, known bool) {
	r.lookUp(q, now)
	var d Decision
	r.filter(q, &d)
	for i := range r.ranked {
		c := &r.ranked[i]
		if c.knowable(q) {
			known = true
			c.hold(r, q)
			tokens = max(tokens, c.cached)
		}
	}
	return tokens, known
}

// CachedOn returns how many tokens of a prompt a worker holds, as far as that is known;
// ok is false if it cannot take the request or is meant for another part of it.
func (r *Router) CachedOn(q *Request, id ID, now time.Time) (tokens int, ok bool) {
	c := candidate{id: id, w: r.workers[id], setBack: reasons}
	if c.w.refuses(q, id) != reasons || c.w.otherRole(q) {
		return 0, false
	}
	if r.lookUp(q, now); c.knowable(q) {
		c.hold(r, q)
	}
	return c.cached, true
}

// lookUp finds out which workers hold which blocks of a prompt.
func (r *Router) lookUp(q *Request, now time.Time) {
	r.advance(now)
	for _, x := range r.indexes {
		x.keys = q.keys(x.BlockTokens())
		x.Lookup(x.keys, &x.matches)
	}
}

// knowable reports whether it can be known what a candidate holds of a prompt. Less than
// a block is never cached.
func (c *candidate) knowable(q *Request) bool {
	return c.w.index != nil && (len(c.w.index.keys) > 0 || q.PromptTokens < c.w.BlockTokens)
}

func byScore(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.work, b.work), cmp.Compare(a.id, b.id))
}

// filter lists the workers that can take a request.
func (r *Router) filter(q *Request, d *Decision) {
	r.ranked = r.ranked[:0]
	for id, w := range r.workers {
		if w == nil {
			continue
		}
		reason := w.refuses(q, ID(id))
		if reason == reasons && w.needsPrompt() && !q.Prefill && !r.hasPrompter(q, w) {
			reason = NotReady
		}
		if reason != reasons {
			d.Refused[reason]++
			continue
		}
		r.ranked = append(r.ranked, candidate{id: ID(id), w: w, setBack: reasons})
	}
}

// refuses returns why a worker cannot take a request, or reasons if it can.
func (w *worker) refuses(q *Request, id ID) Reason {
	context := q.PromptTokens + q.OutputTokens
	switch {
	case w.Model != q.Model:
		return OtherModel
	case w.Pool != q.Pool:
		return OtherPool
	case w.status.RoleOnly && w.otherRole(q), q.reader != nil && !w.computesFor(q.reader):
		return OtherRole
	case !w.status.Ready:
		return NotReady
	case slices.Contains(q.Avoid, id):
		return Avoided
	case w.CapacityTokens > 0 && context > w.CapacityTokens:
		return TooSmall
	case w.CapacityTokens > 0 && context > w.CapacityTokens-w.status.UsedTokens:
		return NoRoom
	}
	return reasons
}

// otherRole reports whether a worker is meant for another part of requests than q.
func (w *worker) otherRole(q *Request) bool {
	return w.status.Role == parley.RolePrefill && !q.Prefill || w.status.Role == parley.RoleDecode && q.Prefill
}

// rate gives the candidates their scores, and reports whether anything can be
// known about what one of them holds.
func (r *Router) rate(q *Request) (known bool) {
	var work, share float64
	for i := range r.ranked {
		work += r.ranked[i].w.work
		share += r.ranked[i].w.share
	}
	n := float64(len(r.ranked))
	work, share = work/n, share/n
	for i := range r.ranked {
		c := &r.ranked[i]
		w := c.w
		credit := 0.0
		if c.knowable(q) {
			known = true
			credit = c.hold(r, q)
		}
		uncached := float64(q.PromptTokens) - credit
		c.work = w.work
		c.score = uncached + float64(r.cfg.WorkWeight*w.work) + float64(max(w.waiting, w.status.WaitingTokens)) +
			float64(r.cfg.RunningTokens*max(w.running, w.status.Running)) +
			float64(float64(r.cfg.MemoryTokens)*w.memory())
		own := float64(q.PromptTokens-c.cached) / w.relative()
		switch {
		case w.memory() > r.cfg.HighWatermark:
			c.setBack = Watermark
		case w.otherRole(q):
			c.setBack = OtherRole
		case r.over(w.work, work, own, n, r.cfg.BurstBound) || r.over(w.share, share, own, n, r.cfg.ShareBound):
			c.setBack = Busy
		}
	}
	return known
}

// over reports whether a worker that has had clearly more than the mean would, with
// its own new work, have more than the bound allows.
func (r *Router) over(has, mean, own, n, bound float64) bool {
	return has > mean+float64(r.cfg.SlackTokens) && has+own > bound*(mean+own/n)
}

// hold finds out what a worker holds of the prompt and returns what that is
// worth, in tokens.
func (c *candidate) hold(r *Router, q *Request) (credit float64) {
	w := c.w
	match := w.index.matches.Of(w.number)
	tokens := func(blocks int32) int { return int(blocks) * w.BlockTokens }
	c.cached = min(tokens(match.Blocks), q.PromptTokens)
	c.expect = min(tokens(match.Expected), c.cached)
	lost := float64((1-r.cfg.HostCredit)*float64(tokens(match.Host))) +
		float64((1-r.cfg.DiskCredit)*float64(tokens(match.Disk)))
	return float64(c.cached) - lost
}

// memory returns which part of a worker's memory running requests use.
func (w *worker) memory() float64 {
	if w.CapacityTokens == 0 {
		return 0
	}
	return float64(w.status.UsedTokens) / float64(w.CapacityTokens)
}

// setBack takes out the candidates that should not get more, unless no other
// is left. Those over the watermark come last.
func (r *Router) setBack(d *Decision) {
	var counts [reasons + 1]int
	for i := range r.ranked {
		counts[r.ranked[i].setBack]++
	}
	for _, reason := range []Reason{Watermark, OtherRole, Busy} {
		if n := counts[reason]; n > 0 && n < len(r.ranked) {
			r.ranked = slices.DeleteFunc(r.ranked, func(c candidate) bool { return c.setBack == reason })
			d.Refused[reason] += n
		}
	}
}

// choose takes one of the candidates that are left.
func (r *Router) choose(q *Request, known bool, d *Decision) {
	d.Ties = r.rankTies()
	c := &r.ranked[0]
	if len(r.ranked) > 1 {
		d.Ahead = r.ahead(d.Ties)
	}
	switch {
	case !known && q.Key != "":
		d.How, d.Ties = ByKey, 1
		c = r.byKey(q.Key)
	case d.Ties > 1:
		d.How = ByTie
		c = r.lessLoaded(d.Ties)
	}
	d.Worker, d.Name, d.Score = c.id, c.w.Name, c.score
	d.Cached, d.Expected, d.Uncached = c.cached, c.expect, q.PromptTokens-c.cached
	if d.Passed == d.Name {
		d.Passed = ""
	}
}

// rankTies puts the candidates that are about as good as the best to the front, in
// their order, and returns how many they are.
func (r *Router) rankTies() (n int) {
	best := math.Inf(1)
	for i := range r.ranked {
		best = min(best, r.ranked[i].score)
	}
	for i := range r.ranked {
		if r.ranked[i].score <= best+float64(r.cfg.TieTokens) {
			r.ranked[n], r.ranked[i] = r.ranked[i], r.ranked[n]
			n++
		}
	}
	slices.SortFunc(r.ranked[:n], byScore)
	return n
}

// ahead returns how much worse the second best candidate is than the best, of which
// ties are about as good.
func (r *Router) ahead(ties int) float64 {
	if ties > 1 {
		return r.ranked[1].score - r.ranked[0].score
	}
	next := math.Inf(1)
	for i := range r.ranked[1:] {
		next = min(next, r.ranked[1+i].score)
	}
	return next - r.ranked[0].score
}

// lessLoaded takes two of the first candidates at random and returns the one
// with less work.
func (r *Router) lessLoaded(ties int) *candidate {
	first := r.rng.IntN(ties)
	second := r.rng.IntN(ties - 1)
	if second >= first {
		second++
	}
	a, b := &r.ranked[first], &r.ranked[second]
	if b.work < a.work || b.work == a.work && b.score < a.score {
		return b
	}
	return a
}

// byKey returns the candidate that a key hashes to. Each worker has a rank for
// each key that depends on nothing else, so that when one comes or goes, only
// the keys move that it had or gets. A worker that has its share of what runs, and
// a quarter more, is passed over: then the key goes to the next in rank.
func (r *Router) byKey(key string) *candidate {
	running := 0
	for i := range r.ranked {
		running += r.ranked[i].w.running
	}
	most := int(math.Ceil(keyBound * float64(running+1) / float64(len(r.ranked))))
	var best *candidate
	highest := uint64(0)
	for i := range r.ranked {
		c := &r.ranked[i]
		if c.w.running >= most {
			continue
		}
		if rank := rankOf(key, c.w.Name); rank > highest || best == nil {
			best, highest = c, rank
		}
	}
	return best // at least one has less than the mean of what will run
}

// keyBound is how many times the mean of what runs a worker may have and still be
// given requests by their keys.
const keyBound = 1.25

// rankOf mixes a key and a worker's name into a number.
func rankOf(key, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(name))
	x := h.Sum64() // nearly equal names have nearly equal sums
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}
