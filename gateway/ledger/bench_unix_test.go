//go:build unix

package ledger

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/gateway/db"
)

// BenchmarkAppend is what an entry costs the processor when 64 requests end at
// about the same time.
func BenchmarkAppend(b *testing.B) {
	d, err := db.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	l, err := Open(b.Context(), d, quiet())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var before, after syscall.Rusage
	var number atomic.Int64
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := number.Add(1)
			e := &Entry{ID: fmt.Sprintf("req_%032x", n), At: time.Now(), Organization: "org_1", User: "user",
				Key: "key_0123456789", Model: "polly-mini", Route: "/v1/chat/completions",
				Input: 30, Output: 1, Cost: 17, Worker: "http://127.0.0.1:4711", Reason: "least loaded: 3 of 5",
				Outcome: "length"}
			if err := l.Append(b.Context(), e); err != nil {
				b.Error(err)
			}
		}
	})
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
}
