package cost

import (
	"slices"
	"testing"
	"time"
)

// TestReadLog reads passes from a log, and nothing else.
func TestReadLog(t *testing.T) {
	log := `parley worker --addr 127.0.0.1:1
{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"worker ready"}
{"level":"DEBUG","msg":"pass computed","rows":16,"sequences":1,"read":0,"lookback":136,"took_ns":2000000,"gap_ns":0}
{"level":"DEBUG","msg":"pass computed","rows":1,"sequences":1,"read":16,"lookback":17,"took_ns":900000,"gap_ns":100000}
{"level":"WARN","msg":"request failed","error":"pass computed"}
{"level":"DEBUG","msg":"pass computed","rows":1,"sequ`
	got := ReadLog([]byte(log))
	want := []Sample{
		{Pass: Pass{Rows: 16, Sequences: 1, Lookback: 136}, Took: 2 * time.Millisecond},
		{Pass: Pass{Rows: 1, Sequences: 1, Read: 16, Lookback: 17}, Took: time.Millisecond},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log gives %+v, want %+v", got, want)
	}
}
