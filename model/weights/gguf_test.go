package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// splitGGUF writes a model as parts, the metadata in the first.
func splitGGUF(t *testing.T, ck *Checkpoint, parts int) string {
	t.Helper()
	dir := t.TempDir()
	tensors := ck.Tensors()
	for p := range parts {
		var out bytes.Buffer
		g := NewGGUFWriter(&out)
		err := g.Meta("split.count", uint16(parts))
		for _, key := range ck.MetaKeys() {
			if p == 0 {
				err = errors.Join(err, g.Meta(key, ck.meta[key]))
			}
		}
		mine := tensors[p*len(tensors)/parts : (p+1)*len(tensors)/parts]
		for _, tensor := range mine {
			err = errors.Join(err, g.Declare(tensor.Name, tensor.Type, tensor.Shape))
		}
		for _, tensor := range mine {
			err = errors.Join(err, g.WriteTensor(tensor.Name, func(w io.Writer) error {
				_, err := w.Write(tensor.Data)
				return err
			}))
		}
		if err := errors.Join(err, g.Close()); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", p+1, parts)), out.Bytes())
	}
	return dir
}

func TestGGUFParts(t *testing.T) {
	whole, err := ParseGGUF(randomGGUF(t, "tiny-qwen2", Q8_0))
	if err != nil {
		t.Fatal(err)
	}
	dir := splitGGUF(t, whole, 3)
	ck, err := Open(filepath.Join(dir, "m-00001-of-00003.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	requireEqual(t, "in parts", ck.Config, whole.Config)
	for _, want := range whole.Tensors() {
		if got, _ := ck.Tensor(want.Name); !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s differs", want.Name)
		}
	}
	for name, want := range map[string]string{"m-00002-of-00003.gguf": "open part 00001",
		"n-00001-of-00002.gguf": "no such file"} {
		if _, err := Open(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

func TestGGUFWriterRefuses(t *testing.T) {
	write := func(n int) func(w io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
	}
	for _, c := range []struct {
		name string
		do   func(g *GGUFWriter) error
		want string
	}{
		{"key twice", func(g *GGUFWriter) error {
			return errors.Join(g.Meta("k", true), g.Meta("k", true))
		}, "given twice"},
		{"tensor twice", func(g *GGUFWriter) error {
			return errors.Join(g.Declare("a", F32, []int{1}), g.Declare("a", F32, []int{1}))
		}, "declared twice"},
		{"part of a block", func(g *GGUFWriter) error { return g.Declare("a", Q8_0, []int{33}) }, "whole number"},
		{"five dimensions", func(g *GGUFWriter) error {
			return g.Declare("a", F32, []int{1, 1, 1, 1, 1})
		}, "1 to 4 dimensions"},
		{"short data", func(g *GGUFWriter) error {
			return errors.Join(g.Declare("a", F32, []int{2}), g.WriteTensor("a", write(4)))
		}, "4 bytes were written, its shape needs 8"},
		{"wrong order", func(g *GGUFWriter) error {
			return errors.Join(g.Declare("a", F32, []int{1}), g.WriteTensor("b", write(4)))
		}, "not the next one"},
		{"tensor left out", func(g *GGUFWriter) error {
			return errors.Join(g.Declare("a", F32, []int{1}), g.Close())
		}, "0 of 1 tensors"},
		{"late metadata", func(g *GGUFWriter) error {
			return errors.Join(g.Close(), g.Meta("k", true))
		}, "after tensor data"},
	} {
		err := c.do(NewGGUFWriter(io.Discard))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestGGUFConfigRefused damages single values of good metadata.
func TestGGUFConfigRefused(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"llama.block_count", uint32(0), "layers is 0"},
		{"llama.block_count", uint32(1 << 30), "layers is 1073741824"},
		{"llama.block_count", "many", "want one whole number"},
		{"llama.block_count", uint64(1 << 63), "want one whole number"},
		{"llama.attention.head_count", uint32(0), "attention heads is 0"},
		{"llama.attention.head_count_kv", uint32(3), "cannot share 3"},
		{"llama.attention.head_count_kv", []int32{2, 1}, "want one whole number"},
		{"llama.attention.value_length", uint32(32), "value_length is 32"},
		{"llama.rope.dimension_count", uint32(32), "dimension_count is 32"},
		{"llama.rope.freq_base", "fast", "want a number"},
		{"llama.rope.scaling.type", "longrope", `"longrope" is not supported`},
		{"llama.expert_count", uint32(8), "expert_used_count is missing"},
		{"tokenizer.ggml.eos_token_id", uint32(1 << 20), "eos_token_id is 1048576"},
		{"general.architecture", "mistral", "not supported"},
		{"general.architecture", uint32(1), "missing or not a text"},
	} {
		ck, err := ParseGGUF(randomGGUF(t, "tiny-llama", Q8_0))
		if err != nil {
			t.Fatal(err)
		}
		ck.meta[c.key] = c.value
		_, err = readGGUFConfig(ck)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: error %v, want %q", c.key, c.value, err, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	ck := openGolden(t, "tiny-qwen3")
	s := Describe(ck)
	if s.Architecture != ArchQwen3 || s.Format != FormatSafetensors || !s.ChatTemplate || len(s.Problems) != 0 ||
		len(s.Types) != 1 || s.Types[0].Name != "BF16" {
		t.Errorf("%+v", s)
	}
	var bytesOfClasses, parameters int64
	for _, c := range s.Classes {
		bytesOfClasses += c.Bytes
		parameters += c.Parameters
	}
	if bytesOfClasses != s.Bytes || parameters != s.Parameters || s.Bytes != 2*s.Parameters ||
		s.ActiveParameters != s.Parameters {
		t.Errorf("classes hold %d bytes and %d parameters: %+v", bytesOfClasses, parameters, s)
	}
	const heads, dim = 2 * 3 * 2, 96
	for _, kv := range s.KVCache {
		want := map[string]int64{"f32": heads * dim * 4, "bf16": heads * dim * 2, "int8": heads * (dim + 2),
			"fp8": heads * (dim + 2)}[kv.Type]
		if kv.BytesPerToken != want {
			t.Errorf("a token costs %d bytes as %s, want %d", kv.BytesPerToken, kv.Type, want)
		}
	}
	moe, err := ParseGGUF(randomGGUF(t, "tiny-qwen3moe", Q8_0))
	if err != nil {
		t.Fatal(err)
	}
	if m := Describe(moe); m.Parameters-m.ActiveParameters != 2*6*3*256*256 {
		t.Errorf("%d parameters, %d active", m.Parameters, m.ActiveParameters)
	}
}
