package weights

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func randomGGUF(t testing.TB, shape string, quant DType) []byte {
	t.Helper()
	s, err := ShapeNamed(shape)
	if err != nil {
		t.Fatal(err)
	}
	return randomOf(t, s, quant)
}

func randomOf(t testing.TB, s Shape, quant DType) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := WriteRandom(&out, s, quant, 1, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tinyVocabularyModel is the smallest model that can be written, to seed the
// fuzzer with.
func tinyVocabularyModel(t testing.TB) []byte {
	s := Shape{"fuzz", Config{
		Architecture: ArchLlama,
		Sizes: Sizes{
			Layers:  1,
			Hidden:  32,
			FFN:     32,
			Heads:   1,
			KVHeads: 1,
			HeadDim: 32,
			Vocab:   syntheticMin,
			Context: 8,
		},
		Traits:         Traits{TieEmbeddings: true},
		AttentionShape: AttentionShape{Rope: plainRope(10_000)},
	}}
	s.complete()
	return randomOf(t, s, Q4_0)
}

func TestWriteRandomOpens(t *testing.T) {
	for _, shape := range tinyShapes() {
		for _, quant := range append([]DType{F32, F16, BF16}, quantTypes...) {
			ck, err := ParseGGUF(randomGGUF(t, shape.Name, quant))
			if err != nil {
				t.Fatalf("%s as %s: %v", shape.Name, quant, err)
			}
			if err := ck.CheckTensors(); err != nil {
				t.Fatalf("%s as %s: %v", shape.Name, quant, err)
			}
			checkDeviations(t, ck, quant)
		}
	}
}

// checkDeviations checks that weights are centred and as wide as they should
// be.
func checkDeviations(t *testing.T, ck *Checkpoint, quant DType) {
	t.Helper()
	for _, tensor := range ck.Tensors() {
		values, err := tensor.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		for _, v := range values {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		mean := sum / float64(len(values))
		deviation := math.Sqrt(squares/float64(len(values)) - mean*mean)
		want := 1 / math.Sqrt(float64(tensor.Cols()))
		switch {
		case strings.HasSuffix(tensor.Name, "norm.weight"):
			if math.Abs(mean-1) > 0.1 || deviation > 0.2 {
				t.Errorf("%s: mean %g, deviation %g", tensor.Name, mean, deviation)
			}
		case len(tensor.Shape) > 1 && (math.Abs(mean) > want/10 || deviation < 0.9*want || deviation > 1.1*want):
			t.Errorf("%s as %s: mean %g, deviation %g, want 0 and %g", tensor.Name, quant, mean, deviation, want)
		}
	}
}

func TestWriteRandomDescribesItself(t *testing.T) {
	for _, shape := range Shapes() {
		if !strings.HasPrefix(shape.Name, "tiny-") {
			continue
		}
		ck, err := ParseGGUF(randomOf(t, shape, Q8_0))
		if err != nil {
			t.Fatal(err)
		}
		want := shape.Config
		want.Architecture = ggufArchitecture(want.Architecture)
		want.Rope.Interleaved = want.Architecture == ArchLlama
		if want.Architecture != ArchGemma3 {
			want.RopeLocal = want.Rope
		}
		requireEqual(t, shape.Name, ck.Config, want)
		if ck.ChatTemplate != chatML {
			t.Errorf("%s: chat template %q", shape.Name, ck.ChatTemplate)
		}
		tokens, _ := ck.Tokenizer.Meta("tokenizer.ggml.tokens")
		list := slices.Clone(tokens.([]string))
		slices.Sort(list)
		if n := len(slices.Compact(list)); n != want.Vocab {
			t.Errorf("%s: %d different tokens, want %d", shape.Name, n, want.Vocab)
		}
	}
}

func TestWriteRandomIsDeterministic(t *testing.T) {
	shape, err := ShapeNamed("tiny-qwen3moe")
	if err != nil {
		t.Fatal(err)
	}
	var a, b, c bytes.Buffer
	var last int64
	for _, run := range []struct {
		out  *bytes.Buffer
		seed uint64
	}{{&a, 5}, {&b, 5}, {&c, 6}} {
		if _, err := WriteRandom(run.out, shape, Q4_K, run.seed, func(done, total int64) {
			last = total - done
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same seed gave different files")
	}
	if bytes.Equal(a.Bytes(), c.Bytes()) {
		t.Error("different seeds gave the same file")
	}
	if last < 0 || last > 4096 {
		t.Errorf("progress ended %d bytes before the total", last)
	}
}

func TestFallbacks(t *testing.T) {
	shape, err := ShapeNamed("llama-135m")
	if err != nil {
		t.Fatal(err)
	}
	shape.Config.Layers = 1
	shape.complete()
	for quant, used := range map[DType]DType{Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0} {
		fallbacks, err := WriteRandom(io.Discard, shape, quant, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fallbacks {
			want := used
			if f.Tensor == "token_embd.weight" || f.Tensor == "blk.0.attn_v.weight" {
				want = Q8_0 // in place of Q6_K
			}
			if f.Used != want {
				t.Errorf("%s: want %s", f, want)
			}
		}
		if len(fallbacks) != 7 {
			t.Errorf("%s: fallbacks %v, want 7 (rows of 576), ffn_down's rows of 1536 fit", quant, fallbacks)
		}
	}
	if got := fittingType(Q8_0, 48); got != F16 {
		t.Errorf("rows of 48 as Q8_0 become %s", got)
	}
	if got := fittingType(Q4_K, 48); got != F16 {
		t.Errorf("rows of 48 as Q4_K become %s", got)
	}
}

func TestShapeErrors(t *testing.T) {
	if _, err := ShapeNamed("gpt-5"); err == nil || !strings.Contains(err.Error(), "llama-8b") {
		t.Errorf("unknown shape: %v", err)
	}
	small := Shapes()[0]
	small.Config.Vocab = 100
	if _, err := WriteRandom(io.Discard, small, Q8_0, 1, nil); err == nil ||
		!strings.Contains(err.Error(), "too small") {
		t.Errorf("vocabulary of 100: %v", err)
	}
	if _, err := WriteRandom(io.Discard, Shapes()[0], 10, 1, nil); err == nil ||
		!strings.Contains(err.Error(), "cannot be written as Q2_K") {
		t.Errorf("Q2_K: %v", err)
	}
	for _, s := range Shapes() {
		if err := s.Config.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func BenchmarkWriteRandom(b *testing.B) {
	for _, quant := range []DType{Q4_K, Q8_0, BF16} {
		b.Run(quant.String(), func(b *testing.B) {
			shape, err := ShapeNamed("llama-1b")
			if err != nil {
				b.Fatal(err)
			}
			shape.Config.Layers = 1
			shape.complete()
			for b.Loop() {
				counted := &countingWriter{w: io.Discard}
				if _, err := WriteRandom(counted, shape, quant, 1, nil); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(counted.n)
			}
		})
	}
}
