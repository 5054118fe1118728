package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"parley"
	"parley/internal/exactmath"
	"parley/route/kvindex"
)

// A Config says how decisions weigh. The zero value works; it was chosen for
// hit ratio and balance over traces of different sharing (see the tests).
type Config struct {
	// WorkWeight is what a token of work routed to a worker lately adds to its
	// score, in tokens; 0 means 0.05. Work is forgotten by half in WorkHalf; 0
	// means 40 s.
	WorkWeight float64
	WorkHalf   time.Duration
	// BurstBound and ShareBound are how many times the mean work of all workers
	// one may have had before it is passed over, lately and over a longer
	// time, which is forgotten by half in ShareHalf. 0 means 2, 1.07 and 10
	// minutes. Both bounds are more than 1.
	BurstBound, ShareBound float64
	ShareHalf              time.Duration
	// SlackTokens is how much more than the mean a worker may have had in any
	// case; 0 means 4,096. Where little is asked, a conversation that stays where
	// it is known is worth more than balance.
	SlackTokens int
	// HighWatermark is the part of a worker's memory that running requests may
	// use before it is passed over; 0 means 0.9.
	HighWatermark float64
	// RunningTokens is what each running request adds to the score, 0 means 16;
	// MemoryTokens what a memory in full use adds, 0 means 1,024.
	RunningTokens, MemoryTokens int
	// HostCredit and DiskCredit are what a token held in a lower tier is worth
	// of one on the device; 0 means 0.75 and 0.25.
	HostCredit, DiskCredit float64
	// TieTokens is how far apart the scores of near ties are; 0 means 64.
	TieTokens int
	// FetchTime is the least time that a worker gets to fetch blocks before it computes
	// them; 0 means 250 ms.
	FetchTime time.Duration
	// FirstPrompt is the least time that a prompt gets to be computed elsewhere and fetched while it is not known how
	// fast prompts are computed there; 0 means a minute.
	FirstPrompt time.Duration
	// FetchGain is how much of the time to compute a fetch may take; 0 means 1: all of it.
	FetchGain float64
	// Index is for the indexes of all block sizes, besides BlockTokens.
	Index kvindex.Config
	// Seed is for what is random.
	Seed uint64
}

func (c *Config) setDefaults() error {
	orDefault(&c.WorkWeight, 0.05)
	orDefault(&c.WorkHalf, 40*time.Second)
	orDefault(&c.BurstBound, 2)
	orDefault(&c.ShareBound, 1.07)
	orDefault(&c.ShareHalf, 10*time.Minute)
	orDefault(&c.SlackTokens, 4096)
	orDefault(&c.HighWatermark, 0.9)
	orDefault(&c.RunningTokens, 16)
	orDefault(&c.MemoryTokens, 1024)
	orDefault(&c.HostCredit, 0.75)
	orDefault(&c.DiskCredit, 0.25)
	orDefault(&c.TieTokens, 64)
	orDefault(&c.FetchTime, 250*time.Millisecond)
	orDefault(&c.FirstPrompt, time.Minute)
	orDefault(&c.FetchGain, 1)
	var problems []error
	for _, row := range []struct {
		what     string
		is       float64
		from, to float64
	}{
		{"WorkWeight", c.WorkWeight, 0, 100},
		{"WorkHalf in seconds", c.WorkHalf.Seconds(), 1e-3, 1e6},
		{"BurstBound", c.BurstBound, 1.001, 1e6},
		{"ShareBound", c.ShareBound, 1.001, 1e6},
		{"ShareHalf in seconds", c.ShareHalf.Seconds(), 1e-3, 1e6},
		{"SlackTokens", float64(c.SlackTokens), 0, 1e9},
		{"HighWatermark", c.HighWatermark, 0, 1},
		{"RunningTokens", float64(c.RunningTokens), 0, 1e6},
		{"MemoryTokens", float64(c.MemoryTokens), 0, 1e6},
		{"HostCredit", c.HostCredit, 0, 1},
		{"DiskCredit", c.DiskCredit, 0, 1},
		{"TieTokens", float64(c.TieTokens), 0, 1e6},
		{"FetchGain", c.FetchGain, 0, 1e6},
	} {
		if !(row.is >= row.from && row.is <= row.to) {
			problems = append(problems,
				fmt.Errorf("route: %s is %g: expected %g to %g", row.what, row.is, row.from, row.to))
		}
	}
	return errors.Join(problems...)
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// An ID is the number of a worker in a router.
type ID int

// A Member is what a worker is when it joins.
type Member struct {
	// Name is for people; Model and Pool must be those of a request.
	Name, Model, Pool string
	// BlockTokens is the number of tokens in its blocks; 0 if they are not
	// known, so that nothing can be said about what it holds.
	BlockTokens int
	// CapacityTokens is how much context its memory can hold; 0 if unknown. See
	// [Router.Resize].
	CapacityTokens int
	// Source says what it reports about its blocks. CapacityBlocks follows from
	// the other fields if it is 0.
	Source kvindex.Source
}

// A Status is what a worker said last. The router counts what it sent itself;
// of both the higher number is believed.
type Status struct {
	// Ready is set when it may get work: it is healthy and not draining.
	Ready bool
	// UsedTokens of its memory are in use by running requests.
	UsedTokens int
	// WaitingTokens are in prompts that wait or are being computed; Running
	// requests are writing.
	WaitingTokens, Running int
	// Share is how much work it should get, of that of the others: less than 1
	// while it warms up. 0 means 1.
	Share float64
	// Role is what it should do of requests, as long as others do the rest. With RoleOnly
	// it can do nothing else.
	Role     parley.WorkerRole
	RoleOnly bool
	// Divides names how a foreign engine moves keys and values between workers that share
	// a request; those with the same name can be paired. Empty if it does not.
	Divides string
	// Exchange says whether and how blocks can be moved from and to it.
	Exchange BlockExchange
}

// A Router knows the workers and picks among them.
type Router struct {
	cfg     Config
	rng     *rand.Rand
	workers []*worker // nil if unused
	indexes []*sizedIndex
	decayed time.Time // up to when work was forgotten
	ranked  []candidate
	links   []blockLink
}

// A sizedIndex is the index of the workers with blocks of one size, and what
// it said about the prompt in question.
type sizedIndex struct {
	*kvindex.Index
	users   int
	matches kvindex.Matches
	keys    []parley.BlockKey
}

type worker struct {
	Member
	status  Status
	index   *sizedIndex // nil if blocks are not known
	number  kvindex.Worker
	work    float64 // tokens routed lately
	share   float64 // tokens routed over a longer time
	waiting int     // tokens sent and not computed
	running int     // requests sent and not done
	moving  int     // fetches that it takes part in
	pace    promptPace
}

// New returns a router without workers.
func New(cfg Config) (*Router, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Router{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0))}, nil
}

// Join adds a worker. It gets no work until a status says that it is ready.
func (r *Router) Join(m Member) (ID, error) {
	w := &worker{Member: m}
	if m.BlockTokens > 0 {
		index, err := r.index(m.BlockTokens)
		if err != nil {
			return 0, err
		}
		if m.Source.CapacityBlocks == 0 {
			m.Source.CapacityBlocks = m.CapacityTokens / m.BlockTokens
		}
		if w.number, err = index.Join(m.Source); err != nil {
			return 0, err
		}
		w.index = index
		index.users++
	}
	w.work, w.share = r.means()
	at := slices.Index(r.workers, nil)
	if at < 0 {
		at = len(r.workers)
		r.workers = append(r.workers, nil)
	}
	r.workers[at] = w
	return ID(at), nil
}

// Leave forgets a worker. Its number may be given to another one.
func (r *Router) Leave(id ID) {
	w := r.workers[id]
	r.workers[id] = nil
	r.unlink(id)
	if w.index == nil {
		return
	}
	w.index.Leave(w.number)
	if w.index.users--; w.index.users == 0 {
		r.indexes = slices.DeleteFunc(r.indexes, func(x *sizedIndex) bool { return x == w.index })
	}
}

func (r *Router) index(blockTokens int) (*sizedIndex, error) {
	for _, x := range r.indexes {
		if x.BlockTokens() == blockTokens {
			return x, nil
		}
	}
	cfg := r.cfg.Index
	cfg.BlockTokens = blockTokens
	index, err := kvindex.New(cfg)
	if err != nil {
		return nil, err
	}
	r.indexes = append(r.indexes, &sizedIndex{Index: index})
	return r.indexes[len(r.indexes)-1], nil
}

// Index returns where a worker's events go, and its number there; nil if its
// blocks are not known.
func (r *Router) Index(id ID) (*kvindex.Index, kvindex.Worker) {
	if w := r.workers[id]; w.index != nil {
		return w.index.Index, w.number
	}
	return nil, 0
}

// BlockSizes returns the sizes of blocks for which a request needs keys.
func (r *Router) BlockSizes() (sizes []int) {
	for _, x := range r.indexes {
		sizes = append(sizes, x.BlockTokens())
	}
	return sizes
}

// Resize notes how much context a worker's memory can hold, where that was not
// known when it joined or has changed.
func (r *Router) Resize(id ID, tokens int) {
	w := r.workers[id]
	if w.CapacityTokens == tokens {
		return
	}
	w.CapacityTokens = tokens
	if w.index != nil {
		w.index.Resize(w.number, tokens/w.BlockTokens)
	}
}

// Restarted notes that a worker is a new process, which holds nothing.
func (r *Router) Restarted(id ID) {
	r.unlink(id)
	if w := r.workers[id]; w.index != nil {
		w.index.Restarted(w.number)
	}
}

// Report takes a worker's status.
func (r *Router) Report(id ID, s Status) { r.workers[id].status = s }

// means returns the mean work of the workers that are up.
func (r *Router) means() (work, share float64) {
	n := 0
	for _, w := range r.workers {
		if w != nil {
			work, share, n = work+w.work, share+w.share, n+1
		}
	}
	return work / float64(max(n, 1)), share / float64(max(n, 1))
}

// advance forgets old work and expectations.
func (r *Router) advance(now time.Time) {
	if since := now.Sub(r.decayed); since > 0 {
		work := exactmath.Exp2(-since.Seconds() / r.cfg.WorkHalf.Seconds())
		share := exactmath.Exp2(-since.Seconds() / r.cfg.ShareHalf.Seconds())
		for _, w := range r.workers {
			if w != nil {
				w.work *= work
				w.share *= share
			}
		}
		r.decayed = now
	}
	for _, x := range r.indexes {
		x.Expire(now)
	}
}

// Sent notes that a request was sent as decided.
func (r *Router) Sent(q *Request, d *Decision, now time.Time) {
	r.advance(now)
	w := r.workers[d.Worker]
	share := w.relative()
	w.work += float64(d.Uncached) / share
	w.share += float64(d.Uncached) / share
	w.waiting += d.Uncached
	w.running++
	if w.index != nil {
		first, found := w.index.Expect(w.number, q.keys(w.BlockTokens), now)
		d.expect(first, found, now)
	}
}

// Computed notes that the prompt of a request sent as decided was computed:
// its first token has come, or it has failed before that.
func (r *Router) Computed(d *Decision) {
	if w := r.workers[d.Worker]; w != nil {
		w.waiting = max(0, w.waiting-d.Uncached)
	}
}

// Done notes that a request sent as decided has ended.
func (r *Router) Done(d *Decision) {
	if w := r.workers[d.Worker]; w != nil {
		w.running = max(0, w.running-1)
	}
}

// Unsent takes back that a request sent as decided was work and that its blocks will be there: the worker gave it
// back before it had begun.
func (r *Router) Unsent(q *Request, d *Decision) {
	w := r.workers[d.Worker]
	if w == nil {
		return
	}
	uncached := float64(d.Uncached) / w.relative()
	w.work, w.share = max(0, w.work-uncached), max(0, w.share-uncached)
	if w.index != nil && d.sent.expects {
		w.index.Unexpect(w.number, q.keys(w.BlockTokens), d.sent.first, d.sent.at)
	}
}

// relative returns how much work a worker should get, of that of the others.
func (w *worker) relative() float64 {
	if w.status.Share <= 0 {
		return 1
	}
	return max(w.status.Share, 0.01)
}
