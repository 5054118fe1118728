package weights

import (
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// TestReadsInt4Directories opens a model in each way that weights of four bits are published in, and compares it with
// the numbers that these stand for: they are equal in all types, unless inputs are in any order of groups.
func TestReadsInt4Directories(t *testing.T) {
	for name, layout := range testkit.Int4Layouts {
		t.Run(name, func(t *testing.T) { testReadsInt4(t, "tiny-qwen3", name, layout) })
		t.Run(name+", experts", func(t *testing.T) { testReadsInt4(t, "qwen3-moe", name, layout) })
	}
}

func testReadsInt4(t *testing.T, model, name string, layout testkit.Int4Layout) {
	stored, widened := testkit.Int4Directories(t, model, name)
	got, want := openDir(t, stored), openDir(t, widened)
	if err := got.CheckTensors(); err != nil {
		t.Fatal(err)
	}
	kinds, matrices, oneGroup := map[DType]int{}, 0, 0
	for _, w := range want.Tensors() {
		listed, ok := got.Listed(w.Name)
		if !ok {
			t.Fatalf("%s is missing", w.Name)
		}
		matrix := strings.Contains(w.Name, "blk.") && len(w.Shape) > 1 && !strings.Contains(w.Name, "ffn_gate_inp")
		if matrix {
			matrices++
			if w.Shape[len(w.Shape)-1] == 32 { // any order of one group is in order
				oneGroup++
			}
		}
		for _, g := range []Tensor{listed.Loaded(), listed.Narrow().Loaded()} {
			if matrix {
				kinds[g.Type]++
			}
			a, errA := g.Float32s()
			b, errB := w.Float32s()
			if errA != nil || errB != nil || !slices.Equal(g.Shape, w.Shape) || !near(a, b, matrix && layout.ActOrder) {
				t.Fatalf("%s as %s has other numbers: %v, %v", w.Name, g.Type, errA, errB)
			}
		}
	}
	types := map[DType]int{Q4_0: 2 * matrices}
	switch {
	case layout.ActOrder:
		types = map[DType]int{Q8_0: 2 * (matrices - oneGroup), Q4_0: 2 * oneGroup}
		maps.DeleteFunc(types, func(_ DType, n int) bool { return n == 0 })
	case layout.Zeros:
		types = map[DType]int{Q8_0: matrices, Q5_0: matrices}
	}
	if !maps.Equal(kinds, types) {
		t.Errorf("matrices have the types %v, want %v", kinds, types)
	}
	if s := Describe(got); len(s.Problems) > 0 || s.Parameters != Describe(want).Parameters {
		t.Errorf("described as %d parameters with problems %v", s.Parameters, s.Problems)
	}
}

// near reports whether numbers are equal, or as near as bytes with one scale for 32 of them are.
func near(a, b []float32, rounded bool) bool {
	if !rounded {
		return slices.Equal(a, b)
	}
	for i := range a {
		top := 0.0
		for _, v := range b[i/32*32:][:32] {
			top = max(top, math.Abs(float64(v)))
		}
		if math.Abs(float64(a[i]-b[i])) > top/127 {
			return false
		}
	}
	return len(a) == len(b)
}

// TestConvertsInt4 writes directories with weights of four bits as GGUF files.
func TestConvertsInt4(t *testing.T) {
	stored, widened := testkit.Int4Directories(t, "tiny-qwen3", "awq")
	files := map[string][]byte{}
	for _, dir := range []string{stored, widened} {
		var out strings.Builder
		if _, err := Convert(openDir(t, dir), &out, ConvertOptions{Type: F16}); err != nil {
			t.Fatal(err)
		}
		files[dir] = []byte(out.String())
	}
	if !slices.Equal(files[stored], files[widened]) {
		t.Error("weights of four bits are converted to other bytes than the numbers that they stand for")
	}
}

func TestInt4DirectoriesHostile(t *testing.T) {
	type tensors = map[string]testkit.StoredTensor
	const module = "model.layers.1.mlp.up_proj"
	replace := func(ending, kind string, size int, shape ...int) func(tensors) {
		return func(all tensors) {
			all[module+ending] = testkit.StoredTensor{Type: kind, Shape: shape, Data: make([]byte, size)}
		}
	}
	remove := func(ending string) func(tensors) { return func(all tensors) { delete(all, module+ending) } }
	put := func(ending string, at int, v uint16) func(tensors) {
		return func(all tensors) { binary.LittleEndian.PutUint16(all[module+ending].Data[at:], v) }
	}
	directories := map[string]string{}
	for _, layout := range []string{"gptq", "awq", "compressed zeros"} {
		directories[layout], _ = testkit.Int4Directories(t, "tiny-qwen3", layout)
	}
	for _, c := range []struct {
		layout string
		spoil  func(tensors)
		want   string
	}{
		{"gptq", remove(".scales"), ".scales is missing"},
		{"gptq", remove(".qzeros"), ".qzeros is missing"},
		{"gptq", remove(".qweight"), "ffn_up.weight [512 256] is missing"},
		{"gptq", replace(".qweight", "I64", 8*32*512, 32, 512), ".qweight has type I64: want I32"},
		{"gptq", replace(".qweight", "I32", 4*32*512, 32*512), "want a matrix"},
		{"gptq", replace(".qweight", "I32", 4*32*508, 32, 508), "508 outputs and 256 inputs are not supported"},
		{"gptq", replace(".qweight", "I32", 4*30*512, 30, 512), "512 outputs and 240 inputs are not supported"},
		{"gptq", replace(".qzeros", "I32", 4*16, 1, 16), "zeros have the shape [1 16]: want [8 64]"},
		{"gptq", replace(".scales", "F16", 2*128, 1, 128), "scales have the shape [1 128]: want [8 512]"},
		{"gptq", replace(".scales", "I32", 4*8*512, 8, 512), ".scales is missing, or is not F32, BF16 or F16"},
		{"gptq", replace(".g_idx", "I32", 4*32, 32), "groups of inputs have the shape [32]: want [256]"},
		{"gptq", put(".g_idx", 12, 8), "input 3 has group 8 of 8"},
		{"gptq", func(all tensors) {
			binary.LittleEndian.PutUint32(all[module+".g_idx"].Data, math.MaxUint32)
		}, "input 1 has group 0 of 8"},
		{"gptq", put(".scales", 6, 0x7c00), "has +Inf: a scale is at most 65504"},
		{"awq", put(".scales", 6, 0xfe00), "has NaN"},
		{"compressed zeros", replace(".weight_zero_point", "I32", 4*16, 16), "zeros have the shape [16]: want [64 8]"},
		{"awq", func(all tensors) {
			for _, ending := range []string{".qweight", ".qzeros", ".scales"} {
				all["model.embed_tokens"+ending] = all[module+ending]
			}
		}, "embeddings of four bits are not supported"},
	} {
		good := directories[c.layout]
		config, err := os.ReadFile(filepath.Join(good, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		all := testkit.ReadSafetensors(t, filepath.Join(good, "model.safetensors"))
		c.spoil(all)
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "config.json"), config)
		testkit.WriteSafetensors(t, filepath.Join(dir, "model.safetensors"), all)
		ck, err := Open(dir)
		if err == nil {
			err = ck.CheckTensors()
			defer ck.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.layout, err, c.want)
		}
	}
}
