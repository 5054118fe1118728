package answer

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestChanMutexExcludes counts with many goroutines.
func TestChanMutexExcludes(t *testing.T) {
	m, count := newChanMutex(), 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				m.Lock()
				count++
				m.Unlock()
			}
		})
	}
	all.Wait()
	if count != 16000 {
		t.Errorf("it was locked %d times", count)
	}
}

// TestChanMutexLetsClocksAdvance makes sure that a waiter counts as idle.
func TestChanMutexLetsClocksAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newChanMutex()
		m.Lock()
		go func() {
			time.Sleep(time.Hour)
			m.Unlock()
		}()
		began := time.Now()
		m.Lock()
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("it was given after %v", waited)
		}
	})
}
