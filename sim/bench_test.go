package sim

import (
	"os"
	"testing"
)

func BenchmarkSim(b *testing.B) {
	text, err := os.ReadFile("../examples/sim/million.yaml")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Read(text)
	if err != nil {
		b.Fatal(err)
	}
	s.Duration /= 50
	for b.Loop() {
		r, err := Run(s)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Total.Arrived), "requests")
	}
}
