package engine

import (
	"container/list"
	"context"
	"crypto/sha256"
	"runtime"
	"sync"

	"parley"
	"parley/engine/grammar"
)

// programNodesMax bounds the automata that are remembered, all together: a few
// dozen megabytes.
const programNodesMax = 400_000

// refusalNodes is what a remembered refusal counts for.
const refusalNodes = 64

// programs compiles grammars and remembers what became of them: clients send
// the same tools with every request. Only a few are compiled at once, so that
// however many hard ones come, most processors are left to the loop.
type programs struct {
	slots chan struct{}
	mu    sync.Mutex
	// used has a *compiled for each of known, the last used first.
	used  list.List
	known map[[sha256.Size]byte]*list.Element
	nodes int
}

// A programEntry grammar is a program or the reason why there is none.
type programEntry struct {
	key     [sha256.Size]byte
	program *grammar.Program
	err     error
}

func newPrograms() *programs {
	return &programs{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/4)),
		known: map[[sha256.Size]byte]*list.Element{}}
}

// get returns the program of g. It waits for a slot only if it must be compiled.
func (p *programs) get(ctx context.Context, g *parley.Grammar) (*grammar.Program, error) {
	key, err := grammar.Key(g)
	if err != nil {
		return nil, err
	}
	if c := p.find(key); c != nil {
		return c.program, c.err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := p.find(key); c != nil { // compiled by another request meanwhile
		return c.program, c.err
	}
	c := &programEntry{key: key}
	c.program, c.err = grammar.Compile(g)
	p.keep(c)
	return c.program, c.err
}

// find returns what is known of a key, or nil.
func (p *programs) find(key [sha256.Size]byte) *programEntry {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.known[key]
	if at == nil {
		return nil
	}
	p.used.MoveToFront(at)
	return at.Value.(*programEntry)
}

// keep remembers c and forgets what was not used for longest. What is larger
// than all there is room for is not remembered.
func (p *programs) keep(c *programEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.nodes() > programNodesMax || p.known[c.key] != nil {
		return
	}
	p.known[c.key] = p.used.PushFront(c)
	for p.nodes += c.nodes(); p.nodes > programNodesMax; {
		old := p.used.Remove(p.used.Back()).(*programEntry)
		delete(p.known, old.key)
		p.nodes -= old.nodes()
	}
}

func (c *programEntry) nodes() int {
	if c.program == nil {
		return refusalNodes
	}
	return c.program.Nodes()
}
