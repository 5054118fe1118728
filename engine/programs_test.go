package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"parley"
)

func TestProgramsAreRemembered(t *testing.T) {
	p := newPrograms()
	g := parley.Regex("a+")
	first, err := p.get(t.Context(), &g)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.get(t.Context(), &g); err != nil || again != first {
		t.Errorf("compiled again: %v", err)
	}
	hard := parley.Regex("(a|b)*a(a|b){40}")
	_, refused := p.get(t.Context(), &hard)
	if _, again := p.get(t.Context(), &hard); refused == nil || again != refused {
		t.Errorf("refused with %v, then with %v", refused, again)
	}
}

func TestProgramsAreBounded(t *testing.T) {
	p := newPrograms()
	kept := parley.Regex("kept")
	first, err := p.get(t.Context(), &kept)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		large := parley.Literal(strings.Repeat(fmt.Sprint(i%10), 10_000+i))
		if _, err := p.get(t.Context(), &large); err != nil {
			t.Fatal(err)
		}
		if p.nodes > programNodesMax || p.used.Len() != len(p.known) {
			t.Fatalf("%d nodes in %d programs, %d listed", p.nodes, len(p.known), p.used.Len())
		}
		if again, _ := p.get(t.Context(), &kept); again != first {
			t.Fatalf("what is in use was forgotten after %d", i)
		}
	}
	if len(p.known) > 45 {
		t.Errorf("%d programs are remembered", len(p.known))
	}
}

// TestProgramsWaitForASlot shows that a caller that leaves does not wait, and
// that what is known needs no slot.
func TestProgramsWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrograms()
		known, other := parley.Regex("a"), parley.Regex("b")
		if _, err := p.get(t.Context(), &known); err != nil {
			t.Fatal(err)
		}
		for range cap(p.slots) {
			p.slots <- struct{}{}
		}
		if _, err := p.get(t.Context(), &known); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := p.get(ctx, &other)
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; err != context.Canceled {
			t.Errorf("got %v", err)
		}
		<-p.slots
		if _, err := p.get(t.Context(), &other); err != nil {
			t.Error(err)
		}
	})
}
