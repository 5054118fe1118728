package kv

import (
	"time"

	"parley"
)

// A Cache decides which block of memory holds which tokens. It is used by one
// goroutine at a time and does nothing on its own.
//
// Methods that take the time expect it not to go back; if it does, they use
// the latest they were given.
type Cache struct {
	cfg      Config
	clock    clock
	tree     tree
	slots    slots
	cached   spanSet
	tables   []*Table
	learn    *learner
	ghosts   ghosts
	accounts accounts
	copies   copies
	log      eventLog
	stats    Stats
}

// A clock counts from the first time that the cache was given.
type clock struct {
	origin time.Time
	now    int64 // nanoseconds since origin
}

// A tree has the blocks that are in use or cached, each below the one before it.
type tree struct {
	nodes     []node  // 0 is unused
	freeNodes []int32 // the last one is taken next
	byHash    index   // sealed nodes
	byContent index   // how many sealed nodes hold the same tokens, whatever their salts
	path      []int32 // scratch: the known prefix of the claim at hand
	read      int32   // has no meaning: with it, reading ahead is not left out by the compiler
}

// slots are the places for blocks in each tier.
type slots struct {
	total  [tiers]int
	free   [tiers][]int32 // the last one is taken next
	cached [tiers]int     // with sealed blocks that are not in use
}

// A spanSet has the spans of cached blocks, by all that decides which goes first.
type spanSet struct {
	spans     []span // 0 is unused
	freeSpans []int32
	order     uint64
	ages      [buckets]list
	// aging is when the first span of each bucket of age may reach the next one, or
	// before, and agingFirst the earliest of them.
	aging      [buckets]int64
	agingFirst int64
	cells      [tiers][2]cellSet // [1]: of those over budget

	retained       []int32 // heap of spans, the first to expire on top
	retainedBlocks int
}

// accounts are what tenants and classes have cached.
type accounts struct {
	tenants, classes ledger
}

// A node is one block in use or cached.
type node struct {
	hash    parley.BlockHash // of a sealed block
	content uint64           // of the tokens up to its end, without salts; 0 if unknown
	keep    int64            // end of the longest retention asked for
	slot    int32
	copy    int32 // 1 + the disk slot that holds a copy of it; 0 if none
	parent  int32
	refs    int32        // entries in tables
	span    int32        // where it is cached, 0 if it is in use
	kids    [tiers]int32 // sealed children by tier
	tier    Tier
	hits    uint8
	sealed  bool
}

// A Move is a copy of one whole block that must be done before either end is
// used otherwise, and after the moves that were listed before it and share an
// end with it. Hash and Parent name the block, if it is sealed.
type Move struct {
	Hash, Parent     parley.BlockHash
	From, To         Tier
	FromSlot, ToSlot int32
}

// A Table lists the blocks of one sequence. The zero value is ready for
// [Cache.Admit] or [Cache.Fork]; after [Cache.Release] it can be used again.
type Table struct {
	// Blocks are the device blocks of the sequence in order of position. Only
	// the cache changes them, and it may do so in every operation. After [Cache.Trim]
	// another block of the sequence stands in place of one that is gone.
	Blocks []int32

	sealed  int // leading blocks that have their name
	nodes   []int32
	private bool // never sealed again: a block of it could not be indexed or shared
	trimmed int  // leading blocks that nothing looks at; the nodes of those that are gone are 0
	tokens  int  // what it was grown for
	prompt  int  // tokens
	place   int  // 1 + place in Cache.tables

	owner
	from    origin
	size    int
	revived revival
}

// A revival has the hits of the ghosts that follow the cached prefix of a prompt, from a block on.
type revival struct {
	from int
	hits []uint8
}

// An owner is whose blocks a table has, and for how long they should be kept.
type owner struct {
	tenant, class int32
	retain        time.Duration
}

// Sealed returns how many leading blocks have their name. The next block to
// seal, once its tokens are computed, is the one with this index.
func (t *Table) Sealed() int { return t.sealed }

// A span is a piece of one path through the tree: cached blocks that one
// request used last and that have equal prospects. From its shallow end
// requests take blocks back into use; from its deep end blocks are evicted, to
// the next tier or to memory alone. So the blocks in a higher tier stand above
// those in a lower one.
//
// What growing older needs, of itself and of its neighbours, lies in the first line of the processor's cache.
type span struct {
	times  spanTimes
	count  [tiers]int32 // nodes in each tier
	ghosts int32        // blocks evicted altogether and still remembered

	kind   uint8
	bucket uint8 // of its age
	over   bool  // its tenant or class is over budget
	inCell [tiers]bool

	links [linkCell + int(tiers)]link // the first one is by age

	deep   [tiers]int32 // the deepest node in each tier, 0 if there is none
	heapAt int32        // 1 + place in the heap of retained spans, 0 if not there
	order  uint64       // of creation: within one release, the deep ones first
	owner  spanOwner
}

// A spanOwner is whose budgets a span counts against.
type spanOwner struct{ tenant, class int32 }

// spanTimes are in nanoseconds: the last use, and the end of retention (0: none).
type spanTimes struct{ since, keep int64 }

func (s *span) blocks() int { return int(s.count[Device] + s.count[Host] + s.count[Disk]) }

// A span stands in several lists at once.
const (
	linkAge = iota
	linkTenant
	linkClass
	linkCell // one for each tier
)

type link struct{ prev, next int32 }

// A list is a chain of spans, the oldest first. 0 is unused.
type list struct{ head, tail int32 }

// A cellSet holds the spans of one tier whose deepest block can be evicted, by
// kind and age.
type cellSet struct {
	lists [kinds][buckets]list
	full  [kinds]uint64 // bit k: lists[kind][k] is not empty
	// latest is where the least was found last.
	latest cell
}

// A cell has the spans of one kind and one bucket of age.
type cell struct{ kind, bucket uint8 }

// copies lists the disk slots that hold copies.
type copies struct {
	owner []int32 // for each disk slot, the node of which it holds a copy; 0 if none
	queue []int32 // the slots, in the order in which they became copies; some no longer are
	n     int
	hand  int32 // the node at which Backup continues
	moves []Move
}

// ghosts remember blocks that were evicted lately: which span they were in, so
// that their reuse is learned from as if they had stayed, and how often they
// were hit. The oldest is forgotten when there is no room.
type ghosts struct {
	ring  []ghost
	next  int
	byKey index // 1 + place in ring
}

type ghost struct {
	key  uint64
	span int32 // 0: empty
	hits uint8
}

func newGhosts(most int, seed uint64) ghosts {
	return ghosts{ring: make([]ghost, most), byKey: newIndex(most, seed)}
}

func (k *copies) reset() {
	clear(k.owner)
	k.queue, k.n, k.hand = k.queue[:0], 0, 0
}

// Stats count what happened since the start. Ratios are the reader's: hits over
// asked tokens, waste over released slots.
type Stats struct {
	// Admitted counts admissions; AskedTokens their prompts, HitTokens what of
	// them need not be computed, and HitBlocks the blocks found, by tier.
	Admitted, AskedTokens, HitTokens uint64
	HitBlocks                        [tiers]uint64
	// Resumed counts those that were admitted again, which the numbers above do
	// not, and ResumedTokens what they needed not compute again.
	Resumed, ResumedTokens uint64
	// Misses counts admissions by the reason of their first missing block,
	// indexed by Miss.
	Misses [misses]uint64
	// Evicted counts the blocks that left each tier for want of room.
	Evicted [tiers]uint64
	// Deduplicated counts blocks that were computed twice and kept once.
	Deduplicated uint64
	// RetainRefused counts blocks whose retention found no room.
	RetainRefused uint64
	// ReleasedSlots counts token slots in the blocks of released tables, and
	// ReleasedTokens how many of them were used: the difference is waste.
	ReleasedSlots, ReleasedTokens uint64
}

// An account is what one tenant, or one class of service, keeps cached on the
// device. A block is charged to the tenant and class that
// used it last.
type account struct {
	name   string
	cached int // blocks
	tables int // running sequences
	budget int // blocks
	fixed  bool
	// class is that of the latest sequence of a tenant.
	class int32
	over  bool
	spans list
}

// A ledger holds the accounts of all tenants, or of all classes.
type ledger struct {
	accounts []account // 0 is unused
	byName   map[string]int32
	free     []int32
	budget   int // default for accounts without their own
	// byClass are budgets of tenants that have none of their own, by their class.
	byClass map[int32]int
	link    int
}
