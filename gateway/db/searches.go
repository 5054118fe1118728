package db

import (
	"context"

	"golang.org/x/sync/singleflight"

	"parley"
)

// Searches makes concurrent lookups of the same key share one: when thousands of
// requests arrive at once and none finds in memory what it needs, the store is asked
// once and not thousands of times. The zero value is ready, and safe for concurrent
// use. Nothing is remembered once a lookup has ended.
type Searches[V any] struct{ flights singleflight.Group }

// Find returns what look finds, or what another look for the same key finds if that is
// under way. It waits no longer than ctx lasts. The lookup continues when its callers
// leave, so look must end by itself; its context has the values of the first caller's.
// A panic in look is an error.
func (s *Searches[V]) Find(ctx context.Context, key string, look func(context.Context) (V, error)) (V, error) {
	detached := context.WithoutCancel(ctx)
	results := s.flights.DoChan(key, func() (found any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = parley.PanicError(p)
			}
		}()
		return look(detached)
	})
	select {
	case r := <-results:
		found, _ := r.Val.(V)
		return found, r.Err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}
