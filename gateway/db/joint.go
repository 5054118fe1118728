package db

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Searches lets all who want to know the same at the same time share one search for
// it: when thousands of requests arrive at once and none finds in memory what it
// needs, the store is asked once and not thousands of times. The zero value is ready,
// and safe for concurrent use. Nothing is remembered once a search has ended.
type Searches[K comparable, V any] struct {
	mu       sync.Mutex
	underWay map[K]*search[V]
}

// A search is one that somebody has begun. What it found is set before done is
// closed.
type search[V any] struct {
	done  chan struct{}
	found V
	err   error
}

// Find returns what look finds, or what another's look for the same key finds if that is
// under way. It waits no longer than ctx lasts. The search goes on when those who
// wait for it leave, so look must come to an end by itself; its context has the
// values of whoever began.
func (s *Searches[K, V]) Find(ctx context.Context, key K, look func(context.Context) (V, error)) (V, error) {
	one := s.join(ctx, key, look)
	select {
	case <-one.done:
		return one.found, one.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

// join returns the search for a key, and begins it if need be.
func (s *Searches[K, V]) join(ctx context.Context, key K, look func(context.Context) (V, error)) *search[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.underWay[key]; one != nil {
		return one
	}
	if s.underWay == nil {
		s.underWay = map[K]*search[V]{}
	}
	one := &search[V]{done: make(chan struct{})}
	s.underWay[key] = one
	go s.run(context.WithoutCancel(ctx), key, one, look)
	return one
}

// run looks, and tells all who wait. A panic is an error to them like any other.
func (s *Searches[K, V]) run(ctx context.Context, key K, one *search[V], look func(context.Context) (V, error)) {
	defer func() {
		if p := recover(); p != nil {
			one.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		s.mu.Lock()
		delete(s.underWay, key)
		s.mu.Unlock()
		close(one.done)
	}()
	one.found, one.err = look(ctx)
}
