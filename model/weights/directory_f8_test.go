package weights

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
	"parley/model/f8"
)

// TestReadsFP8Directories opens a model in each way that FP8 weights are
// published in, and compares it with the numbers that these stand for.
func TestReadsFP8Directories(t *testing.T) {
	for layout := range testkit.FP8Layouts {
		t.Run(layout, func(t *testing.T) {
			stored, widened := testkit.FP8Directories(t, "tiny-qwen3", layout)
			got, want := openDir(t, stored), openDir(t, widened)
			if err := got.CheckTensors(); err != nil {
				t.Fatal(err)
			}
			narrow := 0
			for _, w := range want.Tensors() {
				g, ok := got.Tensor(w.Name)
				if g.Type == F8E4M3 {
					narrow++
				}
				a, errA := g.Float32s()
				b, errB := w.Float32s()
				if !ok || errA != nil || errB != nil || !slices.Equal(a, b) {
					t.Fatalf("%s has other numbers: %v, %v", w.Name, errA, errB)
				}
			}
			if want := 7 * got.Config.Layers; narrow != want {
				t.Errorf("%d matrices are %s, want %d", narrow, F8E4M3, want)
			}
			if s := Describe(got); len(s.Problems) > 0 || s.Parameters != Describe(want).Parameters {
				t.Errorf("described as %d parameters with problems %v", s.Parameters, s.Problems)
			}
		})
	}
}

func openDir(t *testing.T, dir string) *Checkpoint {
	t.Helper()
	ck, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	})
	return ck
}

// TestConvertsFP8 writes a directory with FP8 weights as a GGUF file.
func TestConvertsFP8(t *testing.T) {
	stored, widened := testkit.FP8Directories(t, "tiny-qwen3", "block")
	files := map[string][]byte{}
	for _, dir := range []string{stored, widened} {
		var out strings.Builder
		if _, err := Convert(openDir(t, dir), &out, ConvertOptions{Type: Q8_0}); err != nil {
			t.Fatal(err)
		}
		files[dir] = []byte(out.String())
	}
	if !slices.Equal(files[stored], files[widened]) {
		t.Error("FP8 weights are converted to other bytes than the numbers that they stand for")
	}
}

func TestFP8DirectoriesHostile(t *testing.T) {
	const matrix = "model.layers.1.mlp.up_proj.weight"
	const scales = matrix + "_scale_inv"
	type tensors = map[string]testkit.StoredTensor
	number := func(v float32) func(tensors) {
		return func(all tensors) {
			binary.LittleEndian.PutUint16(all[scales].Data[2:], ToBF16(v))
		}
	}
	replace := func(name, kind string, shape []int, size int) func(tensors) {
		return func(all tensors) {
			all[name] = testkit.StoredTensor{Type: kind, Shape: shape, Data: make([]byte, size)}
		}
	}
	good, _ := testkit.FP8Directories(t, "tiny-qwen3", "block")
	dir := t.TempDir()
	config, err := os.ReadFile(filepath.Join(good, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "config.json"), config)
	for name, c := range map[string]struct {
		spoil func(tensors)
		want  string
	}{
		"no scales": {
			func(all tensors) { delete(all, scales) },
			"its scales are missing",
		},
		"NaN": {
			number(float32(math.NaN())),
			"number 1 is NaN",
		},
		"infinite": {
			number(float32(math.Inf(1))),
			"number 1 is +Inf",
		},
		"negative": {
			number(-1),
			"number 1 is -1",
		},
		"too large": {
			number(1e37),
			"number 1 is 1.001",
		},
		"scales cut": {
			replace(scales, "BF16", []int{4, 1}, 8),
			"shape [4 1] does not fit a matrix of [512 256]: want [4 2]",
		},
		"scales of rows": {
			replace(scales, "F32", []int{512, 1}, 2048),
			"want [4 2]",
		},
		"scales of blocks": {
			replace(scales, "F32", []int{2, 4}, 32),
			"want [4 2]",
		},
		"integer scales": {
			replace(scales, "I32", []int{4, 2}, 32),
			"type is I32: want F32, BF16 or F16",
		},
		"FP8 scales": {
			replace(scales, "F8_E4M3", []int{4, 2}, 8),
			"type is F8_E4M3: want F32, BF16 or F16",
		},
		"scales of BF16": {
			replace(matrix, "BF16", []int{512, 256}, 2*512*256),
			"type BF16 has no scales",
		},
		"another type": {
			replace(matrix, "F8_E5M2", []int{512, 256}, 512*256),
			"F8_E5M2, which is not supported",
		},
		"FP8 vector": {
			replace("model.norm.weight", "F8_E4M3", []int{256}, 256),
			"only matrices can have type",
		},
		"three dimensions": {
			replace("model.layers.0.mlp.experts.down_proj", "F8_E4M3", []int{2, 2, 2}, 8),
			"only matrices",
		},
		"another shape": {
			replace(matrix, "F8_E4M3", []int{256, 512}, 512*256),
			"does not fit",
		},
		"scales without FP8": {
			replace("model.embed_tokens.weight_scale", "F32", []int{1}, 4),
			"has no scales",
		},
		"vision tower ignored": {
			replace("visual.x.weight", "F8_E4M3", []int{2, 2}, 4),
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := testkit.ReadSafetensors(t, filepath.Join(good, "model.safetensors"))
			c.spoil(all)
			testkit.WriteSafetensors(t, filepath.Join(dir, "model.safetensors"), all)
			ck, err := Open(dir)
			if err == nil {
				err = ck.CheckTensors()
				_ = ck.Close()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestFP8WithoutConfig(t *testing.T) {
	dir, plain := testkit.FP8Directories(t, "tiny-qwen3", "block")
	tensors := testkit.ReadSafetensors(t, filepath.Join(dir, "model.safetensors"))
	testkit.WriteSafetensors(t, filepath.Join(plain, "model.safetensors"), tensors)
	if _, err := Open(plain); err == nil || !strings.Contains(err.Error(), "has no quantization_config") {
		t.Errorf("error %v", err)
	}
}

// FuzzFP8Scales attaches the scales of any file, and reads what is accepted.
func FuzzFP8Scales(f *testing.F) {
	const matrix = `"model.layers.0.mlp.up_proj.weight":{"dtype":"F8_E4M3","shape":[130,2],"data_offsets":[0,260]}`
	scales := func(kind, shape, end string) string {
		return `{` + matrix + `,"model.layers.0.mlp.up_proj.weight_scale":{"dtype":"` + kind + `","shape":` + shape +
			`,"data_offsets":[260,` + end + `]}}`
	}
	var schemes []*f8.Scheme
	for _, text := range []string{`{"quant_method":"fp8","weight_block_size":[128,128]}`, `{"quant_method":"fp8"}`} {
		scheme, err := f8.ParseScheme([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		schemes = append(schemes, scheme)
	}
	data := make([]byte, 800)
	for i := range data {
		data[i] = byte(i % 61)
	}
	f.Add(safetensorsFile(`{`+matrix+`}`, data), byte(0))
	f.Add(safetensorsFile(scales("F32", "[130,1]", "780"), data), byte(1))
	f.Add(safetensorsFile(scales("BF16", "[2,1]", "264"), data), byte(0))
	f.Add(safetensorsFile(scales("F16", "[]", "262"), data), byte(1))
	f.Fuzz(func(t *testing.T, file []byte, layout byte) {
		tensors, _, err := parseSafetensors(file)
		if err != nil {
			return
		}
		if attachScales(tensors, ArchLlama, schemes[int(layout)%len(schemes)]) != nil {
			return
		}
		for _, tensor := range tensors {
			if tensor.source == nil {
				continue
			}
			if _, err := tensor.Loaded().Float32s(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
