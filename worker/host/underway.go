package host

import "sync"

// requestsUnderway are the requests that a server computes, by their ids, for other workers
// that wait for their blocks.
type requestsUnderway struct {
	mu      sync.Mutex
	running map[string]int
	changed chan struct{} // nil while none waits
}

// follow reports whether a request runs, and returns what is closed when it may have ended
// or blocks were computed.
func (u *requestsUnderway) follow(request string) (changed <-chan struct{}, running bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.changed == nil {
		u.changed = make(chan struct{})
	}
	return u.changed, u.running[request] > 0
}

// count adds n to how often a request runs.
func (u *requestsUnderway) count(request string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running == nil {
		u.running = map[string]int{}
	}
	if u.running[request] += n; u.running[request] == 0 {
		delete(u.running, request)
	}
	u.wake()
}

// stored notes that blocks were computed.
func (u *requestsUnderway) stored() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wake()
}

// wake lets those that wait look again. The lock is held.
func (u *requestsUnderway) wake() {
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}
