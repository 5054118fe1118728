package queue

import (
	"testing"
	"time"
)

// TestWorkersComeAndGo lets go what as many workers as there are can begin: none
// without any, and more at once with more.
func TestWorkersComeAndGo(t *testing.T) {
	now := time.Unix(1000, 0)
	going := func(workers ...int) (n int) {
		q, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			q.Push(&Entry{Prompt: 1000, MaxOutput: 10}, now)
		}
		for _, w := range workers {
			q.Workers(w)
		}
		for q.Next(now) != nil {
			n++
		}
		return n
	}
	one, four := going(), going(4)
	if one == 0 || four != 4*one {
		t.Errorf("one worker begins %d at once, four %d", one, four)
	}
	if n := going(0); n != 0 {
		t.Errorf("%d go to no worker", n)
	}
	if n := going(4, 0, 2, 0, 1); n != one {
		t.Errorf("%d go to the one that is left, want %d", n, one)
	}
}
