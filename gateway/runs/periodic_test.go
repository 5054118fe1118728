package runs

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const writersMax = 4

// TestPeriodicWritesTakeSlots makes sure that runs that find no slot write later, and that
// nothing is written after stop.
func TestPeriodicWritesTakeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runs{slots: newWriteSlots(writersMax)}
		const many = 3 * writersMax
		var written [many]int
		var all []*periodicWrite
		for i := range many {
			all = append(all, r.periodically(time.Second, func() bool {
				time.Sleep(100 * time.Millisecond) // the store
				written[i]++
				return written[i] < 5
			}))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, n := range written {
			if n != 5 {
				t.Errorf("run %d wrote %d times, not 5", i, n)
			}
		}
		last := 0
		p := r.periodically(time.Second, func() bool {
			time.Sleep(100 * time.Millisecond)
			last++
			return true
		})
		time.Sleep(time.Second + 50*time.Millisecond)
		p.stop() // waits for the write
		p.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if last != 1 {
			t.Errorf("%d writes, the last after stop", last)
		}
		for _, p := range all {
			p.stop()
		}
		if n := r.slots.open.Load(); n != 0 {
			t.Errorf("%d periodic writes are open", n)
		}
	})
}

// TestPeriodicWritesAreSpread makes sure that many runs write less often, each of them.
func TestPeriodicWritesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 2000
		r := &Runs{slots: newWriteSlots(many)}
		var all []*periodicWrite
		var writes atomic.Int64
		for range many {
			all = append(all, r.periodically(10*time.Millisecond, func() bool {
				writes.Add(1)
				return true
			}))
			time.Sleep(time.Millisecond)
		}
		writes.Store(0)
		time.Sleep(20*time.Second + time.Millisecond/2)
		for _, p := range all {
			p.stop()
		}
		if least, most, n := 9*many, 11*many, int(writes.Load()); n < least || n > most {
			t.Errorf("%d writes, not %d to %d", n, least, most)
		}
	})
}

// TestPeriodicWritesAreBounded makes sure that the slots are what bounds them.
func TestPeriodicWritesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runs{slots: newWriteSlots(writersMax)}
		entered, held := make(chan struct{}, 2*writersMax), make(chan struct{})
		var all []*periodicWrite
		for range 2 * writersMax {
			all = append(all, r.periodically(time.Second, func() bool {
				entered <- struct{}{}
				<-held
				return false
			}))
		}
		time.Sleep(10 * time.Second)
		if n := len(entered); n != writersMax {
			t.Errorf("%d runs write, not %d", n, writersMax)
		}
		close(held)
		time.Sleep(10 * time.Second)
		if n := len(entered); n != 2*writersMax {
			t.Errorf("%d runs wrote, not %d", n, 2*writersMax)
		}
		for _, p := range all {
			p.stop()
		}
	})
}
