package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"sync"
	"time"

	"parley/gateway/openai"
)

const (
	// requestsAtOnce is how many requests of all batches are answered together:
	// enough to fill the passes of an idle machine. A batch has no more than that
	// in hand either, those counted that rest.
	requestsAtOnce = 16
	// batchesAtOnce is how many batches take turns. The others wait in order, but
	// for those of tenants that have none under way: up to batchesMost, they begin.
	batchesAtOnce = 8
	batchesMost   = 256
	// triesMax is how often a request is made that the server rejects, and
	// retryWait how long is waited before the first repetition.
	triesMax   = 6
	retryWait  = time.Second
	sweepEvery = time.Hour
)

var (
	errCancelled = errors.New("the batch was cancelled")
	errExpired   = errors.New("the batch has expired")
)

// A Runner works batches off.
type Runner struct {
	Store *Store
	// Answer makes a request to an endpoint, for an author, and returns its answer.
	// It returns an error only if ctx has ended.
	Answer func(ctx context.Context, by Author, endpoint string, body []byte) (openai.BatchResponse, error)
	Now    func() time.Time
	Log    *slog.Logger

	places *slots
	tasks  sync.WaitGroup
	mu     sync.Mutex
	under  map[string]string // the tenants of the batches under way, by id
}

// Run works until ctx ends. What is not complete by then is taken up by the next
// Run, of this process or another.
func (r *Runner) Run(ctx context.Context) {
	r.places, r.under = newSlots(requestsAtOnce), map[string]string{}
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	defer r.tasks.Wait()
	r.expire()
	for {
		r.startWaiting(ctx)
		select {
		case <-ctx.Done():
			return
		case <-r.Store.news:
		case <-sweep.C:
			r.expire()
		}
	}
}

func (r *Runner) expire() {
	if err := r.Store.Expire(r.Now()); err != nil {
		r.Log.Warn("batch file cleanup failed", "error", err)
	}
}

// A task is a batch under way. What is fixed of it is read without the store's
// lock.
type task struct {
	*record
	fixed record
}

// startWaiting takes up batches that are not under way, oldest first.
func (r *Runner) startWaiting(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.Store.unfinished() {
		id, tenant := t.fixed.ID, t.fixed.Owner.Tenant
		if _, begun := r.under[id]; begun || !r.mayBegin(tenant) {
			continue
		}
		r.under[id] = tenant
		r.tasks.Go(func() {
			if err := r.work(ctx, t); err != nil && ctx.Err() == nil {
				r.Log.Error("batch stopped; resuming at the next start", "batch", id, "error", err)
				return // it stays under way, so that the same fault does not come again and again
			}
			r.mu.Lock()
			delete(r.under, id)
			r.mu.Unlock()
			r.Store.tell()
		})
	}
}

// mayBegin reports whether another batch of a tenant may. The lock is held.
func (r *Runner) mayBegin(tenant string) bool {
	if len(r.under) < batchesAtOnce {
		return true
	}
	for _, of := range r.under {
		if of == tenant {
			return false
		}
	}
	return len(r.under) < batchesMost
}

// unfinished lists the batches that are not over, oldest first.
func (s *Store) unfinished() (list []task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range s.batches {
		if !rec.Status.Over() {
			list = append(list, task{rec, *rec})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].fixed.Order < list[j].fixed.Order })
	return list
}

// work brings a batch from whatever state it is in to its end.
func (r *Runner) work(ctx context.Context, t task) error {
	if r.Store.view(t.record).Status == openai.BatchValidating {
		if err := r.validate(t); err != nil {
			return err
		}
	}
	state := r.Store.view(t.record)
	if state.Status.Over() {
		return nil
	}
	j, err := r.Store.openJournal(&state)
	if err != nil {
		return err
	}
	err = r.answerAll(ctx, t, j)
	if err == nil {
		err = r.finalize(t, j)
	}
	return errors.Join(err, j.close(), r.cleanUp(t))
}

func (r *Runner) cleanUp(t task) error {
	if !r.Store.view(t.record).Status.Over() {
		return nil
	}
	return r.Store.discard(t.fixed.ID)
}

// validate reads the input file, and fails the batch or lets it begin.
func (r *Runner) validate(t task) error {
	input, _, err := r.Store.Of(t.fixed.Owner).Read(t.fixed.InputFileID)
	if err != nil {
		return err
	}
	total, faults, err := validate(input, t.fixed.Endpoint, &r.Store.limits)
	if err := errors.Join(err, input.Close()); err != nil {
		return err
	}
	now := r.Now().Unix()
	return r.Store.change(t.record, func(b *record) bool {
		switch {
		case len(faults) > 0:
			b.Status, b.FailedAt = openai.BatchFailed, now
			b.Batch.Errors = &openai.BatchErrors{Object: "list", Data: faults}
		case b.Status == openai.BatchValidating:
			b.Status, b.InProgressAt = openai.BatchInProgress, now
		}
		b.RequestCounts.Total = total
		return true
	})
}

// answerAll answers every request that has no result. It returns nil if the
// batch can be finalized: all are answered, or it was cancelled, or its time is
// over and the rest have results that say so.
func (r *Runner) answerAll(ctx context.Context, t task, j *journal) error {
	state := r.Store.view(t.record)
	if state.Status == openai.BatchFinalizing {
		return nil
	}
	input, _, err := r.Store.Of(t.fixed.Owner).Read(t.fixed.InputFileID)
	if err != nil {
		return err
	}
	defer input.Close()
	within, cancel := context.WithDeadlineCause(ctx, time.Now().Add(time.Unix(state.ExpiresAt, 0).Sub(r.Now())),
		errExpired)
	defer cancel()
	within, stop := context.WithCancelCause(within)
	defer stop(nil)
	r.Store.onCancel(t.record, func() { stop(errCancelled) })
	defer r.Store.onCancel(t.record, nil)

	err = r.submit(within, input, t, j)
	switch {
	case j.failure() != nil:
		return j.failure()
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(within), errExpired):
		return r.expireRest(input, j)
	case errors.Is(context.Cause(within), errCancelled):
		return nil
	}
	return err
}

// onCancel sets what ends the work on a batch, and calls it at once if the batch
// was cancelled already.
func (s *Store) onCancel(rec *record, cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.cancel = cancel
	if cancel != nil && rec.Status == openai.BatchCancelling {
		cancel()
	}
}

// submit hands the requests that have no result to the server, a few at a time,
// and waits for all that it began.
func (r *Runner) submit(ctx context.Context, input io.Reader, t task, j *journal) error {
	var begun sync.WaitGroup
	defer begun.Wait()
	inHand := make(chan struct{}, requestsAtOnce)
	return eachLine(input, r.Store.limits.LineBytes, func(number int, raw []byte) error {
		line, err := openai.ParseBatchLine(raw)
		if err != nil {
			return fmt.Errorf("line %d was good before: %w", number, err)
		}
		if j.has(line.CustomID) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case inHand <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		begun.Go(func() {
			defer func() { <-inHand }()
			r.inTurn(ctx, t.fixed.Owner.Tenant, func(ctx context.Context) { r.answer(ctx, t, j, line) })
		})
		return nil
	})
}

// answer makes one request until it is answered for good, and keeps the result.
// If ctx ends first there is none.
func (r *Runner) answer(ctx context.Context, t task, j *journal, line *openai.BatchLine) {
	for try := 1; ; try++ {
		response, err := r.Answer(ctx, t.fixed.author(), t.fixed.Endpoint, line.Body)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			j.add(failed(line.CustomID, err))
			break
		}
		if turnedAway := response.StatusCode == 429 || response.StatusCode == 503; !turnedAway || response.Final ||
			try == triesMax {
			j.add(openai.BatchResult{ID: newID("batch_req_"), CustomID: line.CustomID, Response: &response})
			break
		}
		if Rest(ctx, retryWait<<(try-1)) != nil {
			return
		}
	}
	counts := j.counted()
	r.Store.mu.Lock()
	t.record.RequestCounts = counts
	r.Store.mu.Unlock()
}

// expireRest gives every request without a result one that says why.
func (r *Runner) expireRest(input io.ReadSeeker, j *journal) error {
	if _, err := input.Seek(0, io.SeekStart); err != nil {
		return err
	}
	err := eachLine(input, r.Store.limits.LineBytes, func(_ int, raw []byte) error {
		line, err := openai.ParseBatchLine(raw)
		if err == nil {
			j.add(expired(line.CustomID))
		}
		return err
	})
	return errors.Join(err, j.failure())
}

// finalize makes files of the results and ends the batch.
func (r *Runner) finalize(t task, j *journal) error {
	now := r.Now()
	err := r.Store.change(t.record, func(b *record) bool {
		if b.Status == openai.BatchFinalizing {
			return false
		}
		switch {
		case b.Status == openai.BatchCancelling:
			b.End = openai.BatchCancelled
		case j.expired():
			b.End = openai.BatchExpired
		default:
			b.End = openai.BatchCompleted
		}
		b.Status, b.FinalizingAt, b.RequestCounts = openai.BatchFinalizing, now.Unix(), j.counted()
		return true
	})
	if err != nil {
		return err
	}
	state := r.Store.view(t.record)
	output, failures, err := j.publish(&state, now)
	if err != nil {
		return err
	}
	return r.Store.change(t.record, func(b *record) bool {
		b.Status, b.OutputFileID, b.ErrorFileID = b.End, output, failures
		switch at := r.Now().Unix(); b.End {
		case openai.BatchCancelled:
			b.CancelledAt = at
		case openai.BatchExpired:
			b.ExpiredAt = at
		default:
			b.CompletedAt = at
		}
		return true
	})
}

// inTurn does something for a tenant when there is a place for it, unless ctx ends
// first.
func (r *Runner) inTurn(ctx context.Context, tenant string, do func(context.Context)) {
	p := &requestSlot{places: r.places, tenant: tenant}
	if p.take(ctx) != nil {
		return
	}
	defer p.leave()
	do(context.WithValue(ctx, slotKey{}, p))
}
