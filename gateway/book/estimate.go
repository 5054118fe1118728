package book

import (
	"sync"

	"parley/limit"
)

// An Estimate is a [limit.Estimate] that is safe for concurrent use.
type Estimate struct {
	mu sync.Mutex
	of limit.Estimate
}

// Learn takes the length of an answer.
func (e *Estimate) Learn(tokens int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of.Learn(tokens)
}

// Tokens returns how many tokens to reserve for an answer of at most longest.
func (e *Estimate) Tokens(longest int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of.Tokens(longest)
}
