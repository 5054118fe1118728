package weights

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
)

// WriteRandom writes a GGUF model of the given shape with random weights: it
// answers nonsense, but it loads, serves and takes exactly as long as a trained
// model of its size, here and in llama.cpp. The same shape, type and seed give
// the same bytes everywhere. Matrices have a variance that keeps activations
// near one, norms are near one. The types of tensors follow the same rules as
// in [Convert]. The progress function may be nil.
func WriteRandom(w io.Writer, shape Shape, quant DType, seed uint64,
	progress func(done, total int64)) ([]Fallback, error) {
	c := &shape.Config
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("random model %s: %w", shape.Name, err)
	}
	plan, fallbacks, err := planStorage(c, quant)
	if err != nil {
		return nil, fmt.Errorf("random model %s: %w", shape.Name, err)
	}
	text, err := syntheticTokenizer(c.Vocab)
	if err != nil {
		return nil, fmt.Errorf("random model %s: %w", shape.Name, err)
	}
	opts := ConvertOptions{Name: shape.Name, Description: "random weights, for measurements and tests",
		License: "cc0-1.0"}
	meta := append(generalMeta(c, opts), configMeta(c, quant)...)
	g := NewGGUFWriter(w)
	if err := declare(g, append(meta, text...), plan, freqFactorsOf(c)); err != nil {
		return nil, fmt.Errorf("random model %s: %w", shape.Name, err)
	}
	r := &randomWriter{g: g, seed: seed, progress: progress}
	if err := r.write(c, plan); err != nil {
		return nil, fmt.Errorf("random model %s: %w", shape.Name, err)
	}
	return fallbacks, nil
}

type randomWriter struct {
	g        *GGUFWriter
	seed     uint64
	progress func(done, total int64)
	done     int64
}

func (r *randomWriter) write(c *Config, plan []plannedTensor) error {
	if err := writeFreqFactors(r.g, freqFactorsOf(c)); err != nil {
		return err
	}
	for _, p := range plan {
		if err := r.g.WriteTensor(p.name, func(w io.Writer) error { return r.fill(w, p) }); err != nil {
			return err
		}
	}
	return r.g.Close()
}

// fill writes one tensor in pieces. Its stream of random numbers depends on
// the seed and its name alone.
func (r *randomWriter) fill(w io.Writer, p plannedTensor) error {
	const elementsAtOnce = 1 << 16
	rng := newRandom(r.seed, p.name)
	left := Tensor{Shape: p.shape}.Elements()
	buf := make([]byte, elementsAtOnce/p.dtype.BlockLen()*p.dtype.BlockBytes())
	fillBlocks := blockFiller(p)
	for left > 0 {
		n := int(min(left, elementsAtOnce))
		piece := buf[:p.dtype.RowBytes(n)]
		fillBlocks(piece, rng)
		if _, err := w.Write(piece); err != nil {
			return err
		}
		left -= int64(n)
		r.done += int64(len(piece))
		if r.progress != nil {
			r.progress(r.done, r.g.DataBytes())
		}
	}
	return nil
}

// random is a small fast generator (splitmix64): quality beyond "looks
// independent" is not needed, speed over billions of weights is.
type random struct{ state uint64 }

func newRandom(seed uint64, name string) *random {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	h.Write([]byte(name))
	return &random{h.Sum64()}
}

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// bytes fills b.
func (r *random) bytes(b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.next())
		b = b[8:]
	}
	if len(b) > 0 {
		var tail [8]byte
		binary.LittleEndian.PutUint64(tail[:], r.next())
		copy(b, tail[:])
	}
}

// bell returns a number with mean 0 and variance 1, near enough to normal: the
// sum of four uniform ones.
func (r *random) bell() float32 {
	v := r.next()
	sum := int32(v&0xffff) + int32(v>>16&0xffff) + int32(v>>32&0xffff) + int32(v>>48)
	const mean, deviation = 2 * 65535.0, 65536 * 0.57735027
	return (float32(sum) - mean) / deviation
}

// sign returns 1 or -1 by a bit.
func sign(bit uint64) float32 { return 1 - 2*float32(bit&1) }

// blockFiller returns a function that fills whole blocks of a tensor with
// random weights.
func blockFiller(p plannedTensor) func(dst []byte, rng *random) {
	mean, deviation := float32(0), 1/sqrt32(float32(p.shape[len(p.shape)-1]))
	if len(p.shape) == 1 {
		deviation = 0.02
		if p.class == classNorms {
			mean, deviation = 1, 0.1
		}
	}
	size := p.dtype.BlockBytes()
	fill, quantized := randomBlocks[p.dtype]
	if !quantized {
		return func(dst []byte, rng *random) {
			for ; len(dst) > 0; dst = dst[size:] {
				putFloat(dst, p.dtype, mean+deviation*rng.bell())
			}
		}
	}
	return func(dst []byte, rng *random) {
		for ; len(dst) > 0; dst = dst[size:] {
			fill(dst[:size], deviation, rng)
		}
	}
}

func putFloat(dst []byte, t DType, v float32) {
	switch t {
	case F32:
		binary.LittleEndian.PutUint32(dst, math.Float32bits(v))
	case F16:
		binary.LittleEndian.PutUint16(dst, ToF16(v))
	case BF16:
		binary.LittleEndian.PutUint16(dst, ToBF16(v))
	}
}

// randomBlocks fill one block such that its elements have mean 0 and the given
// deviation. Levels are uniform; where their grid is not symmetric, the sign
// of the scale is random.
var randomBlocks = map[DType]func(block []byte, deviation float32, rng *random){
	Q8_0: randomQ8_0,
	Q4_0: func(b []byte, dev float32, r *random) { randomSigned(b, dev/4.61, r) },
	Q5_0: func(b []byte, dev float32, r *random) { randomSigned(b, dev/9.23, r) },
	Q4_1: func(b []byte, dev float32, r *random) { randomOffset(b, dev/4.61, 7.5, r) },
	Q5_1: func(b []byte, dev float32, r *random) { randomOffset(b, dev/9.23, 15.5, r) },
	Q4_K: func(b []byte, dev float32, r *random) { randomSuper(b, dev/4.61, 7.5, r) },
	Q5_K: func(b []byte, dev float32, r *random) { randomSuper(b, dev/9.23, 15.5, r) },
	Q6_K: randomQ6_K,
}

// randomQ8_0 uses odd levels only, which keeps out -128, a level no quantizer
// makes.
func randomQ8_0(block []byte, deviation float32, rng *random) {
	putHalf(block, deviation/73.9)
	for i := 2; i < 34; i += 8 {
		binary.LittleEndian.PutUint64(block[i:], rng.next()|0x0101010101010101)
	}
}

func randomSigned(block []byte, scale float32, rng *random) {
	rng.bytes(block[2:])
	putHalf(block, scale*sign(rng.next()))
}

func randomOffset(block []byte, scale, middle float32, rng *random) {
	rng.bytes(block[4:])
	putHalf(block, scale)
	putHalf(block[2:], -middle*scale)
}

// randomSuper gives each run of 32 a scale of 32 to 63 and the minimum that
// centres it.
func randomSuper(block []byte, scale, middle float32, rng *random) {
	const scalesRMS = 48.4
	d := scale / scalesRMS
	putHalf(block, d)
	putHalf(block[2:], middle*d)
	var scales [8]uint8
	rng.bytes(scales[:])
	for i := range scales {
		scales[i] = scales[i]&31 | 32
	}
	packScales(block[4:16], &scales, &scales)
	rng.bytes(block[16:])
}

func randomQ6_K(block []byte, deviation float32, rng *random) {
	const scalesRMS, levelsDeviation = 97.2, 18.47
	rng.bytes(block[:208])
	for i, b := range block[192:208] {
		block[192+i] = byte(int8(sign(uint64(b))) * int8(b>>2|64))
	}
	putHalf(block[208:], deviation/(scalesRMS*levelsDeviation))
}

// RandomCheckpoint returns a model of the given shape with random weights in
// memory, for measurements: it loads and computes as one that [WriteRandom]
// wrote. Matrices of one type and width share their memory, so that it takes
// little more than its largest tensor.
func RandomCheckpoint(shape Shape, quant DType, seed uint64) (*Checkpoint, error) {
	plan, _, err := planStorage(&shape.Config, quant)
	if err != nil {
		return nil, fmt.Errorf("random model %s: %w", shape.Name, err)
	}
	c := &Checkpoint{Path: shape.Name, Config: shape.Config, byName: map[string]int{}}
	slabs := map[string][]byte{}
	for _, p := range plan {
		key := fmt.Sprint(p.dtype, p.shape[len(p.shape)-1], len(p.shape), p.class)
		need := len(slabs[key])
		if size := int(Tensor{Shape: p.shape}.Elements()) / p.dtype.BlockLen() * p.dtype.BlockBytes(); size > need {
			slabs[key] = randomSlab(p, size, newRandom(seed, key))
		}
	}
	for _, p := range plan {
		key := fmt.Sprint(p.dtype, p.shape[len(p.shape)-1], len(p.shape), p.class)
		size := int(Tensor{Shape: p.shape}.Elements()) / p.dtype.BlockLen() * p.dtype.BlockBytes()
		c.byName[p.name] = len(c.tensors)
		c.tensors = append(c.tensors, Tensor{Name: p.name, Type: p.dtype, Shape: p.shape, Data: slabs[key][:size:size]})
	}
	return c, nil
}

// randomSlab returns blocks of which a beginning is random and repeated.
func randomSlab(p plannedTensor, size int, rng *random) []byte {
	const repeated = 1 << 18 // blocks
	slab := make([]byte, size)
	done := min(size, repeated*p.dtype.BlockBytes())
	blockFiller(p)(slab[:done], rng)
	for done < size {
		done += copy(slab[done:], slab[:done])
	}
	return slab
}
