package sched

import (
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/internal/fairshare"
)

// A Seq is one continuation on its way through the engine. What every pass looks at
// comes first, so that it lies in few lines of the processor's cache.
type Seq struct {
	// Tokens are the known tokens: the prompt and what was chosen so far. The
	// engine appends to them; they are all to be computed.
	Tokens []parley.Token
	// Computed is how many of them are in the pool.
	Computed int
	// Most is how many tokens the sequence can ever have.
	Most int
	// Draft is how many tokens were guessed after the known ones, to be
	// checked in the next pass if there is room.
	Draft int
	// Coming is how many of the last tokens are not known yet; see [Seq.Expect].
	Coming int
	// EveryRow asks for the logits of each prompt token, not of the last one
	// alone. Such a prompt is computed whole, whatever is cached.
	EveryRow bool
	// Whole computes the prompt from its beginning, whatever is cached.
	Whole bool
	// Background sequences get turns only while no other has work. No account is
	// kept of them, and they make room first.
	Background bool
	// Paused keeps the sequence from getting turns: its client does not read
	// fast enough.
	Paused   bool
	boarding bool // some of its computed tokens may wait for a copy
	// Class and Tenant decide whose turn it is, and whose cache is charged.
	Class   parley.Class
	account *fairshare.Party // of Tenant, while it waits or runs; nil in the background
	// Owner is for the caller, who gets sequences back in plans.
	Owner any
	// Table holds the sequence's blocks while it runs.
	Table  kv.Table
	Tenant string
	// Deadline is when the sequence is worth nothing any more; zero means never. It is set before Add.
	Deadline time.Time
	// Forks is how many further sequences will continue this one's prompt, of
	// Prompt tokens, as Most does here.
	Forks, Prompt int
	// Salt keeps the sequence's blocks from being shared under another salt, but
	// for those that lie in the first PublicTokens tokens.
	Salt         parley.Salt
	PublicTokens int
	// Objective is how long after the request's arrival at the gateway the first token
	// should come; 0 means at once. Waited is how much of that had passed when it came
	// here.
	Objective, Waited time.Duration
	// Retain is how long its blocks should stay in the cache after it.
	Retain time.Duration
	// Cached says what was found in the cache at the first admission.
	Cached kv.Admission
	// Waits says what the sequence waited for before it was first admitted.
	Waits [Waits]time.Duration
	// Preempted counts how often it had to make room for others, Away is how long it
	// then waited.
	Preempted int
	Away      time.Duration

	hashes   []parley.BlockHash // of the leading full blocks
	granted  int                // tokens it may compute in the present pass
	order    uint64             // of arrival
	arrived  time.Time
	since    time.Time // when it began to wait: at its arrival, or when it was preempted
	noted    time.Time // up to when Waits are told
	cause    Wait      // from then on
	admitted bool      // at least once
	again    bool      // after a preemption
	yielded  bool      // its seat to a higher class, and waits for another
	stays    bool      // in its seat, as it waited too long for it
	mark     int       // known tokens at the last admission
	// recomputed is how many of them were not found in the cache.
	recomputed int
}

// A Wait is what a sequence waits for before its first pass.
type Wait uint8

// What sequences wait for.
const (
	// ForTurn: the pass that runs, or those that other sequences have first.
	ForTurn Wait = iota
	// ForSeat: as many sequences run as may, or as their class may have.
	ForSeat
	// ForMemory: the blocks of the prompt cannot be had.
	ForMemory

	// Waits is how many there are.
	Waits = 3
)

// behind returns how many known tokens are not computed.
func (q *Seq) behind() int { return len(q.Tokens) - q.Computed }

// hash names the full blocks among the first n tokens.
func (q *Seq) hash(n int) {
	const size = kv.BlockTokens
	if len(q.hashes) >= n/size {
		return
	}
	q.hashes = slices.Grow(q.hashes, n/size-len(q.hashes))
	for _, part := range []struct {
		end  int
		salt parley.Salt
	}{{min(n, q.PublicTokens) / size, parley.Salt{}}, {n / size, q.Salt}} {
		from := len(q.hashes)
		if from >= part.end {
			continue
		}
		var parent parley.BlockHash
		if from > 0 {
			parent = q.hashes[from-1]
		}
		q.hashes = parley.AppendBlockHashes(q.hashes, parent, part.salt, q.Tokens[from*size:part.end*size], size)
	}
}

// Prepare names the blocks of the prompt. Add does it too; who calls Prepare
// before, elsewhere, spares the scheduler the work.
func (q *Seq) Prepare() { q.hash(q.Prompt) }

// Reset makes a sequence that has left the scheduler an empty one, and keeps its memory.
func (q *Seq) Reset() { *q = Seq{Table: q.Table} }

// SetNames gives the sequence the names of its leading full blocks, which it need not
// compute then: of known tokens, and of any that are to come. They are only read.
func (q *Seq) SetNames(names []parley.BlockHash) { q.hashes = slices.Clip(names) }

// runs reports whether the sequence has memory, and so is running.
func (q *Seq) runs() bool { return len(q.Table.Blocks) > 0 }

// Settle forgets what was computed for guesses that turned out wrong, after
// the chosen tokens were added to the known ones.
func (q *Seq) Settle() {
	q.Computed = min(q.Computed, len(q.Tokens)-1)
	q.Draft = 0
}

// due returns when the first token of a sequence should come.
func (q *Seq) due() time.Time { return q.arrived.Add(q.Objective - q.Waited) }

// note ends the wait that a sequence is in and begins another.
func (q *Seq) note(cause Wait, now time.Time) {
	if !q.admitted {
		q.Waits[q.cause] += now.Sub(q.noted)
	}
	q.cause, q.noted = cause, now
}

// past returns the blocks that hold computed tokens.
func (q *Seq) past() []int32 { return q.Table.Blocks[:blocks(q.Computed)] }

func blocks(tokens int) int {
	return (tokens + kv.BlockTokens - 1) / kv.BlockTokens
}

// What follows are the changes of a sequence's state, from its arrival on.

// arrive lets the sequence wait as the one of that order.
func (q *Seq) arrive(order uint64, now time.Time) {
	q.order, q.arrived, q.since, q.noted = order, now, now, now
}

// join gives the sequence the account of its tenant.
func (q *Seq) join(account *fairshare.Party) { q.account = account }

// leave takes the account away: its memory may be another tenant's soon.
func (q *Seq) leave() { q.account = nil }

// begin notes that the sequence has a seat, and memory of which a part was found in the
// cache; first: it has waited for long enough to keep the seat.
func (q *Seq) begin(got kv.Admission, first bool, now time.Time) {
	q.note(ForTurn, now)
	q.stays = q.stays || first
	if q.admitted {
		q.Away += now.Sub(q.since)
	} else {
		q.Cached, q.admitted = got, true
	}
	q.Computed, q.mark, q.boarding = got.HitTokens, len(q.Tokens), true
	q.recomputed, q.yielded = len(q.Tokens)-got.HitTokens, false
}

// fork makes child a continuation of the sequence's prompt that waits.
func (q *Seq) fork(child *Seq, now time.Time) {
	child.Prompt, child.Most, child.Retain = q.Prompt, q.Most, q.Retain
	child.Salt, child.PublicTokens = q.Salt, q.PublicTokens
	child.Class, child.Tenant, child.Background, child.Deadline = q.Class, q.Tenant, q.Background, q.Deadline
	child.Objective, child.Waited, child.stays, child.since = q.Objective, q.Waited, q.stays, now
	child.order, child.arrived = q.order, q.arrived
	child.hashes = slices.Clone(q.hashes[:min(len(q.hashes), q.Prompt/kv.BlockTokens)]) // not what q said
	child.Cached, child.admitted = q.Cached, true
	q.Forks--
}

// beginAfterPrompt notes that a fork has memory, which holds its prompt.
func (q *Seq) beginAfterPrompt() { q.Computed, q.mark, q.boarding = q.Prompt, q.Prompt, true }

// board notes whether computed tokens still wait for a copy.
func (q *Seq) board(waits bool) { q.boarding = waits }

// grant bounds what the sequence computes in the present pass.
func (q *Seq) grant(tokens int) { q.granted = tokens }

// advance notes that tokens were computed.
func (q *Seq) advance(tokens int) { q.Computed += tokens }

// preempt notes that the sequence waits again, because others need its memory.
func (q *Seq) preempt(now time.Time) {
	q.restart()
	q.again, q.since = true, now
	q.Preempted++
}

// yield notes that the sequence gives up its seat, and waits for another.
func (q *Seq) yield(now time.Time) { q.since, q.yielded = now, true }

// restart notes that nothing of the sequence is computed.
func (q *Seq) restart() { q.Computed, q.Draft = 0, 0 }

// forget takes tokens out of the middle.
func (q *Seq) forget(keep, drop int) {
	q.Tokens = slices.Delete(q.Tokens, keep, keep+drop)
	q.hashes = q.hashes[:min(len(q.hashes), keep/kv.BlockTokens)]
	q.Prompt = min(q.Prompt, len(q.Tokens))
}

// dropForks notes that no more of its continuations will come.
func (q *Seq) dropForks() { q.Forks = 0 }

// leaveBackground makes the sequence one like any other.
func (q *Seq) leaveBackground() { q.Background = false }

// A device that chooses tokens itself can compute a pass before it is known what the
// pass before has chosen. A sequence in such a pass has a token that is coming: it has
// its place among the known ones, and the next pass may compute it, but what it is
// will be known later.

// unknown stands for a token that is coming.
const unknown parley.Token = -1

// Expect gives the token that is being chosen its place.
func (q *Seq) Expect() {
	q.Tokens = append(q.Tokens, unknown)
	q.Coming++
}

// Unexpect takes the places of coming tokens back and returns how many there were.
func (q *Seq) Unexpect() (n int) {
	n, q.Coming = q.Coming, 0
	q.Tokens = q.Tokens[:len(q.Tokens)-n]
	return n
}

// ready reports whether the next tokens of the sequence can be computed: one that is
// coming can be, right after the pass that chooses it, unless it is the last.
func (q *Seq) ready() bool {
	return q.Coming == 0 || q.behind() == 1 && len(q.Tokens) < q.Most
}
