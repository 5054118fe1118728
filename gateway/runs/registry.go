package runs

import (
	"context"
	"sync"
)

// A registry knows the runs of this process by their ids: that of a response, or of
// the message that answers.
type registry struct {
	mu   sync.Mutex
	runs map[string]*run
	// pending counts the runs whose outcome the store has not taken.
	pending int
}

// A run is a response, or an answer in a conversation, that is this process's to
// write now.
type run struct {
	// cancel is nil until it is computed.
	cancel context.CancelCauseFunc
	// value is what the one who computes it left for followers.
	value any
	// changed is closed when there is news, and made anew.
	changed chan struct{}
	// outcome stores how the run ended, if the store could not be told yet.
	outcome Write
}

// A Write stores something. It may be called again until it succeeds.
type Write func(context.Context) error

// Claim makes an answer or a response the caller's to write, until [Runs.End]; false
// if a run of this process has it. What the store says this process writes, and
// nothing has claimed, is abandoned.
func (r *registry) Claim(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[id] != nil {
		return false
	}
	r.runs[id] = &run{changed: make(chan struct{})}
	return true
}

// Begin notes what ends the computation of a run that was claimed, and what its
// followers find under its id.
func (r *registry) Begin(id string, cancel context.CancelCauseFunc, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[id].cancel, r.runs[id].value = cancel, value
}

// Value returns what [Runs.Begin] was given; nil if no such run has begun here.
func (r *registry) Value(id string) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[id]; found != nil {
		return found.value
	}
	return nil
}

// End gives up a claim, except where the store must still be told the outcome.
func (r *registry) End(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[id]; found != nil && found.outcome == nil {
		r.drop(id)
	}
}

// drop is called with mu held.
func (r *registry) drop(id string) {
	if found := r.runs[id]; found != nil {
		delete(r.runs, id)
		close(found.changed)
	}
}

// Cancel ends a run, if it is computed here.
func (r *registry) Cancel(id string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[id]; found != nil && found.cancel != nil {
		found.cancel(why)
	}
}

// Notify wakes the followers of a run.
func (r *registry) Notify(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[id]; found != nil {
		close(found.changed)
		found.changed = make(chan struct{})
	}
}

// Changed returns a channel that is closed when there is news of a run; nil if it is
// computed elsewhere or not at all.
func (r *registry) Changed(id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[id]; found != nil {
		return found.changed
	}
	return nil
}

// Len returns how many runs are claimed.
func (r *registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// pendingMax bounds the outcomes that are remembered. Beyond it they are lost, and
// the runs are taken for abandoned.
const pendingMax = 10_000

// Enqueue remembers a write of how a run ended. The run stays claimed until then: an
// answer that was written is never written again because the store was away, and none
// stays in progress while nothing writes it.
func (r *registry) Enqueue(id string, outcome Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.runs[id]
	if found == nil || r.pending >= pendingMax && found.outcome == nil {
		return
	}
	if found.outcome == nil {
		r.pending++
	}
	found.outcome = outcome
}

// outcomes returns the writes that are due.
func (r *registry) outcomes() map[string]Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := map[string]Write{}
	if r.pending == 0 {
		return due
	}
	for id, found := range r.runs {
		if found.outcome != nil {
			due[id] = found.outcome
		}
	}
	return due
}

// stored ends a run whose outcome the store has by now.
func (r *registry) stored(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	r.drop(id)
}
