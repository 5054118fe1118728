package route

import (
	"slices"
	"strconv"
	"time"

	"parley"
)

// A worker that was picked for a request may hold less of its prompt than another one,
// which was busy, is draining or has no room. Then there are two ways to the keys and
// values of the tokens in between: compute them, or fetch the blocks from the other
// worker. What takes less time is decided here, for each request, by what is known: how
// fast the worker computes prompts, how large blocks are, how fast they came from that
// worker before, and how many fetches share the way now.

// BlockExchange is what a worker says about moving its blocks.
type BlockExchange struct {
	// Format names what the bytes of its blocks depend on; workers that agree in it can
	// exchange blocks. Empty if it cannot.
	Format string
	// BlockBytes is the size of a block.
	BlockBytes int
	// Gives is set while others can fetch from it: it is up, or draining.
	Gives bool
	// Place is where it can share memory: workers that say the same have a faster way. Empty if it shares none.
	Place string
}

// A Transfer is what a worker should fetch before it computes a request.
type Transfer struct {
	// From is the worker that holds the first Tokens tokens of the prompt, Name is its
	// name; More of them are missing where the request goes.
	From         ID
	Name         string
	Tokens, More int
	// Compute and Move are how long computing and fetching them is expected to take, and
	// Within is after what time computing is the better choice in any case.
	Compute, Move, Within time.Duration
	// Link says what the estimate of Move is based on.
	Link string

	sharing float64 // transfers that share the link
}

// String returns the transfer in one line.
func (t *Transfer) String() string {
	return "fetch " + strconv.Itoa(t.More) + " tokens from " + t.Name + ": about " + t.times()
}

// times returns what was compared.
func (t *Transfer) times() string {
	return rounded(t.Move) + " (" + t.Link + "), computed " + rounded(t.Compute)
}

func rounded(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

const (
	// fetchLeast is the least number of tokens that are worth a fetch.
	fetchLeast = 64
	// withinFactor is how many times the time that was expected a fetch gets.
	withinFactor = 3
	// linkRest is how long a way is not tried again on which fetches failed.
	linkRest = 30 * time.Second
)

// Fetch decides whether the worker of a decision should fetch blocks that it misses. It
// must follow the [Router.Pick] of the same request, whose decision it completes.
func (r *Router) Fetch(q *Request, d *Decision, now time.Time) *Transfer {
	to := r.workers[d.Worker]
	if d.Uncached < fetchLeast || to.index == nil || to.status.Exchange.Format == "" {
		return nil
	}
	var best, declined *Transfer
	for id, from := range r.workers {
		if from == nil || from == to || !from.gives(to) {
			continue
		}
		match := from.index.matches.Of(from.number)
		held := min(int(match.Blocks-match.Expected)*from.BlockTokens, q.PromptTokens)
		if slices.Contains(q.HeldBy, ID(id)) {
			held = (q.PromptTokens - 1) / from.BlockTokens * from.BlockTokens
		}
		if held-d.Cached < fetchLeast {
			continue
		}
		t, worth := r.weigh(ID(id), d.Worker, held, held-d.Cached, now)
		switch {
		case worth && (best == nil || t.gain() > best.gain()):
			best = t
		case !worth && t != nil && (declined == nil || t.gain() > declined.gain()):
			declined = t
		}
	}
	d.fetch(best)
	d.decline(declined)
	return best
}

// prefillLeast is the least number of uncached tokens for which a worker that decodes has
// its prompt computed elsewhere.
const prefillLeast = 256

// prefillWithin is the least time that a prompt gets to be computed elsewhere and fetched.
const prefillWithin = 2 * time.Second

// Prefill decides where the prompt of a request is computed that goes to a worker which
// should only decode: on a worker for prompts, from which it is fetched then. It reports
// false if the worker itself had better compute it: it is not one that only decodes, little
// is missing, there is no worker for prompts, or moving the blocks would take longer.
func (r *Router) Prefill(q *Request, d *Decision, now time.Time) (Decision, bool) {
	to := r.workers[d.Worker]
	if to.status.Role != parley.RoleDecode || d.Uncached < prefillLeast || to.status.Exchange.Format == "" {
		return Decision{}, false
	}
	first, err := r.Pick(q.promptFor(to), now)
	if err != nil {
		return Decision{}, false
	}
	from := r.workers[first.Worker]
	held := q.PromptTokens / to.BlockTokens * to.BlockTokens
	t, worth := r.weigh(first.Worker, d.Worker, held, held-d.Cached, now)
	if !worth {
		d.decline(t)
		return Decision{}, false
	}
	pace := r.paceOf(from) // they come as they are computed
	computed := pace.time(q.PromptTokens-first.Uncached, q.PromptTokens) + pace.time(0, from.waiting)
	t.Within = max(t.Within, withinFactor*(t.Move+computed), prefillWithin)
	if pace.measured == 0 { // a prompt that is broken off teaches nothing
		t.Within = max(t.Within, r.cfg.FirstPrompt)
	}
	d.fetch(t) // instead of what it would have fetched from elsewhere
	return first, true
}

// gives reports whether a worker can fetch from another one.
func (w *worker) gives(to *worker) bool {
	e := &w.status.Exchange
	return e.Gives && e.Format == to.status.Exchange.Format && w.Model == to.Model && w.Pool == to.Pool &&
		w.index == to.index
}

// weigh returns the transfer of more tokens between two workers, and whether it is expected
// to take less time than computing them. It returns nil if the way between them is not to be tried.
func (r *Router) weigh(from, to ID, held, more int, now time.Time) (t *Transfer, worth bool) {
	w := r.workers[to]
	l := r.expected(from, to)
	if now.Before(l.rests) {
		return nil, false
	}
	t = &Transfer{
		From:    from,
		Name:    r.workers[from].Name,
		Tokens:  held,
		More:    more,
		Link:    l.String(),
		sharing: float64(1 + max(w.moving, r.workers[from].moving)),
	}
	pace := r.paceOf(w)
	t.Compute = pace.time(held-more, held) + pace.time(0, w.waiting) // after what was sent before
	t.Move = l.time(float64(more/w.BlockTokens) * float64(w.status.Exchange.BlockBytes) * t.sharing)
	t.Within = max(r.cfg.FetchTime, min(withinFactor*t.Move, t.Compute))
	return t, float64(t.Move)*l.doubt(now) <= r.cfg.FetchGain*float64(t.Compute)
}

// gain returns how much sooner a prompt is there with a transfer than without.
func (t *Transfer) gain() time.Duration { return t.Compute - t.Move }

func (r *Router) linkOf(from, to ID) *blockLink {
	for i := range r.links {
		if l := &r.links[i]; l.from == from && l.to == to {
			return l
		}
	}
	return nil
}

// link returns what is known of the way between two workers, to be changed.
func (r *Router) link(from, to ID) *blockLink {
	if l := r.linkOf(from, to); l != nil {
		return l
	}
	r.links = append(r.links, blockLink{from: from, to: to})
	return &r.links[len(r.links)-1]
}

// Fetching notes that a request was sent with a transfer.
func (r *Router) Fetching(d *Decision) {
	for _, id := range []ID{d.Worker, d.Fetch.From} {
		if w := r.workers[id]; w != nil {
			w.moving++
		}
	}
}

// Fetched notes what came of a transfer: bytes, after a time; broken if the way between
// the workers is at fault. With neither, nothing is learned.
func (r *Router) Fetched(d *Decision, bytes int64, took time.Duration, broken bool, now time.Time) {
	for _, id := range []ID{d.Worker, d.Fetch.From} {
		if w := r.workers[id]; w != nil {
			w.moving = max(0, w.moving-1)
		}
	}
	if !broken && (bytes == 0 || took <= 0) || r.workers[d.Worker] == nil || r.workers[d.Fetch.From] == nil {
		return
	}
	l := r.link(d.Fetch.From, d.Worker)
	if broken {
		l.rests = now.Add(linkRest)
		return
	}
	l.learn(float64(bytes)*d.Fetch.sharing, took, now)
}

// unlink forgets the ways from and to a worker.
func (r *Router) unlink(id ID) {
	r.links = slices.DeleteFunc(r.links, func(l blockLink) bool { return l.from == id || l.to == id })
}
