package cpu

import (
	"fmt"
	"testing"
	"time"

	"parley/compute"
	"parley/model/weights"
)

// newBench returns a backend with all threads, on the best path for "", and on
// that with fast numerics for "fast".
func newBench(b *testing.B, path string) bench {
	o := Options{Path: path}
	if path == Fast.String() {
		o = Options{Numerics: Fast}
	}
	c, err := New(o)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return bench{TB: b, Backend: c}
}

// benchLinear measures one projection. Several copies of small matrices are
// used in turn, as a model does, so that they come from memory and not from a cache.
func benchLinear(b *testing.B, path string, kind weights.DType, rows, out, cols int) {
	d := newBench(b, path)
	r := newRand(1)
	size := kind.RowBytes(cols) * out
	copies := 1
	if rows < 512 {
		copies = max(1, 400<<20/size)
	}
	data := randomTensor(r, kind, out, cols)
	ws := make([]compute.Weight, copies)
	for i := range ws {
		ws[i] = d.Weight(data)
	}
	in, dst := d.Buffer(rows, cols, randomFloats(r, rows*cols)), d.Buffer(rows, out, nil)
	ps := []compute.Projection{{Out: dst, W: ws[0]}}
	d.Begin(plainStep(rows), nil)
	best := time.Hour // of a round over all copies: other programs disturb the mean
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		for i := range ws {
			ps[0].W = ws[i]
			d.Linear(in, ps)
		}
		best = min(best, time.Since(start))
	}
	seconds := best.Seconds() / float64(copies)
	if rows < 512 {
		b.ReportMetric(float64(size)/seconds/1e9, "best-GB/s")
	}
	b.ReportMetric(2*float64(rows)*float64(out)*float64(cols)/seconds/1e9, "best-GFLOP/s")
}

func BenchmarkLinear(b *testing.B) {
	shapes := []struct{ out, cols int }{{2048, 2048}, {8192, 2048}, {2048, 8192}, {128256, 2048}, {1536, 576}}
	for _, path := range []string{"fast", "amx", "avx512", "avx2"} {
		for _, kind := range []weights.DType{weights.Q8_0, weights.Q4_0, weights.Q4_K, weights.Q6_K, weights.F16,
			weights.BF16} {
			for _, rows := range []int{1, 2, 4, 8, 16, 24, 36, 48, 96, 512} {
				for _, s := range shapes {
					if rows == 512 && s.out > 10000 || s.cols%kind.BlockLen() != 0 {
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

// benchAttend measures one layer of attention.
func benchAttend(b *testing.B, path string, kind compute.KVType, heads compute.Heads, seqs, rows, past int) {
	d := newBench(b, path)
	const poolBytes = 200 << 20 // more than a cache holds
	layer := compute.KVShape{Layers: 1, KVHeads: heads.KV, HeadDim: heads.Dim,
		Blocks: seqs * (past + rows) / compute.BlockTokens, Type: kind}
	layers := max(1, min(30, int(poolBytes/layer.Bytes())))
	perSeq := (past + rows + compute.BlockTokens - 1) / compute.BlockTokens
	shape := compute.KVShape{Layers: layers, KVHeads: heads.KV, HeadDim: heads.Dim, Blocks: perSeq * seqs, Type: kind}
	d.Pool(shape)
	r := newRand(1)
	data := d.Backend.(*CPU).kv.data
	for n := copy(data, randomPart(r, kind, heads.Dim)); n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
	step := plainStep(seqs * rows)
	step.Seqs = nil
	for i := range seqs {
		step.Seqs = append(step.Seqs,
			compute.Seq{Row: i * rows, Rows: rows, Past: past, Blocks: blockTable(past+rows, i*perSeq)})
	}
	width := heads.Query * heads.Dim
	q, dst := d.Buffer(seqs*rows, width, randomFloats(r, seqs*rows*width)), d.Buffer(seqs*rows, width, nil)
	a := compute.Attention{Heads: heads, Scale: 0.125}
	d.Begin(step, nil)
	b.ResetTimer()
	for i := range b.N {
		d.Attend(i%layers, dst, q, &a)
	}
	bytes := float64(shape.Bytes()) / float64(layers)
	b.ReportMetric(bytes*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

// The heads of models of one billion and of 135 million parameters.
var (
	headsOf1B   = compute.Heads{Query: 32, KV: 8, Dim: 64}
	headsOf135M = compute.Heads{Query: 9, KV: 3, Dim: 64}
)

func BenchmarkAttend(b *testing.B) {
	for _, path := range []string{"avx512", "avx2"} {
		for _, s := range []struct {
			name             string
			heads            compute.Heads
			seqs, rows, past int
		}{
			{"1B_decode_8x2K", headsOf1B, 8, 1, 2047}, {"1B_prefill_512_at_1536", headsOf1B, 1, 512, 1536},
			{"135M_decode_2K", headsOf135M, 1, 1, 2047}, {"135M_prefill_512", headsOf135M, 1, 512, 0},
		} {
			b.Run(path+"/"+s.name, func(b *testing.B) {
				benchAttend(b, path, compute.KVF32, s.heads, s.seqs, s.rows, s.past)
			})
		}
	}
}

// BenchmarkAttendKVTypes measures what the type of the pool costs and saves
// when one token looks back, and in a prompt.
func BenchmarkAttendKVTypes(b *testing.B) {
	for _, path := range []string{"avx512", "avx2", "plain"} {
		for _, s := range []struct {
			name       string
			rows, past int
		}{{"decode_2K", 1, 2047}, {"decode_8K", 1, 8191}, {"prefill_256_at_1792", 256, 1792}} {
			if path == "plain" && s.rows > 1 {
				continue // takes many seconds
			}
			for kind := range compute.KVType(compute.KVTypes) {
				b.Run(fmt.Sprintf("%s/%s/%v", path, s.name, kind), func(b *testing.B) {
					benchAttend(b, path, kind, headsOf1B, 1, s.rows, s.past)
				})
			}
		}
	}
}

// BenchmarkAttendSixteen measures sixteen streams of a small model, each of which writes a token.
func BenchmarkAttendSixteen(b *testing.B) {
	for _, past := range []int{511, 1700} {
		for _, kind := range []compute.KVType{compute.KVBF16, compute.KVInt8} {
			b.Run(fmt.Sprintf("%d/%v", past, kind), func(b *testing.B) {
				benchAttend(b, "avx512", kind, headsOf135M, 16, 1, past)
			})
		}
	}
}

// BenchmarkStoreKVTypes measures the rotation of a prompt's queries and keys,
// and storing its keys and values.
func BenchmarkStoreKVTypes(b *testing.B) {
	const rows = 256
	for kind := range compute.KVType(compute.KVTypes) {
		b.Run(kind.String(), func(b *testing.B) {
			d, r, h := newBench(b, ""), newRand(1), headsOf1B
			d.Pool(compute.KVShape{Layers: 1, KVHeads: h.KV, HeadDim: h.Dim, Blocks: rows / compute.BlockTokens,
				Type: kind})
			fill := func(heads int) compute.Buffer {
				return d.Buffer(rows, heads*h.Dim, randomFloats(r, rows*heads*h.Dim))
			}
			x := compute.QKV{Q: fill(h.Query), K: fill(h.KV), V: fill(h.KV), Heads: h}
			d.Begin(plainStep(rows), []compute.Rope{{InvFreq: invFreq(h.Dim), Scale: 1}})
			b.ResetTimer()
			for range b.N {
				d.RopeStore(0, 0, &x)
			}
		})
	}
}

func BenchmarkSmallOperations(b *testing.B) {
	for _, rows := range []int{1, 512} {
		d := newBench(b, "")
		const cols = 2048
		r := newRand(1)
		src, dst := d.Buffer(rows, cols, randomFloats(r, rows*cols)), d.Buffer(rows, cols, nil)
		w := d.Weight(vectorTensor(r, cols))
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
				c.prepare(src.(*buffer).data, rows, cols, asInts)
			}
		})
	}
}
