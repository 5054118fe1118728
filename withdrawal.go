package parley

import (
	"context"
	"sync"
)

// A Withdrawal lets the sender of a request withdraw it from a worker that has not
// begun to compute it. The worker decides, between two steps, so that no request is
// computed twice: a request that it has not begun ends with an error of the code
// [Withdrawn], and any other continues. The zero value is ready to use. It is safe
// for concurrent use.
type Withdrawal struct {
	mu    sync.Mutex
	asked bool
	told  func()
}

// Ask withdraws the request if it has not begun.
func (w *Withdrawal) Ask() {
	w.mu.Lock()
	first, told := !w.asked, w.told
	w.asked = true
	w.mu.Unlock()
	if first && told != nil {
		told()
	}
}

// OnAsk has f called when the sender withdraws the request: at once if it already has, and at
// most once. With nil, nothing is called any more.
func (w *Withdrawal) OnAsk(f func()) {
	w.mu.Lock()
	asked := w.asked
	w.told = f
	w.mu.Unlock()
	if asked && f != nil {
		f()
	}
}

type withdrawalKey struct{}

// WithWithdrawal returns a context in which a worker is asked for a request that can be
// withdrawn.
func WithWithdrawal(ctx context.Context, w *Withdrawal) context.Context {
	return context.WithValue(ctx, withdrawalKey{}, w)
}

// WithdrawalOf returns the withdrawal of a context, nil if it has none.
func WithdrawalOf(ctx context.Context) *Withdrawal {
	w, _ := ctx.Value(withdrawalKey{}).(*Withdrawal)
	return w
}
