package kvwire

import (
	"context"
	"sync"
	"time"

	"parley"
)

// One connection does not use a fast network: at either end it is the work of one processor, and clouds bound
// the speed of each connection. So a large fetch over TCP comes in several streams, each on a connection of its
// own. Block i of the prompt comes in stream i mod n, so all streams advance together and blocks are still of use
// from the first one on.
//
// The giving side answers the first stream with their number. The taking side then asks for the others, which
// belong to the same fetch: they need no place of their own at the gate, and they divide its memory.
// Blocks that go through shared memory come in one stream.

const (
	// StreamsMax is how many streams a fetch has at most.
	StreamsMax = 4
	// streamFrom is how many bytes make a stream worth a connection.
	streamFrom = 8 << 20
	// headerStreams has the number of streams in the answer to the first one; without it there is one.
	headerStreams = "Parley-Streams"
)

// partOf returns the names of the blocks that a stream has.
func partOf(names []parley.BlockHash, stream, streams int) []parley.BlockHash {
	if streams == 1 {
		return names
	}
	part := make([]parley.BlockHash, 0, len(names)/streams+1)
	for i := stream; i < len(names); i += streams {
		part = append(part, names[i])
	}
	return part
}

// A fetchStreams is the streams of one fetch besides the first, on the giving side.
type fetchStreams struct {
	number  int
	missing map[int]bool  // streams that were not asked for yet
	all     chan struct{} // closed once all were
	running sync.WaitGroup
}

// runningFetches are the fetches of several streams that run, by their ids. The zero value is ready.
type runningFetches struct {
	mu   sync.Mutex
	byID map[string]*fetchStreams
}

// begin lets the other streams of a fetch join it. It returns nil if there is to be one stream, or too many, or
// another fetch has the id.
func (r *runningFetches) begin(id string, streams int) *fetchStreams {
	r.mu.Lock()
	defer r.mu.Unlock()
	if streams < 2 || streams > StreamsMax || r.byID[id] != nil {
		return nil
	}
	f := &fetchStreams{number: streams, missing: map[int]bool{}, all: make(chan struct{})}
	for i := 1; i < streams; i++ {
		f.missing[i] = true
	}
	if r.byID == nil {
		r.byID = map[string]*fetchStreams{}
	}
	r.byID[id] = f
	return f
}

// join returns what a stream calls at its end. It reports false if its fetch does not run or has that stream already.
func (r *runningFetches) join(id string, stream, streams int) (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byID[id]
	if f == nil || f.number != streams || !f.missing[stream] {
		return nil, false
	}
	if delete(f.missing, stream); len(f.missing) == 0 {
		close(f.all)
	}
	f.running.Add(1)
	return f.running.Done, true
}

// end waits until the other streams of a fetch have ended, or were not asked for in time. The fetch has its place
// at the gate until then.
func (r *runningFetches) end(ctx context.Context, id string, f *fetchStreams) {
	late := time.NewTimer(stallMax)
	defer late.Stop()
	select {
	case <-f.all:
	case <-late.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	delete(r.byID, id)
	r.mu.Unlock()
	f.running.Wait()
}
