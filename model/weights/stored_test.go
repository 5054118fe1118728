package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// randomModel opens a random model.
func randomModel(t testing.TB, shape string, quant DType) *Checkpoint {
	t.Helper()
	ck, err := ParseGGUF(randomGGUF(t, shape, quant))
	if err != nil {
		t.Fatal(err)
	}
	return ck
}

func planned(t testing.TB, ck *Checkpoint, opts ConvertOptions) *Conversion {
	t.Helper()
	c, err := PlanConversion(ck, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConversionKnowsItsSize(t *testing.T) {
	for _, shape := range tinyShapes() {
		ck := randomModel(t, shape.Name, BF16)
		for _, quant := range []DType{F32, Q8_0, Q4_0, Q4_K} {
			c := planned(t, ck, ConvertOptions{Type: quant})
			counted := &countingWriter{w: io.Discard}
			stored, err := c.Write(counted)
			if err != nil {
				t.Fatal(err)
			}
			if counted.n != c.FileBytes {
				t.Errorf("%s as %s: %d bytes were written, %d planned", shape.Name, quant, counted.n, c.FileBytes)
			}
			var parameters int64
			for _, s := range stored {
				parameters += s.Parameters
			}
			if want := Describe(ck).Parameters; parameters != want {
				t.Errorf("%s as %s: %d parameters stored, the model has %d", shape.Name, quant, parameters, want)
			}
		}
	}
}

// What a conversion says of its error is what anyone finds who compares the
// two files.
func TestConversionTellsItsError(t *testing.T) {
	source := randomModel(t, "tiny-mistral", F32)
	for _, quant := range []DType{F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K, Q4_0} {
		var out bytes.Buffer
		stored, err := planned(t, source, ConvertOptions{Type: quant}).Write(&out)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseGGUF(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stored {
			wrong, all, n := differences(t, source, got, s.Type)
			rms, relative := math.Sqrt(wrong/float64(n)), math.Sqrt(wrong/all)
			if math.Abs(rms-s.RMSError) > 1e-9 || math.Abs(relative-s.RelativeError) > 1e-9 {
				t.Errorf("%s: said %g and %g, found %g and %g", s.Type, s.RMSError, s.RelativeError, rms, relative)
			}
			if s.RelativeError > errorBudgets[s.Type] || (s.RelativeError == 0) != (s.Type == F32) {
				t.Errorf("%s: relative error %g, budget %g", s.Type, s.RelativeError, errorBudgets[s.Type])
			}
		}
	}
}

// differences sums up the squares over the tensors of one type.
func differences(t *testing.T, source, got *Checkpoint, kind DType) (wrong, all float64, n int64) {
	t.Helper()
	for _, b := range got.Tensors() {
		if b.Type != kind {
			continue
		}
		a, _ := source.Tensor(b.Name)
		want, errA := a.Float32s()
		have, errB := b.Float32s()
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		l := lossOf(want, have)
		wrong, all, n = wrong+l.wrong, all+l.all, n+b.Elements()
	}
	return wrong, all, n
}

func TestConversionDoesNotDependOnProcessors(t *testing.T) {
	ck := randomModel(t, "tiny-qwen3moe", F32)
	var files []string
	var sums [][]StoredType
	for _, processors := range []int{1, 3} {
		before := runtime.GOMAXPROCS(processors)
		var out bytes.Buffer
		stored, err := planned(t, ck, ConvertOptions{Type: Q4_K}).Write(&out)
		runtime.GOMAXPROCS(before)
		if err != nil {
			t.Fatal(err)
		}
		files, sums = append(files, out.String()), append(sums, stored)
	}
	if files[0] != files[1] || !slices.Equal(sums[0], sums[1]) {
		t.Errorf("one processor and three disagree: %v %v", sums[0], sums[1])
	}
}

// The mix of Q4_K is the one that its file type promises to llama.cpp's users.
func TestSensitiveTensorsKeepSixBits(t *testing.T) {
	shape, err := ShapeNamed("llama-1b")
	if err != nil {
		t.Fatal(err)
	}
	for quant, rest := range map[DType]DType{Q4_K: Q4_K, Q5_K: Q5_K, Q6_K: Q6_K, Q4_0: Q4_0} {
		plan, _, err := planStorage(&shape.Config, quant)
		if err != nil {
			t.Fatal(err)
		}
		var sixBits []int
		for _, p := range plan {
			switch {
			case len(p.shape) == 1:
				if p.dtype != F32 {
					t.Errorf("%s is stored as %s", p.name, p.dtype)
				}
			case strings.Contains(p.name, "attn_v") && p.dtype == Q6_K:
				sixBits = append(sixBits, p.layer)
			case p.dtype != rest && p.dtype != Q6_K:
				t.Errorf("%s is stored as %s", p.name, p.dtype)
			}
		}
		want := []int{0, 1, 4, 7, 10, 13, 14, 15}
		if (quant == Q4_K || quant == Q5_K) && !slices.Equal(sixBits, want) {
			t.Errorf("%s: layers %v keep six bits, want %v", quant, sixBits, want)
		}
	}
}

// Weights that are no numbers are refused by name: quantized, they would
// spoil their neighbours without a word.
func TestConversionRefusesWhatIsNoNumber(t *testing.T) {
	for name, bits := range map[string]uint32{"NaN": math.Float32bits(float32(math.NaN())), "infinity": 0x7f800000,
		"too large": math.Float32bits(1e30)} {
		data := randomGGUF(t, "tiny-llama", F32)
		ck, err := ParseGGUF(data)
		if err != nil {
			t.Fatal(err)
		}
		tensor, _ := ck.Tensor("blk.1.ffn_up.weight")
		binary.LittleEndian.PutUint32(tensor.Data[4*(3*tensor.Cols()+7):], bits)
		_, err = Convert(ck, io.Discard, ConvertOptions{Type: F16})
		if err == nil ||
			!strings.Contains(err.Error(), "blk.1.ffn_up.weight: row 3 has a weight that is NaN or too large for F16") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConversionKeepsWhatTheFileSaysOfItself(t *testing.T) {
	ck := randomModel(t, "tiny-llama", F16)
	ck.meta["general.author"], ck.meta["general.tags"], ck.meta["general.alignment"] = "somebody", []string{"a",
		"b"}, uint32(64)
	var out bytes.Buffer
	if _, err := Convert(ck, &out, ConvertOptions{Type: Q4_0, Name: "another"}); err != nil {
		t.Fatal(err)
	}
	got, err := ParseGGUF(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"general.author": "somebody", "general.license": "cc0-1.0",
		"general.name": "another", "general.file_type": uint32(2), "general.alignment": nil} {
		if v, _ := got.Meta(key); v != want {
			t.Errorf("%s is %v, want %v", key, v, want)
		}
	}
	if tags, _ := got.Meta("general.tags"); !slices.Equal(tags.([]string), []string{"a", "b"}) {
		t.Errorf("tags %v", tags)
	}
}

// However large the model, converting takes the memory of a few rows.
func TestConversionStreams(t *testing.T) {
	shape, err := ShapeNamed("llama-135m")
	if err != nil {
		t.Fatal(err)
	}
	shape.Config.Layers = 2
	shape.complete()
	ck, err := ParseGGUF(randomOf(t, shape, BF16))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	most, calls := uint64(0), 0
	c := planned(t, ck, ConvertOptions{Type: Q8_0, Progress: func(done, total int64) {
		if calls++; calls%8 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		if done > total {
			t.Errorf("%d bytes of %d are done", done, total)
		}
	}})
	if _, err := c.Write(io.Discard); err != nil {
		t.Fatal(err)
	}
	const bound = 16 << 20 // of 38 MB
	if most == 0 || most > before.HeapAlloc+bound {
		t.Errorf("converting took %d bytes, more than %d", most-before.HeapAlloc, bound)
	}
}

var errFull = errors.New("the disk is full")

type fullWriter struct{ left int }

func (f *fullWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestConversionReportsAFailedWrite(t *testing.T) {
	ck := randomModel(t, "tiny-llama", F32)
	if _, err := planned(t, ck, ConvertOptions{Type: F32}).Write(&fullWriter{left: 1 << 20}); !errors.Is(err, errFull) {
		t.Errorf("a full disk gave %v", err)
	}
}
