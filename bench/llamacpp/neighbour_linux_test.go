package llamacpp

import (
	"io"
	"testing"
	"time"
)

// Burn works until its input ends, and no longer.
func TestBurnEndsWithItsInput(t *testing.T) {
	in, hold := io.Pipe()
	ready, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Burn(in, out) }()
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it ended by itself: %v", err)
	default:
	}
	hold.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}
