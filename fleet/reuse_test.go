package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A learnLog is what workers were given.
type learnLog struct {
	mu    sync.Mutex
	given map[string]string // by the worker's name, the last time
	times map[string]int
}

// learns returns a worker that has observed its own name.
func (l *learnLog) learns(t *testing.T, name, format string, fault error) Member {
	m := answering(t).member(name, "")
	m.Probe = func(context.Context) (Condition, error) { return Condition{Instance: name, Format: format}, nil }
	m.LearnFrom = func(_ context.Context, others [][]byte) ([]byte, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.given[name] = fmt.Sprintf("%s", others)
		l.times[name]++
		return []byte(name), fault
	}
	return m
}

// TestWorkersLearnFromEachOther has workers with the same model given what the others have
// observed; those of another format, alone or behind a gateway that moves nothing are given
// nothing, and one that fails has no effect.
func TestWorkersLearnFromEachOther(t *testing.T) {
	for name, test := range map[string]struct {
		off   bool
		fault error // of worker b
		want  map[string]string
	}{
		"three and one": {want: map[string]string{"a": "[b c]", "b": "[a c]", "c": "[a b]"}},
		"one fails":     {fault: errors.New("lost"), want: map[string]string{"a": "[c]", "b": "[a c]", "c": "[a]"}},
		"off":           {off: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &learnLog{given: map[string]string{}, times: map[string]int{}}
				newFleet(t, Config{SlowStart: -1, NoTransfers: test.off}, log.learns(t, "a", "f", nil),
					log.learns(t, "b", "f", test.fault), log.learns(t, "c", "f", nil), log.learns(t, "d", "g", nil))
				time.Sleep(10 * reuseEvery)
				synctest.Wait()
				log.mu.Lock()
				defer log.mu.Unlock()
				for _, worker := range []string{"a", "b", "c", "d"} {
					if log.given[worker] != test.want[worker] || log.times[worker] > 11 {
						t.Errorf("%s was given %q, %d times; want %q", worker, log.given[worker], log.times[worker],
							test.want[worker])
					}
				}
			})
		})
	}
}

// TestWhatLeftIsForgotten has a worker's only peer leave.
func TestWhatLeftIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &learnLog{given: map[string]string{}, times: map[string]int{}}
		f := newFleet(t, Config{SlowStart: -1}, log.learns(t, "a", "f", nil), log.learns(t, "b", "f", nil))
		time.Sleep(3 * reuseEvery)
		if err := f.Leave("b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * reuseEvery)
		synctest.Wait()
		log.mu.Lock()
		defer log.mu.Unlock()
		if log.given["a"] != "[]" {
			t.Errorf("a was given %q", log.given["a"])
		}
	})
}
