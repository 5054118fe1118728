package cpu

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPackedKernels measures kernels on what the first-level cache holds.
func BenchmarkPackedKernels(b *testing.B) {
	const rows, blocks = 96, 16
	r := newRand(1)
	for kind, q := range packings {
		act, facts, stride := extremeActivations(r, rows+tileRows, blocks)
		panel := extremePanel(r, q, blocks)
		dst := make([]float32, rows*panelOutputs)
		for _, p := range paths() {
			if !p.supported || p.kernels == &plainKernels {
				continue
			}
			k := p.kernels
			b.Run(fmt.Sprintf("%s/%s", k.name, kind), func(b *testing.B) {
				open, products := make([]byte, openReserve), make([]byte, productBytes)
				best := time.Hour
				for range b.N {
					start := time.Now()
					if k.tiles != nil {
						k.tiles.unpack[q.kind](open, panel, blocks)
						k.tiles.gemm[q.kind](rows/tileRows, dst, panelOutputs, act, facts, stride, open, blocks,
							products)
						best = min(best, time.Since(start))
						continue
					}
					for row := 0; row < rows; row += k.packedRows {
						k.gemmPacked[q.kind](k.packedRows, dst[row*panelOutputs:], panelOutputs, act[row*stride:],
							facts[row*stride:], stride, panel, blocks, nil, 0)
					}
					best = min(best, time.Since(start))
				}
				b.ReportMetric(2*rows*blocks*blockWeights/best.Seconds()/1e9, "best-GFLOP/s")
			})
		}
	}
}

// BenchmarkPack measures how fast the panels of a matrix are written.
func BenchmarkPack(b *testing.B) {
	const out, cols = 2048, 2048
	for kind, q := range packings {
		for _, p := range paths() {
			if !p.supported || p.kernels.pack[q.kind] == nil && p.kernels != &plainKernels {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s", p.kernels.name, kind), func(b *testing.B) {
				t := randomTensor(newRand(1), kind, out, cols)
				dst := make([]byte, PackedBytes(kind, panelOutputs, cols))
				b.SetBytes(int64(len(t.Data)))
				for b.Loop() {
					for first := 0; first < out; first += panelOutputs {
						q.pack(p.kernels, dst, &t, first, panelOutputs)
					}
				}
			})
		}
	}
}
