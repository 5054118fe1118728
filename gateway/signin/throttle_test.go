package signin

import (
	"fmt"
	"testing"
	"time"
)

func TestThrottle(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	th := newThrottle(3, 10*time.Second)
	for i, c := range []struct {
		name string
		at   float64
		wait time.Duration
	}{
		{"a", 0, 0}, {"a", 0, 0}, {"a", 1, 0}, {"a", 1, 9 * time.Second}, {"b", 1, 0},
		{"a", 9.5, 500 * time.Millisecond}, {"a", 10, 0}, {"a", 10, 10 * time.Second},
		{"a", 100, 0}, {"a", 100, 0}, {"a", 100, 0},
		{"a", 100, 10 * time.Second},
	} {
		if wait := th.take(c.name, at(c.at)); wait != c.wait {
			t.Errorf("attempt %d of %s at %g s waits %s, want %s", i, c.name, c.at, wait, c.wait)
		}
	}
	th.giveBack("a")
	if wait := th.take("a", at(100)); wait != 0 {
		t.Errorf("an attempt that was given back counts: %s", wait)
	}
	for i := range 2 * throttleNamesMax {
		th.take(fmt.Sprint(i), at(200))
	}
	if len(th.free) > throttleNamesMax {
		t.Errorf("%d names are remembered", len(th.free))
	}
}

// TestThrottlesCountBoth: guesses are counted by account and by address, and one that an
// account's limit refuses does not count against the address.
func TestThrottlesCountBoth(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	th := newThrottles()
	for range 10 {
		if wait := th.take("ann", "1.1.1.1", now); wait != 0 {
			t.Fatal(wait)
		}
	}
	for range 50 {
		if wait := th.take("ann", "2.2.2.2", now); wait == 0 {
			t.Fatal("an eleventh guess")
		}
	}
	for i := range 30 {
		if wait := th.take(fmt.Sprint("user", i), "2.2.2.2", now); wait != 0 {
			t.Fatalf("guess %d of an address waits %s", i, wait)
		}
	}
	if wait := th.take("bob", "2.2.2.2", now); wait == 0 {
		t.Error("the 31st guess of an address")
	}
}
