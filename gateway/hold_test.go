package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestHoldIsHeldByOne(t *testing.T) {
	h := newHold()
	var everybody sync.WaitGroup
	count, tried := 0, 0
	for range 8 {
		everybody.Go(func() {
			for range 2000 {
				h.Lock()
				count++
				h.Unlock()
				if h.TryLock() {
					tried++
					h.Unlock()
				}
			}
		})
	}
	everybody.Wait()
	if count != 16000 || tried == 0 {
		t.Errorf("it was held %d times, and %d times at once", count, tried)
	}
	if !h.TryLock() || h.TryLock() {
		t.Error("it is not free when all have given it back, or not held when it is taken")
	}
}

// TestHoldLetsClocksGoOn makes sure that those who wait are seen to wait.
func TestHoldLetsClocksGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold()
		h.Lock()
		go func() {
			time.Sleep(time.Hour)
			h.Unlock()
		}()
		began := time.Now()
		h.Lock()
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("it was given after %v", waited)
		}
	})
}
