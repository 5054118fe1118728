package weights

import (
	"fmt"
	"math"
	"testing"

	"parley/internal/testkit"
)

func openGolden(t testing.TB, name string) *Checkpoint {
	t.Helper()
	ck, err := Open(testkit.Golden(name))
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

func TestOpenGolden(t *testing.T) {
	for _, want := range []struct {
		name          string
		arch          string
		headDim       int
		bias, qkNorm  bool
		tied          bool
		ropeType      string
		theta         float64
		eps           float32
		originContext int
	}{
		{"tiny-llama", ArchLlama, 64, false, false, true, RopeLlama3, 500000, 1e-5, 512},
		{"tiny-qwen2", ArchQwen2, 64, true, false, true, RopeDefault, 1e6, 1e-6, 0},
		{"tiny-qwen3", ArchQwen3, 96, false, true, false, RopeDefault, 1e6, 1e-6, 0},
	} {
		t.Run(want.name, func(t *testing.T) {
			ck := openGolden(t, want.name)
			c := ck.Config
			if c.Architecture != want.arch || c.Layers != 3 || c.Hidden != 256 || c.FFN != 512 || c.Heads != 4 ||
				c.KVHeads != 2 ||
				c.HeadDim != want.headDim || c.Vocab != 1024 || c.Context != 2048 {
				t.Errorf("sizes: %+v", c)
			}
			if c.AttnBias != want.bias || c.QKNorm != want.qkNorm || c.TieEmbeddings != want.tied ||
				c.NormEps != want.eps {
				t.Errorf("features: %+v", c)
			}
			if c.Rope.Type != want.ropeType || c.Rope.Theta != want.theta || c.Rope.Interleaved ||
				c.Rope.OriginalContext != want.originContext {
				t.Errorf("rope: %+v", c.Rope)
			}
			if c.BOS != 0 || len(c.EOS) != 1 || c.EOS[0] != 2 {
				t.Errorf("bos %d, eos %v", c.BOS, c.EOS)
			}
			if ck.ChatTemplate == "" || ck.Tokenizer.Dir == "" || ck.Bytes() < 1<<20 {
				t.Errorf("template %q, tokenizer %q, %d bytes", ck.ChatTemplate, ck.Tokenizer.Dir, ck.Bytes())
			}
			if err := ck.CheckTensors(); err != nil {
				t.Error(err)
			}
			checkFinite(t, ck)
		})
	}
}

func checkFinite(t *testing.T, ck *Checkpoint) {
	t.Helper()
	for _, tensor := range ck.Tensors() {
		values, err := tensor.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("%s[%d] is %g", tensor.Name, i, v)
			}
		}
	}
}

// requireEqual compares two configs as they print, so that an empty list
// equals none.
func requireEqual(t *testing.T, name string, got, want Config) {
	t.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
	}
}
