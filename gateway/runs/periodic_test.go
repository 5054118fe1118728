package runs

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPeriodicWritesTakeSlots makes sure that runs that find no slot write later, and that
// nothing is written after stop.
func TestPeriodicWritesTakeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runs{slots: make(chan struct{}, writersMax)}
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
		if last != 1 {
			t.Errorf("%d writes, the last after stop", last)
		}
		for _, p := range all {
			p.stop()
		}
	})
}

// TestPeriodicWritesAreBounded makes sure that the slots are what bounds them.
func TestPeriodicWritesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runs{slots: make(chan struct{}, writersMax)}
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
