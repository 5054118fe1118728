package answer

import (
	"context"

	"parley/gateway/infer"
)

// Each hands what is added to take until the answer is complete. While nothing is added
// for k.Every, it calls k.Ping instead. One request is answered on the caller's
// goroutine: between the worker's connection and the client's there is no other. Take
// and Ping are never called at the same time.
//
// It is the one loop of all endpoints that answer, whole or as a stream. What fails before anything
// was shown may begin again with another model.
func (a *Answer) Each(ctx context.Context, k KeepAlive, take func([]Piece) error) error {
	for {
		shown, err := a.eachOnce(ctx, k, take)
		if err == nil || shown || a.again == nil || ctx.Err() != nil {
			return err
		}
		next, err := a.again(err)
		if err != nil {
			return err
		}
		a.begin(next)
	}
}

// eachOnce hands on what comes of one generation. It reports whether more than progress was shown.
func (a *Answer) eachOnce(ctx context.Context, k KeepAlive, take func([]Piece) error) (shown bool, err error) {
	p := a.keepAlive(k, take)
	defer p.stop()
	each := a.gathered
	if a.work.Alone() {
		each = a.alone
	}
	err = each(ctx, p)
	if broken := p.failure(); broken != nil {
		err = broken
	}
	return p.shown, err
}

// alone answers one request here.
func (a *Answer) alone(ctx context.Context, p *pinger) error {
	err := a.work.Each(func(s *infer.Step) (bool, error) {
		a.waiting.Store(s.Waits())
		pieces, err := a.accept(0, s)
		if err == nil && len(pieces) > 0 {
			err = p.hand(pieces)
		}
		return a.over(), err
	})
	switch {
	case err == nil || a.over():
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return a.constraint.refused(err)
}

// gathered waits for the deltas of several requests. Deltas that already wait are
// joined.
func (a *Answer) gathered(ctx context.Context, p *pinger) error {
	for !a.over() {
		pieces, err := a.next(ctx, p.broken)
		if err == nil && len(pieces) > 0 {
			err = p.hand(pieces)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Collect waits for the whole answer.
func (a *Answer) Collect(ctx context.Context) ([]CollectedChoice, error) {
	choices := make([]CollectedChoice, len(a.Choices))
	err := a.Each(ctx, KeepAlive{}, func(pieces []Piece) error {
		for i := range pieces {
			choices[pieces[i].Choice].Add(pieces[i])
		}
		return nil
	})
	for i := 0; err == nil && a.judged != nil && i < len(choices); i++ {
		err = a.judged(i, &choices[i])
	}
	return choices, err
}
