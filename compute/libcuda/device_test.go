package libcuda

import (
	"math"
	"testing"
)

// TestCeilings compares with data sheets: an H200 reads 4.8 TB/s (4.9 at its highest clock), and
// does 989e12 operations at 1.83 GHz; an A100 of 40 GB reads 1,555 GB/s and does 312e12.
func TestCeilings(t *testing.T) {
	for _, row := range []struct {
		device                Device
		bandwidth, operations float64
	}{
		{Device{
			Major:          9,
			Multiprocessor: 132,
			ClockHertz:     1.83e9,
			MemoryHertz:    3.201e9,
			MemoryBits:     6144,
		}, 4.9e12, 989e12},
		{Device{
			Major:          8,
			Multiprocessor: 108,
			ClockHertz:     1.41e9,
			MemoryHertz:    1.215e9,
			MemoryBits:     5120,
		}, 1.555e12, 312e12},
		{Device{Major: 9, Multiprocessor: 132}, 0, 0},
		{Device{
			Major:          99,
			Multiprocessor: 132,
			ClockHertz:     1e9,
			MemoryHertz:    1e9,
			MemoryBits:     8,
		}, 2e9, 0},
	} {
		bandwidth, operations := row.device.Ceilings()
		if math.Abs(bandwidth-row.bandwidth) > 0.01*row.bandwidth ||
			math.Abs(operations-row.operations) > 0.01*row.operations {
			t.Errorf("%+v reads %g and does %g, want %g and %g", row.device, bandwidth, operations, row.bandwidth,
				row.operations)
		}
	}
}
