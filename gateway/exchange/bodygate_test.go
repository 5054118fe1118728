package exchange

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestByteGate takes bytes beside others: a key that is full holds up no other, and
// a body for which the total has no room has its turn before those that came later.
func TestByteGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewBodyGate(100, 60)
		take := func(key string, bytes int64) *BodyBytes { return must(g.Take(t.Context(), key, bytes))(t) }
		var mu sync.Mutex
		var order []string
		var waiting sync.WaitGroup
		later := func(key string, bytes int64) {
			waiting.Go(func() {
				h := take(key, bytes)
				mu.Lock()
				order = append(order, fmt.Sprint(key, bytes))
				mu.Unlock()
				time.Sleep(time.Second)
				h.Release()
			})
			synctest.Wait()
		}
		a, b := take("a", 60), take("b", 30)
		later("a", 1)  // its key is full
		later("d", 10) // goes at once
		later("c", 50) // the total is full
		later("e", 10) // must not pass c
		if got := strings.Join(order, " "); got != "d10" {
			t.Errorf("while all is taken: %s", got)
		}
		a.Release()
		a.Release()
		synctest.Wait()
		b.Shrink(20)
		waiting.Wait()
		b.Release()
		if got := strings.Join(order, " "); got != "d10 a1 c50 e10" && got != "d10 c50 a1 e10" {
			t.Errorf("in the end: %s", got)
		}
		if g.used != 0 || len(g.of) != 0 || len(g.waiting) != 0 {
			t.Errorf("left over: %d, %v, %v", g.used, g.of, g.waiting)
		}
	})
}

// TestByteGateRefuses has bodies wait in vain: they are refused after a while, with
// whose bytes are taken, and one whose client leaves is forgotten.
func TestByteGateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewBodyGate(100, 60)
		held := must(g.Take(t.Context(), "a", 60))(t)
		for key, want := range map[string]parley.Code{"a": parley.RateLimited, "b": parley.Overloaded} {
			began := time.Now()
			_, err := g.Take(t.Context(), key, 50)
			if parley.CodeOf(err) != want || time.Since(began) != gateWait {
				t.Errorf("%s after %v: %v", key, time.Since(began), err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Take(ctx, "a", 50); err == nil {
			t.Error("a body of a client that left was taken")
		}
		held.Release()
		if g.used != 0 || len(g.waiting) != 0 {
			t.Errorf("left over: %d, %v", g.used, g.waiting)
		}
	})
}

// must returns a value that comes without an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
