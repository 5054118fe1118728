package wire

import (
	"context"
	"iter"
	"testing"

	"parley"
)

// A holding worker begins nothing: it gives back what it is asked for.
type holding struct{ came chan struct{} }

func (*holding) Models() []parley.Model { return nil }

func (h *holding) Generate(ctx context.Context, _ *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		wanted := make(chan struct{})
		parley.WithdrawalOf(ctx).OnAsk(func() { close(wanted) })
		h.came <- struct{}{}
		select {
		case <-wanted:
			yield(parley.Delta{}, parley.Errorf(parley.Withdrawn, "withdrawn"))
		case <-ctx.Done():
			yield(parley.Delta{}, ctx.Err())
		}
	}
}

// TestWithdrawingOverTheWire has two requests held and asks for one back: that one alone
// comes back, with how long it was there.
func TestWithdrawingOverTheWire(t *testing.T) {
	h := &holding{came: make(chan struct{})}
	c := dial(t, serveWire(t, h), ClientConfig{})
	var asked, other parley.Withdrawal
	ended := make(chan error, 2)
	stays := make(chan *parley.WorkerTimings, 2)
	ctx, stop := context.WithCancel(t.Context())
	for _, w := range []*parley.Withdrawal{&asked, &other} {
		go func() {
			for d, err := range c.Generate(parley.WithWithdrawal(ctx, w), &parley.Request{Prompt: []parley.Token{1}}) {
				stays <- d.Timings
				ended <- err
			}
		}()
		<-h.came
	}
	asked.Ask()
	if stay, err := <-stays, <-ended; parley.CodeOf(err) != parley.Withdrawn || stay == nil || stay.Whole == 0 {
		t.Errorf("got %v, after a stay of %+v", err, stay)
	}
	stop()
	<-stays
	if err := <-ended; parley.CodeOf(err) == parley.Withdrawn {
		t.Error("a request came back that was not asked for")
	}
	other.Ask() // it has ended: nothing is sent for it
}
