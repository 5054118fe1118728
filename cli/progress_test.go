package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	line := NewProgress(io.Discard, "x", ByteAmount).line(512<<20, 1<<30, 2*time.Second)
	for _, want := range []string{" 50%", "512.0 MiB of 1.0 GiB", "256.0 MiB/s", "2s left"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	line = NewProgress(io.Discard, "x", CountAmount).line(30, 64, 20*time.Second)
	if !strings.Contains(line, " 46% 30 of 64, 1.5/s, 23s left") {
		t.Errorf("%q", line)
	}
}
