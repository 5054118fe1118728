package traffic

import (
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	rows := []Row{
		{At: 0, InputTokens: 1100, OutputTokens: 10, Blocks: []uint64{1, 2, 3}},
		{At: 10 * time.Second, InputTokens: 1200, OutputTokens: 30, Blocks: []uint64{1, 2, 4}}, // two blocks known
		{At: 70 * time.Second, InputTokens: 700, OutputTokens: 20, Blocks: []uint64{9, 2}},     // no prefix known
		{At: 80 * time.Second, InputTokens: 512, OutputTokens: 20, Blocks: []uint64{9}},        // all known
	}
	want := Summary{PromptTokens: 878, OutputTokens: 20, PeakRate: 2.0 / 60, HitRate: 0.5, NewTokens: 88}
	if got := Summarize(rows); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Summarize(nil); got != (Summary{}) {
		t.Errorf("nothing is summed up as %+v", got)
	}
	if got := Summarize(rows[:1]); got.PeakRate != 1 {
		t.Errorf("a single request is %g requests a second", got.PeakRate)
	}
}
