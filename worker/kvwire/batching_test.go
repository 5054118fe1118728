package kvwire

import (
	"testing"
	"time"
)

// TestBatching has an engine that is idle, then one that makes every read wait for a pass, and then an
// idle one again.
func TestBatching(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		block             int
		idle, busy, again int // sizes of reads
	}{
		{block: 8 << 10, idle: mib / 2, busy: 4 * mib, again: mib / 2},
		{block: 368 << 10, idle: 368 << 10, busy: 11 * 368 << 10, again: 368 << 10},
		{block: mib / 2, idle: mib / 2, busy: 4 * mib, again: mib / 2},
		{block: 3 * mib, idle: mib / 2, busy: 3 * mib, again: mib / 2},
		{block: 6 * mib, idle: mib / 2, busy: 4 * mib, again: mib / 2},
	} {
		p := batching{block: test.block, most: bufferSize(test.block, 1000)}
		reads := func(wait time.Duration) int {
			for range 10 {
				bytes := p.size()
				p.read(bytes, wait+time.Duration(bytes)/5) // 5 GB/s
			}
			return p.size()
		}
		idle, busy, again := reads(0), reads(20*time.Millisecond), reads(0)
		if idle != test.idle || busy != test.busy || again != test.again {
			t.Errorf("blocks of %d: %d, %d and %d, want %d, %d and %d", test.block, idle, busy, again, test.idle,
				test.busy, test.again)
		}
		p.read(1, time.Second) // the only block that is there yet
		if p.size() != again {
			t.Errorf("blocks of %d: %d after one that was not full, want %d", test.block, p.size(), again)
		}
	}
}
