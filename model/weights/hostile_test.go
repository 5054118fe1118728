package weights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// safetensorsFile builds a file out of a header and data.
func safetensorsFile(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func TestSafetensorsHostile(t *testing.T) {
	data := make([]byte, 64)
	one := func(entry string) []byte { return safetensorsFile(`{"a":`+entry+`}`, data) }
	huge := binary.LittleEndian.AppendUint64(nil, math.MaxUint64)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too short"},
		{"short", []byte{1, 2, 3}, "too short"},
		{"header past the end", append(binary.LittleEndian.AppendUint64(nil, 1000), "{}"...), "does not fit the file"},
		{"absurd header length", append(huge, "{}"...), "does not fit the file"},
		{"no json", safetensorsFile("xxxx", nil), "invalid character"},
		{"list", safetensorsFile("[]", nil), "want a JSON object"},
		{"cut json", safetensorsFile(`{"a":{"dtype":"F32"`, nil), "EOF"},
		{"name twice",
			safetensorsFile(
				`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}`, data), "appears twice"},
		{"overlap",
			safetensorsFile(
				`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}`, data), "overlap"},
		{"same place",
			safetensorsFile(
				`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, data), "overlap"},
		{"data past the end", one(`{"dtype":"F32","shape":[32],"data_offsets":[0,128]}`), "outside the 64 bytes"},
		{"negative offset", one(`{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}`), "outside the 64 bytes"},
		{"offsets swapped", one(`{"dtype":"F32","shape":[4],"data_offsets":[16,0]}`), "outside the 64 bytes"},
		{"one offset", one(`{"dtype":"F32","shape":[4],"data_offsets":[0]}`), "has 1 numbers"},
		{"offset too large for an integer", one(`{"dtype":"F32","shape":[4],"data_offsets":[0,1e30]}`),
			"cannot unmarshal"},
		{"wrong size", one(`{"dtype":"F32","shape":[5],"data_offsets":[0,16]}`),
			"needs 20 bytes, data_offsets give 16"},
		{"wrong dtype", one(`{"dtype":"BF16","shape":[4],"data_offsets":[0,16]}`), "needs 8 bytes"},
		{"unknown dtype", one(`{"dtype":"Q4_K","shape":[4],"data_offsets":[0,16]}`), "unknown dtype"},
		{"zero dimension", one(`{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`), "out of range"},
		{"negative dimension", one(`{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}`), "out of range"},
		{"element count overflows", one(
			`{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,16]}`), "too many elements"},
		{"byte count overflows", one(`{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,16]}`),
			"too many elements"},
		{"many dimensions", one(`{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}`),
			"more than the 8 allowed"},
		{"metadata is no map of texts", safetensorsFile(`{"__metadata__":{"a":1}}`, data), "__metadata__"},
	} {
		_, _, err := parseSafetensors(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// ggufBytes builds GGUF files field by field, right or wrong.
type ggufBytes struct{ b []byte }

func newGGUF(version uint32, tensors, meta uint64) *ggufBytes {
	g := &ggufBytes{[]byte("GGUF")}
	return g.u32(version).u64(tensors).u64(meta)
}

func (g *ggufBytes) u32(v uint32) *ggufBytes {
	g.b = binary.LittleEndian.AppendUint32(g.b, v)
	return g
}

func (g *ggufBytes) u64(v uint64) *ggufBytes {
	g.b = binary.LittleEndian.AppendUint64(g.b, v)
	return g
}

func (g *ggufBytes) text(s string) *ggufBytes {
	g.b = appendText(g.b, s)
	return g
}

func (g *ggufBytes) tensor(name string, t DType, offset uint64, dims ...uint64) *ggufBytes {
	g.text(name).u32(uint32(len(dims)))
	for _, d := range dims {
		g.u64(d)
	}
	return g.u32(uint32(t)).u64(offset)
}

// data pads to the alignment and appends n bytes.
func (g *ggufBytes) data(n int) []byte {
	for len(g.b)%ggufAlignment != 0 {
		g.b = append(g.b, 0)
	}
	return append(g.b, make([]byte, n)...)
}

func TestGGUFHostile(t *testing.T) {
	bigEndian := append([]byte("GGUF"), 0, 0, 0, 3)
	nested := newGGUF(3, 0, 1).text("deep")
	nested.u32(metaArray)
	for range 6 {
		nested.u32(metaArray).u64(1)
	}
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "cut or damaged"},
		{"wrong magic", []byte("GGML\x03\x00\x00\x00"), "not a gguf file"},
		{"big endian", bigEndian, "big-endian"},
		{"version 1", newGGUF(1, 0, 0).b, "version 1"},
		{"version 99", newGGUF(99, 0, 0).b, "version 99"},
		{"cut header", newGGUF(3, 0, 0).b[:20], "cut or damaged"},
		{"absurd tensor count", newGGUF(3, math.MaxUint64, 0).b, "tensors cannot fit"},
		{"absurd metadata count", newGGUF(3, 0, 1<<40).b, "metadata entries cannot fit"},
		{"long key", newGGUF(3, 0, 1).u64(1 << 60).data(64), "longer than allowed"},
		{"long text", newGGUF(3, 0, 1).text("k").u32(metaString).u64(1 << 40).data(64), "longer than allowed"},
		{"long array", newGGUF(3, 0, 1).text("k").u32(metaArray).u32(metaUint8).u64(1 << 40).data(64),
			"array elements cannot fit"},
		{"array of texts whose count lies", newGGUF(3, 0, 1).text("k").u32(metaArray).u32(metaString).u64(1 << 61).data(
			64), "array elements cannot fit"},
		{"deep arrays", nested.data(64), "nested deeper"},
		{"unknown value type", newGGUF(3, 0, 1).text("k").u32(77).data(64), "unknown value type 77"},
		{"unknown array type", newGGUF(3, 0, 1).text("k").u32(metaArray).u32(77).u64(1).data(64),
			"unknown array type 77"},
		{"bool of 2", append(newGGUF(3, 0, 1).text("k").u32(metaBool).b, 2), "bool is stored as 2"},
		{"key twice", newGGUF(3, 0, 2).text("k").u32(metaUint32).u32(1).text("k").u32(metaUint32).u32(1).data(64),
			"appears twice"},
		{"alignment 0", newGGUF(3, 0, 1).text("general.alignment").u32(metaUint32).u32(0).data(64), "power of two"},
		{"alignment 24", newGGUF(3, 0, 1).text("general.alignment").u32(metaUint32).u32(24).data(64), "power of two"},
		{"alignment is a text", newGGUF(3, 0, 1).text("general.alignment").u32(metaString).text("x").data(64),
			"power of two"},
		{"data past the end", newGGUF(3, 1, 0).tensor("a", F32, 0, 64).data(128), "cut or damaged"},
		{"offset past the end", newGGUF(3, 1, 0).tensor("a", F32, 1<<62, 4).data(128), "cut or damaged"},
		{"offset wraps around", newGGUF(3, 1, 0).tensor("a", F32, math.MaxUint64-31, 8).data(128), "cut or damaged"},
		{"offset not aligned", newGGUF(3, 1, 0).tensor("a", F32, 4, 4).data(128), "not a multiple"},
		{"overlap", newGGUF(3, 2, 0).tensor("a", F32, 0, 16).tensor("b", F32, 32, 8).data(128), "overlap"},
		{"name twice", newGGUF(3, 2, 0).tensor("a", F32, 0, 8).tensor("a", F32, 32, 8).data(128), "appears twice"},
		{"zero dimension", newGGUF(3, 1, 0).tensor("a", F32, 0, 0).data(128), "dimension 0 is 0"},
		{"absurd dimension", newGGUF(3, 1, 0).tensor("a", F32, 0, math.MaxUint64).data(128), "dimension 0 is"},
		{"element count overflows", newGGUF(3, 1, 0).tensor("a", F32, 0, 1<<32, 1<<32, 1<<32).data(128),
			"too many elements"},
		{"five dimensions", newGGUF(3, 1, 0).tensor("a", F32, 0, 1, 1, 1, 1, 1).data(128), "5 dimensions"},
		{"row is no whole block", newGGUF(3, 1, 0).tensor("a", Q4_K, 0, 100).data(128), "whole number of Q4_K blocks"},
		{"unknown tensor type", newGGUF(3, 1, 0).tensor("a", 31, 0, 4).data(128), "unknown type 31"},
		{"type of another format", newGGUF(3, 1, 0).tensor("a", typeBool, 0, 4).data(128), "unknown type 1000"},
		{"no architecture", newGGUF(3, 0, 0).data(64), "general.architecture is missing"},
		{"unknown architecture", newGGUF(3, 0, 1).text("general.architecture").u32(metaString).text("gemma2").data(64),
			`"gemma2" is not supported: supported are llama`},
		{"no sizes", newGGUF(3, 0, 1).text("general.architecture").u32(metaString).text("llama").data(64),
			"llama.block_count is missing"},
	} {
		_, err := ParseGGUF(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestGGUFCut cuts a good file at every place: none may be taken for whole.
func TestGGUFCut(t *testing.T) {
	file := randomGGUF(t, "tiny-llama", Q8_0)
	ck, err := ParseGGUF(file)
	if err != nil {
		t.Fatal(err)
	}
	tensors := ck.Tensors()
	last := tensors[len(tensors)-1]
	end := len(file) - int(padded(int64(len(last.Data)))-int64(len(last.Data)))
	for n := 0; n < end; n += 1 + n/50 {
		if _, err := ParseGGUF(file[:n]); err == nil {
			t.Fatalf("a file cut from %d to %d bytes was taken", len(file), n)
		}
	}
}

func TestGGUFMetadataTypes(t *testing.T) {
	values := []any{
		uint8(1), int8(-1), uint16(2), int16(-2), uint32(3), int32(-3), float32(1.5), true, "text", uint64(1 << 40),
		int64(-1 << 40), 2.5,
		[]uint8{1}, []int8{-1}, []uint16{2}, []int16{-2}, []uint32{3}, []int32{-3}, []float32{1.5},
		[]bool{true, false}, []string{"a", ""}, []uint64{4}, []int64{-4}, []float64{2.5},
	}
	var out bytes.Buffer
	g := NewGGUFWriter(&out)
	for i, v := range values {
		if err := g.Meta(fmt.Sprint(i), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Meta("bad", struct{}{}); err == nil {
		t.Error("a struct was taken as metadata")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	part, err := parseGGUF(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if got := part.meta[fmt.Sprint(i)]; fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", v, v) {
			t.Errorf("value %d is %T %v, was %T %v", i, got, got, v, v)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	data := make([]byte, 64)
	f.Add(safetensorsFile(`{}`, nil))
	f.Add(
		safetensorsFile(
			`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[2,4],"data_offsets":[16,32]}}`, data))
	f.Add(safetensorsFile(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, data))
	f.Add(safetensorsFile(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]}}`, data))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, _, err := parseSafetensors(file)
		if err != nil {
			return
		}
		checkViews(t, tensors, len(file))
	})
}

func FuzzGGUF(f *testing.F) {
	f.Add(newGGUF(3, 0, 0).data(32))
	f.Add(newGGUF(2, 2, 1).text("k").u32(metaArray).u32(metaString).u64(2).text("a").text("b").tensor("a", F32, 0,
		8).tensor("b", Q8_0, 32, 32).data(128))
	f.Add(newGGUF(3, 1, 1).text("general.alignment").u32(metaUint32).u32(64).tensor("a", Q4_K, 0, 256).data(256))
	f.Add(newGGUF(3, 0, 1).text("k").u32(metaArray).u32(metaArray).u64(1).u32(metaBool).u64(1).data(32))
	f.Add(tinyVocabularyModel(f))
	f.Fuzz(func(t *testing.T, file []byte) {
		part, err := parseGGUF(file)
		if err != nil {
			return
		}
		checkViews(t, part.tensors, len(file))
		ck, err := ParseGGUF(file)
		if err != nil {
			return
		}
		_ = ck.CheckTensors()
		_ = Describe(ck)
	})
}

// checkViews reads every tensor and checks that together they fit the file.
func checkViews(t *testing.T, tensors []Tensor, fileBytes int) {
	var total int
	for _, tensor := range tensors {
		total += len(tensor.Data)
		if size, err := tensorBytes(tensor.Type, tensor.Shape); err != nil || size != int64(len(tensor.Data)) {
			t.Fatalf("%s: %d bytes, shape says %d (%v)", tensor.Name, len(tensor.Data), size, err)
		}
		if tensor.Type.Computable() && tensor.Type != F8E4M3 {
			if _, err := tensor.Float32s(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if total > fileBytes {
		t.Fatalf("tensors of %d bytes in a file of %d", total, fileBytes)
	}
}
