package engine

import (
	"sync"
	"sync/atomic"
)

// An inbox carries what clients want to the loop. The loop empties it between two
// passes.
type inbox struct {
	mu     sync.Mutex
	jobs   incoming
	looks  []*look
	closed bool
	wake   chan struct{} // one pending wake-up is enough
}

// incoming are the jobs that something has happened to since the loop last looked.
type incoming struct {
	joining []*job // submitted
	leaving []*job // given up by their callers
	resumed []*job // read again after a pause
	asked   []*job // wanted back if they have not begun
}

// A look is something to be done between passes, on the loop's own goroutine.
type look struct {
	do      func(*loop)
	claimed atomic.Bool   // set by the loop that begins it, or by the client that no longer wants it
	done    chan struct{} // closed when it was done, or failed
	err     error         // why it failed
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// submit hands a job to the loop. It reports false if the engine is closed.
func (b *inbox) submit(j *job) bool {
	return b.put(func() { b.jobs.joining = append(b.jobs.joining, j) }, false)
}

// leave reports to the loop that the job's client has hung up.
func (b *inbox) leave(j *job) { b.put(func() { b.jobs.leaving = append(b.jobs.leaving, j) }, true) }

// withdraw reports to the loop that the job's sender wants it back.
func (b *inbox) withdraw(j *job) { b.put(func() { b.jobs.asked = append(b.jobs.asked, j) }, true) }

// resume reports to the loop that a paused job's client reads again.
func (b *inbox) resume(j *job) { b.put(func() { b.jobs.resumed = append(b.jobs.resumed, j) }, true) }

// ask has the loop do something. It reports false if the engine is closed.
func (b *inbox) ask(q *look) bool { return b.put(func() { b.looks = append(b.looks, q) }, false) }

// put has write add to the inbox and wakes the loop, if the engine is open or what is
// added matters to one that closes, too.
func (b *inbox) put(write func(), always bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed && !always {
		return false
	}
	write()
	b.rouse()
	return true
}

// close has the loop end after the pass that is running.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.rouse()
}

// take empties the inbox but for looks.
func (b *inbox) take() (jobs incoming, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs, b.jobs = b.jobs, incoming{}
	return jobs, b.closed
}

// takeLooks takes the looks.
func (b *inbox) takeLooks() (looks []*look) {
	b.mu.Lock()
	defer b.mu.Unlock()
	looks, b.looks = b.looks, nil
	return looks
}

func (b *inbox) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
