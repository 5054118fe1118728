package kvstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestWhatIsLookedUp decides about lookups of prompts of different sizes, on engines and stores
// of different speed.
func TestWhatIsLookedUp(t *testing.T) {
	const mega = 1 << 20
	fast := readStats{latency: time.Millisecond, speed: 1 << 30, found: 0.5}
	far := readStats{latency: 30 * time.Millisecond, speed: 100 << 20, found: 0.5}
	unknown := readStats{latency: bucketLatency, found: foundGuess}
	never := readStats{latency: 30 * time.Millisecond, speed: 1 << 30}
	for name, test := range map[string]struct {
		shown  readStats
		ask    lookup
		within time.Duration // 0: no lookup
	}{
		"few blocks":          {fast, lookup{3, 1000, time.Hour}, 0},
		"8B, nearby":          {fast, lookup{100, 2 * mega, 10 * time.Millisecond}, 589 * time.Millisecond},
		"8B, fast GPU":        {fast, lookup{100, 2 * mega, 2 * time.Millisecond}, 0},
		"8B, far":             {far, lookup{100, 2 * mega, 10 * time.Millisecond}, 0},
		"8B, slow engine":     {far, lookup{100, 2 * mega, time.Second}, 6090 * time.Millisecond},
		"tiny model, far":     {far, lookup{100, 10_000, 100 * time.Microsecond}, 0},
		"tiny model":          {fast, lookup{100, 10_000, 100 * time.Microsecond}, waitLeast},
		"nothing measured":    {unknown, lookup{200, 10_000, 0}, waitLeast},
		"never finds a thing": {never, lookup{100, 1000, time.Second}, 0},
	} {
		shown := test.shown
		within, ok := shown.weigh(test.ask)
		if ok != (test.within > 0) || ok && (within-test.within).Abs() > 5*time.Millisecond {
			t.Errorf("%s: %v %v, want %v", name, within, ok, test.within)
		}
	}
}

// TestLookupsAreTriedAgain has a store find nothing until it is not asked any more but now and
// then, and asked as ever when it finds something again.
func TestLookupsAreTriedAgain(t *testing.T) {
	h := readStats{latency: 20 * time.Millisecond, found: foundGuess}
	ask := lookup{20, 1000, 10 * time.Millisecond}
	made := func(found bool) (n int) {
		for range 1000 {
			if _, ok := h.weigh(ask); ok {
				h.answered(20*time.Millisecond, found)
				n++
			}
		}
		return n
	}
	if made(false); h.found > 0.15 {
		t.Errorf("after nothing was found the share is %g", h.found)
	}
	if n := made(false); n == 0 || n > 1000/tryEvery+1 {
		t.Errorf("a store that has nothing was asked %d times of 1000", n)
	}
	made(true)
	if n := made(true); n != 1000 {
		t.Errorf("a store that has everything was asked %d times of 1000", n)
	}
}

// TestWritesKeepTheirPace has goroutines write as fast as they may.
func TestWritesKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{rate: 1 << 20}
		began := time.Now()
		done := make(chan struct{})
		for range 4 {
			go func() {
				for range 25 {
					if err := p.wait(t.Context(), 1<<18); err != nil {
						t.Error(err)
					}
				}
				done <- struct{}{}
			}()
		}
		for range 4 {
			<-done
		}
		if took := time.Since(began).Round(time.Millisecond); took != 24750*time.Millisecond {
			t.Errorf("25 MiB less one quarter took %v at 1 MiB/s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.wait(t.Context(), 1<<20)
		if err := p.wait(ctx, 1); err == nil {
			t.Error("a wait was not cancelled")
		}
	})
}

// TestNamesAreForgotten remembers names for half a life to a whole one.
func TestNamesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := names{life: time.Hour}
		a, b := parley.BlockHash{31: 1}, parley.BlockHash{31: 2}
		k.add([]parley.BlockHash{a})
		time.Sleep(29 * time.Minute)
		k.add([]parley.BlockHash{b})
		k.drop(&b)
		if !k.has(&a) || k.has(&b) {
			t.Error("after 29 minutes")
		}
		time.Sleep(2 * time.Minute)
		k.add([]parley.BlockHash{b})
		if !k.has(&a) || !k.has(&b) {
			t.Error("after 31 minutes")
		}
		time.Sleep(30 * time.Minute)
		if k.has(&a) || !k.has(&b) {
			t.Error("after 61 minutes")
		}
		time.Sleep(2 * time.Hour)
		if k.has(&b) {
			t.Error("after hours")
		}
	})
}

// TestDamageIsSeen flips every bit of a value, changes what it belongs to, and cuts it.
func TestDamageIsSeen(t *testing.T) {
	name, other := parley.BlockHash{1}, parley.BlockHash{2}
	value := make([]byte, headBytes+40)
	copy(value[headBytes:], "keys and values of sixteen tokens")
	seal("digest", &name, value)
	payload, err := open("digest", &name, value)
	if err != nil || string(payload[:4]) != "keys" {
		t.Fatalf("%q, %v", payload, err)
	}
	for bit := range 8 * len(value) {
		value[bit/8] ^= 1 << (bit % 8)
		if _, err := open("digest", &name, value); err == nil {
			t.Errorf("bit %d", bit)
		}
		value[bit/8] ^= 1 << (bit % 8)
	}
	for n := range value {
		if _, err := open("digest", &name, value[:n]); err == nil {
			t.Errorf("%d bytes", n)
		}
	}
	if _, err := open("digest", &other, value); err == nil {
		t.Error("under another name")
	}
	if _, err := open("other", &name, value); err == nil {
		t.Error("under another format")
	}
}
