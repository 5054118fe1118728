package parley

import (
	"testing"
	"time"
)

func TestSLOMet(t *testing.T) {
	const ms = time.Millisecond
	promise := DefaultSLO()
	for _, c := range []struct {
		ttft, tpot     time.Duration
		prompt, cached int
		met            bool
	}{
		{1000 * ms, 50 * ms, 100, 0, true},
		{1001 * ms, 0, 100, 0, false},
		{1000 * ms, 51 * ms, 100, 0, false},
		{800 * ms, 0, 100, 49, true},
		{800 * ms, 0, 100, 50, false},
		{700 * ms, 0, 100, 100, true},
		{800 * ms, 0, 0, 0, true},
	} {
		if got := promise.Met(c.ttft, c.tpot, c.prompt, c.cached); got != c.met {
			t.Errorf("%+v: %t", c, got)
		}
	}
	if none := (SLO{}); !none.Met(time.Hour, time.Hour, 1, 1) {
		t.Error("nothing was promised and still missed")
	}
}
