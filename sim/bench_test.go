//go:build unix

package sim

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// millionMax is the processor time that the scenario may take: a minute of one core.
const millionMax = 60 * time.Second

// BenchmarkMillion runs the scenario of a million requests over 64 workers, or the part
// of it that SIM_PART says, and fails if it takes more processor time than it may.
func BenchmarkMillion(b *testing.B) {
	text, err := os.ReadFile("../examples/sim/million.yaml")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Read(text)
	if err != nil {
		b.Fatal(err)
	}
	part := 1.0
	if value := os.Getenv("SIM_PART"); value != "" {
		d, err := time.ParseDuration(value + "s")
		if err != nil || d <= 0 || d > time.Second {
			b.Fatalf("SIM_PART is %q: want a share of the requests, more than 0 and at most 1", value)
		}
		part = d.Seconds()
	}
	s.Duration = time.Duration(float64(s.Duration) * part)
	for b.Loop() {
		begun := processorTime(b)
		r, err := Run(s)
		if err != nil {
			b.Fatal(err)
		}
		took := processorTime(b) - begun
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(r.Total.Finished), "requests")
		b.ReportMetric(took.Seconds(), "cpu-s")
		b.ReportMetric(float64(m.Sys)/1e6, "MB")
		if limit := time.Duration(float64(millionMax) * part); took > limit {
			b.Errorf("%d requests took %v of processor time, more than %v", r.Total.Finished, took, limit)
		}
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
