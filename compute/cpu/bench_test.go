package cpu

import (
	"fmt"
	"testing"

	"parley/compute"
	"parley/model/weights"
)

// newBench returns a backend on the best path with all threads.
func newBench(b *testing.B, path string) bench {
	c, err := New(Options{Path: path})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return bench{b, c}
}

// benchLinear measures one projection. Several copies of small matrices are
// used in turn, as a model does, so that they come from memory and not from a cache.
func benchLinear(b *testing.B, path string, kind weights.DType, rows, out, cols int) {
	d := newBench(b, path)
	r := newRand(1)
	size := kind.RowBytes(cols) * out
	copies := 1
	if rows == 1 {
		copies = max(1, 1000<<20/size)
	}
	data := randomTensor(r, kind, out, cols)
	ws := make([]compute.Weight, copies)
	for i := range ws {
		ws[i] = d.upload(data)
	}
	in, dst := d.buffer(rows, cols, randomFloats(r, rows*cols)), d.buffer(rows, out, nil)
	ps := []compute.Projection{{Out: dst, W: ws[0]}}
	d.Begin(plainStep(rows), nil)
	b.ResetTimer()
	for i := range b.N {
		ps[0].W = ws[i%copies]
		d.Linear(in, ps)
	}
	seconds := b.Elapsed().Seconds()
	if rows <= 16 {
		b.ReportMetric(float64(size)*float64(b.N)/seconds/1e9, "GB/s")
	}
	b.ReportMetric(2*float64(rows)*float64(out)*float64(cols)*float64(b.N)/seconds/1e9, "GFLOP/s")
}

func BenchmarkLinear(b *testing.B) {
	shapes := []struct{ out, cols int }{{2048, 2048}, {8192, 2048}, {2048, 8192}, {128256, 2048}, {1536, 576}}
	for _, path := range []string{"avx512", "avx2"} {
		for _, kind := range []weights.DType{weights.Q8_0, weights.F16} {
			for _, rows := range []int{1, 8, 512} {
				for _, s := range shapes {
					if rows == 512 && s.out > 10000 {
						continue
					}
					b.Run(fmt.Sprintf("%s/%s/%d_rows/%dx%d", path, kind, rows, s.out, s.cols), func(b *testing.B) {
						benchLinear(b, path, kind, rows, s.out, s.cols)
					})
				}
			}
		}
	}
}

// benchAttend measures one layer of attention with the heads of a 1B model.
func benchAttend(b *testing.B, path string, heads compute.Heads, seqs, rows, past int) {
	d := newBench(b, path)
	layers := max(1, 256/seqs/16)
	perSeq := (past + rows + compute.BlockTokens - 1) / compute.BlockTokens
	d.newKV(compute.KVShape{Layers: layers, KVHeads: heads.KV, HeadDim: heads.Dim, Blocks: perSeq * seqs})
	r := newRand(1)
	c := d.Backend.(*CPU)
	copy(c.kv.data, randomFloats(r, 1<<20))
	for n := 1 << 20; n < len(c.kv.data); n *= 2 {
		copy(c.kv.data[n:], c.kv.data[:n])
	}
	step := plainStep(seqs * rows)
	step.Seqs = nil
	for i := range seqs {
		step.Seqs = append(step.Seqs, compute.Seq{Row: i * rows, Rows: rows, Past: past, Blocks: blockTable(past+rows, i*perSeq)})
	}
	width := heads.Query * heads.Dim
	q, dst := d.buffer(seqs*rows, width, randomFloats(r, seqs*rows*width)), d.buffer(seqs*rows, width, nil)
	a := compute.Attention{Heads: heads, Scale: 0.125}
	d.Begin(step, nil)
	b.ResetTimer()
	for i := range b.N {
		d.Attend(i%layers, dst, q, &a)
	}
	bytes := float64(seqs) * float64(past+rows) * float64(heads.KV*heads.Dim*8)
	b.ReportMetric(bytes*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

func BenchmarkAttend(b *testing.B) {
	large, small := compute.Heads{Query: 32, KV: 8, Dim: 64}, compute.Heads{Query: 9, KV: 3, Dim: 64}
	for _, path := range []string{"avx512", "avx2"} {
		for _, s := range []struct {
			name             string
			heads            compute.Heads
			seqs, rows, past int
		}{
			{"1B_decode_2K", large, 1, 1, 2047}, {"1B_decode_8x2K", large, 8, 1, 2047}, {"1B_prefill_512_at_1536", large, 1, 512, 1536},
			{"135M_decode_2K", small, 1, 1, 2047}, {"135M_prefill_512", small, 1, 512, 0},
		} {
			b.Run(path+"/"+s.name, func(b *testing.B) { benchAttend(b, path, s.heads, s.seqs, s.rows, s.past) })
		}
	}
}

func BenchmarkSmallOperations(b *testing.B) {
	for _, rows := range []int{1, 512} {
		d := newBench(b, "")
		const cols = 2048
		r := newRand(1)
		src, dst := d.buffer(rows, cols, randomFloats(r, rows*cols)), d.buffer(rows, cols, nil)
		w := d.upload(vectorTensor(r, cols))
		d.Begin(plainStep(rows), nil)
		b.Run(fmt.Sprintf("norm/%d_rows", rows), func(b *testing.B) {
			for range b.N {
				d.Norm(dst, src, w, 1e-5, 0)
			}
		})
		b.Run(fmt.Sprintf("add/%d_rows", rows), func(b *testing.B) {
			for range b.N {
				d.Add(dst, src)
			}
		})
		c := d.Backend.(*CPU)
		b.Run(fmt.Sprintf("quantize/%d_rows", rows), func(b *testing.B) {
			for range b.N {
				c.prepare(src.(*buffer).data, rows, cols, true)
			}
		})
	}
}
