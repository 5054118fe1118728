package parley

import "context"

// An Uptake takes the deltas of an answer on whichever goroutine has them, where
// that holds up nobody. A worker whose answers all come by one connection hands
// deltas over where it reads them, and so need not wake anybody for each.
type Uptake interface {
	// Try reports whether the next delta can be taken without waiting. If so one is
	// handed over, whose slices are the worker's again when it was taken, and then
	// Done is called. If not, the delta comes as any other does.
	Try() bool
	Done()
}

type uptakeKey struct{}

// WithUptake returns a context in which a worker may hand deltas over as u allows.
// Who hands them on to another goroutine does not know what that allows: it must
// ask its worker with none, which is nil.
func WithUptake(ctx context.Context, u Uptake) context.Context {
	return context.WithValue(ctx, uptakeKey{}, u)
}

// UptakeOf returns the uptake of a context, nil if it has none.
func UptakeOf(ctx context.Context) Uptake {
	u, _ := ctx.Value(uptakeKey{}).(Uptake)
	return u
}
