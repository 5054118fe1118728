package parley

import (
	"context"
	"sync"
)

// A Withdrawal lets the sender of a request take it back from a worker that has not
// begun to compute it. The worker decides, between two steps, so that no request is
// computed twice: one that it has not begun ends with an error of the code
// [Withdrawn], and one that it has continues as if nothing had been asked. The zero
// value is one that was not asked. It is safe for concurrent use.
type Withdrawal struct {
	mu    sync.Mutex
	asked bool
	heed  func()
}

// Ask asks for the request back.
func (w *Withdrawal) Ask() {
	w.mu.Lock()
	first, heed := !w.asked, w.heed
	w.asked = true
	w.mu.Unlock()
	if first && heed != nil {
		heed()
	}
}

// Heed has f called when the request is asked for back: at once if it has been, and at
// most once. With nil nothing is called any more.
func (w *Withdrawal) Heed(f func()) {
	w.mu.Lock()
	asked := w.asked
	w.heed = f
	w.mu.Unlock()
	if asked && f != nil {
		f()
	}
}

type withdrawalKey struct{}

// WithWithdrawal returns a context in which a worker is asked for a request that can be
// taken back.
func WithWithdrawal(ctx context.Context, w *Withdrawal) context.Context {
	return context.WithValue(ctx, withdrawalKey{}, w)
}

// WithdrawalOf returns the withdrawal of a context, nil if it has none.
func WithdrawalOf(ctx context.Context) *Withdrawal {
	w, _ := ctx.Value(withdrawalKey{}).(*Withdrawal)
	return w
}
