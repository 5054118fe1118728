package db

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestAllWhoAskAtOnceShareOneSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Searches[int]
		var looks atomic.Int64
		found := make(chan struct{})
		look := func(context.Context) (int, error) {
			looks.Add(1)
			<-found
			return 7, nil
		}
		var waiting sync.WaitGroup
		for range 1000 {
			waiting.Go(func() {
				if got, err := s.Find(t.Context(), "one", look); got != 7 || err != nil {
					t.Errorf("found %d, %v", got, err)
				}
			})
		}
		waiting.Go(func() { _, _ = s.Find(t.Context(), "another", look) })
		synctest.Wait()
		close(found)
		waiting.Wait()
		if looks.Load() != 2 {
			t.Errorf("%d searches for two keys", looks.Load())
		}
		if _, err := s.Find(t.Context(), "one", look); err != nil || looks.Load() != 3 {
			t.Errorf("what was found is remembered: %d searches, %v", looks.Load(), err)
		}
	})
}

func TestWhoLeavesEndsNothingForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Searches[int]
		found := make(chan struct{})
		look := func(ctx context.Context) (int, error) {
			<-found
			return 7, ctx.Err()
		}
		gone := errors.New("gone")
		first, leave := context.WithCancelCause(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := s.Find(first, "one", look); !errors.Is(err, gone) {
				t.Errorf("whoever left was told %v", err)
			}
		})
		synctest.Wait()
		waiting.Go(func() {
			if got, err := s.Find(t.Context(), "one", look); got != 7 || err != nil {
				t.Errorf("whoever stayed was told %d, %v", got, err)
			}
		})
		synctest.Wait()
		leave(gone)
		synctest.Wait()
		close(found)
		waiting.Wait()
	})
}

func TestFailuresAreShared(t *testing.T) {
	var s Searches[int]
	broken := errors.New("broken")
	if _, err := s.Find(t.Context(), "1", func(context.Context) (int, error) {
		return 0, broken
	}); !errors.Is(err, broken) {
		t.Errorf("told %v", err)
	}
	_, err := s.Find(t.Context(), "1", func(context.Context) (int, error) { panic("a bug") })
	if err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("of a panic nobody was told: %v", err)
	}
}
