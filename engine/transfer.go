package engine

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/engine/sched"
)

// Blocks computed by another worker that runs the same model are as good as our own: their
// names say everything that their bytes depend on, but for what both workers must have in
// common. [Engine.ReadBlocks] is the giving side, an [Intake] the taking one. Both work
// between passes, on as many blocks at a time as the caller brings memory for.

// ErrNoRoom says that an intake has ended: running sequences need the memory.
var ErrNoRoom = errors.New("engine: there is no room for more blocks")

// errNoContent says that the engine was not told how to read and write blocks.
var errNoContent = errors.New("engine: blocks of this engine cannot be exchanged")

// ReadBlocks copies the blocks with the given names into room, one after the other, until room is full
// or one is not known, and returns how many bytes it copied. Of the first one it begins at an offset,
// and of the last one it may copy a beginning: large blocks are read in parts.
func (e *Engine) ReadBlocks(ctx context.Context, names []parley.BlockHash, at int,
	room []byte) (bytes int, err error) {
	if e.cfg.Content == nil {
		return 0, errNoContent
	}
	copied := 0
	err = e.visit(ctx, func(l *loop) { copied = l.readBlocks(names, at, room) })
	if err != nil {
		return 0, err
	}
	return copied, nil
}

// A Sweep goes through the blocks in memory, to find those that are worth keeping elsewhere.
type Sweep struct {
	// Least is the least chance of being used again that a block must have. Known reports
	// blocks that are kept already; it runs on the loop's own goroutine.
	Least float64
	Known func(name *parley.BlockHash) bool

	next int32
}

// sweepBlocks is how many blocks are looked at between two passes: some hundred microseconds.
const sweepBlocks = 2048

// Next appends to dst what it finds among the next blocks, and reports whether it has seen all
// of them.
func (s *Sweep) Next(ctx context.Context, e *Engine, dst []kv.Prospect) (list []kv.Prospect, whole bool, err error) {
	next := s.next
	err = e.visit(ctx, func(l *loop) { dst, next = l.sched.Prospects(dst, next, sweepBlocks, s.Least, s.Known) })
	if err != nil {
		return dst, false, err
	}
	s.next = next
	return dst, next == 0, nil
}

func (l *loop) readBlocks(names []parley.BlockHash, at int, room []byte) (bytes int) {
	for ; len(names) > 0 && bytes < len(room); names, at = names[1:], 0 {
		part := room[bytes:][:min(l.cfg.Content.Bytes-at, len(room)-bytes)]
		t, slot, copies, ok := l.sched.Locate(names[0])
		l.cache.worked = l.cache.worked || len(copies) > 0 // reading alone changes nothing
		if !ok || !l.copy(copies) || l.cfg.Content.Read(part, t, slot, at, names[0]) != nil {
			break
		}
		bytes += len(part)
	}
	return bytes
}

// An Intake takes blocks of one prompt into the cache that another worker computed. It
// keeps them there until it is closed.
type Intake struct {
	engine *Engine
	room   *sched.Intake
	sched  *sched.Scheduler // that it is an intake of: a restarted loop has another
	each   time.Duration
	came   int // bytes of the next block that were written already
}

// OpenIntake makes room for the blocks among the first tokens of what r asks to compute
// that are not cached here. It returns nil if there are none, or there is no room.
func (e *Engine) OpenIntake(ctx context.Context, r *parley.Request, tokens int) (*Intake, error) {
	q := e.intakeSeq(r)
	if q == nil || e.cfg.Content == nil {
		return nil, nil
	}
	q.Prepare()
	in := &Intake{engine: e}
	most := min(tokens, len(q.Tokens)-1) / kv.BlockTokens // the last token is computed in any case
	err := e.visit(ctx, func(l *loop) {
		in.sched, in.room = l.sched, l.sched.OpenIntake(q, most, l.cfg.Now())
		in.each = l.sched.BlockTime()
	})
	if err != nil || in.room == nil {
		return nil, err
	}
	return in, nil
}

// intakeSeq returns what r asks to compute as a sequence, nil if what is cached is of no
// use for it.
func (e *Engine) intakeSeq(r *parley.Request) *sched.Seq {
	tokens := r.Prompt
	for i := range r.Resume {
		if w := &r.Resume[i]; !w.Done && len(r.Prompt)+len(w.Tokens) > len(tokens) {
			tokens = append(append(make([]parley.Token, 0, len(r.Prompt)+len(w.Tokens)), r.Prompt...), w.Tokens...)
		}
	}
	if len(tokens) == 0 || len(tokens) > e.cfg.Model.ContextTokens || r.PromptLogprobs || r.Embed {
		return nil
	}
	return &sched.Seq{
		Tokens:       tokens,
		Prompt:       len(tokens),
		Class:        r.Class,
		Tenant:       r.Tenant,
		Salt:         r.Salt,
		PublicTokens: r.PublicTokens,
		Retain:       r.Retain,
	}
}

// Missing returns the names of the blocks to bring, in order.
func (in *Intake) Missing() []parley.BlockHash { return in.room.Missing() }

// BlockTime returns how long computing one of them is expected to take; 0 if that is not known.
func (in *Intake) BlockTime() time.Duration { return in.each }

// Put takes the next bytes of the blocks, one after the other; the last one may be continued by the
// next call. The error is [ErrNoRoom] if the intake has ended.
func (in *Intake) Put(ctx context.Context, data ...[]byte) error {
	for len(data) > 0 {
		ok := false
		err := in.engine.visit(ctx, func(l *loop) { data, ok = l.putSome(in, data) })
		if err == nil && !ok {
			err = ErrNoRoom
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putSome takes data until blocks that come have taken their share of the time, but at least the first
// piece, and returns the rest.
func (l *loop) putSome(in *Intake, data [][]byte) (rest [][]byte, ok bool) {
	for began := l.cfg.Now(); len(data) > 0; {
		if !l.putBlocks(in, data[0], began) {
			return nil, false
		}
		data = data[1:]
		now := l.cfg.Now()
		l.cache.arrivals.spent += now.Sub(began)
		began = now
		if l.cache.arrivals.most > 0 && l.cache.arrivals.spent >= l.cache.arrivals.most {
			break
		}
	}
	return data, true
}

func (l *loop) putBlocks(in *Intake, data []byte, now time.Time) bool {
	for len(data) > 0 {
		if in.sched != l.sched {
			return false
		}
		slot, copies, ok := l.sched.Place(in.room, now)
		if !ok {
			return false
		}
		l.copy(copies) // what they lose is not ours
		if !in.room.Open() {
			return false
		}
		part := data[:min(l.cfg.Content.Bytes-in.came, len(data))]
		l.cfg.Content.Write(slot, in.came, part)
		data = data[len(part):]
		if in.came += len(part); in.came == l.cfg.Content.Bytes {
			in.came = 0
			l.sched.Placed(in.room, now)
		}
	}
	return true
}

// Close ends the intake. What came stays in the cache as long as there is room.
func (in *Intake) Close() {
	_ = in.engine.visit(context.Background(), in.end) // an engine that closes ends all intakes
}

func (in *Intake) end(l *loop) {
	if in.room != nil && in.sched == l.sched {
		l.sched.CloseIntake(in.room, l.cfg.Now())
		l.cache.worked = true // the account is checked once, not after every batch
	}
}
