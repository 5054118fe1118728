package weights

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

func converted(t testing.TB, ck *Checkpoint, quant DType) *Checkpoint {
	t.Helper()
	var out bytes.Buffer
	opts := ConvertOptions{Type: quant, Name: "test", Description: "of a test", License: "apache-2.0"}
	if _, err := Convert(ck, &out, opts); err != nil {
		t.Fatal(err)
	}
	got, err := ParseGGUF(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := got.CheckTensors(); err != nil {
		t.Fatal(err)
	}
	return got
}

// compareTensors checks every tensor of a converted checkpoint against its
// source, within the error of the type it is stored as.
func compareTensors(t *testing.T, source, got *Checkpoint) {
	t.Helper()
	for _, e := range source.Config.expectations() {
		if e.isExperts() {
			for i := range source.Config.Experts {
				a, errA := source.Expert(e.layer, i, e.which())
				b, errB := got.Expert(e.layer, i, e.which())
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				compareTensor(t, source, a, b, e)
			}
			continue
		}
		a, _ := source.Tensor(e.name)
		b, _ := got.Tensor(e.name)
		compareTensor(t, source, a, b, e)
	}
}

func compareTensor(t *testing.T, source *Checkpoint, a, b Tensor, e expectation) {
	t.Helper()
	want, err := a.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	have, err := b.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if isQueryOrKey(e.name) && ggufArchitecture(source.Config.Architecture) == ArchLlama {
		have = uninterleave(have, source.Config.HeadDim, len(have)/e.shape[0])
	}
	var wrong, all float64
	for i := range want {
		if e.class == classNorms {
			want[i] += source.Config.NormOffset
		}
		diff := float64(want[i] - have[i])
		wrong += diff * diff
		all += float64(want[i]) * float64(want[i])
	}
	if budget := errorBudgets[b.Type]; math.Sqrt(wrong) > budget*math.Sqrt(all) {
		t.Errorf("%s as %s: relative error %g, budget %g", e.name, b.Type, math.Sqrt(wrong/all), budget)
	}
}

// uninterleave puts rows 2i and 2i+1 of each head back to i and i+d/2.
func uninterleave(values []float32, headDim, cols int) []float32 {
	out := make([]float32, len(values))
	for row := range len(values) / cols {
		head, within := row/headDim, row%headDim
		target := head*headDim + within/2 + within%2*headDim/2
		copy(out[target*cols:(target+1)*cols], values[row*cols:(row+1)*cols])
	}
	return out
}

func TestConvertGolden(t *testing.T) {
	all := append([]DType{F32, F16, BF16}, quantTypes...)
	for name, types := range map[string][]DType{"tiny-llama": all, "tiny-qwen2": {BF16, Q8_0},
		"tiny-qwen3": {BF16, Q8_0}} {
		source := openGolden(t, name)
		for _, quant := range types {
			got := converted(t, source, quant)
			compareTensors(t, source, got)
			checkSameModel(t, source, got)
		}
	}
}

// checkSameModel checks that a converted model says the same about itself.
func checkSameModel(t *testing.T, source, got *Checkpoint) {
	t.Helper()
	want := source.Config
	if want.Rope.Type == RopeLlama3 {
		want.Rope = plainRope(want.Rope.Theta)
		want.Rope.FreqFactors = source.Config.Rope.llama3Factors(want.HeadDim)
	}
	want.Architecture = ggufArchitecture(want.Architecture)
	want.Rope.Interleaved = want.Architecture == ArchLlama
	want.NormOffset = 0
	if want.Architecture != ArchGemma3 {
		want.RopeLocal = want.Rope
	}
	requireEqual(t, "converted", got.Config, want)
	if got.ChatTemplate != source.ChatTemplate {
		t.Errorf("chat template %q, was %q", got.ChatTemplate, source.ChatTemplate)
	}
}

func TestConvertTokenizer(t *testing.T) {
	source := openGolden(t, "tiny-llama")
	got := converted(t, source, Q8_0)
	text, err := os.ReadFile(testkit.Golden("tiny-llama", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tok hfTokenizer
	if err := json.Unmarshal(text, &tok); err != nil {
		t.Fatal(err)
	}
	meta := func(key string) any { v, _ := got.Tokenizer.Meta(key); return v }
	if meta("tokenizer.huggingface.json") != string(text) {
		t.Error("tokenizer.json did not come through unchanged")
	}
	tokens, kinds := meta("tokenizer.ggml.tokens").([]string), meta("tokenizer.ggml.token_type").([]int32)
	for text, id := range tok.Model.Vocab {
		if tokens[id] != text {
			t.Fatalf("token %d is %q, want %q", id, tokens[id], text)
		}
	}
	if kinds[0] != tokenControl || kinds[100] != tokenNormal ||
		len(meta("tokenizer.ggml.merges").([]string)) != len(tok.Model.Merges) {
		t.Errorf("kinds %v, %d merges", kinds[:8], len(meta("tokenizer.ggml.merges").([]string)))
	}
	for key, want := range map[string]any{
		"general.architecture": "llama", "general.name": "test", "general.license": "apache-2.0",
		"general.file_type":    uint32(7),
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.bos_token_id": uint32(0),
		"tokenizer.ggml.eos_token_id":     uint32(2),
		"tokenizer.ggml.padding_token_id": uint32(0), "tokenizer.ggml.fim_pre_token_id": uint32(3),
		"tokenizer.ggml.fim_suf_token_id": uint32(4),
		"tokenizer.ggml.fim_mid_token_id": uint32(5), "tokenizer.ggml.add_bos_token": false,
	} {
		if meta(key) != want {
			t.Errorf("%s is %v, want %v", key, meta(key), want)
		}
	}
}

func TestConvertAgain(t *testing.T) {
	source := openGolden(t, "tiny-llama")
	first := converted(t, source, BF16)
	second := converted(t, first, BF16)
	requireEqual(t, "converted again", second.Config, first.Config)
	for _, want := range first.Tensors() {
		got, _ := second.Tensor(want.Name)
		if !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s changed", want.Name)
		}
	}
	a, _ := first.Meta("tokenizer.ggml.merges")
	b, _ := second.Meta("tokenizer.ggml.merges")
	if !slices.Equal(a.([]string), b.([]string)) {
		t.Error("the merges changed")
	}
}

// experts builds a Qwen3-MoE directory with its experts stored apart or
// together, from the same numbers.
func expertsDirectory(t *testing.T, together bool) *Checkpoint {
	t.Helper()
	shape, err := ShapeNamed("tiny-qwen3moe")
	if err != nil {
		t.Fatal(err)
	}
	model, err := ParseGGUF(randomOf(t, shape, BF16))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "config.json"), []byte(tinyMoEConfig))
	copyFile(t, dir, "tiny-llama", "tokenizer.json")
	tensors := map[string]rawTensor{}
	for _, e := range model.Config.expectations() {
		if !e.isExperts() {
			tensor, _ := model.Tensor(e.name)
			tensors[huggingFaceName(e.name)] = rawTensor{tensor.Type.String(), tensor.Shape, tensor.Data}
		}
	}
	for l := range model.Config.Layers {
		addExperts(t, tensors, model, l, together)
	}
	writeSafetensors(t, filepath.Join(dir, singleFile), tensors)
	ck, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

const tinyMoEConfig = `{"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "norm_topk_prob": true, "tie_word_embeddings": true, "bos_token_id": 0, "eos_token_id": 2}`

func huggingFaceName(name string) string {
	switch name {
	case "token_embd.weight":
		return "model.embed_tokens.weight"
	case "output_norm.weight":
		return "model.norm.weight"
	}
	rest, _ := strings.CutPrefix(name, "blk.")
	number, local, _ := strings.Cut(rest, ".")
	module, _ := strings.CutSuffix(local, ".weight")
	for hf, canonical := range layerNames {
		if canonical == module {
			return "model.layers." + number + "." + hf + ".weight"
		}
	}
	return name
}

func addExperts(t *testing.T, tensors map[string]rawTensor, model *Checkpoint, layer int, together bool) {
	t.Helper()
	prefix := "model.layers." + string(rune('0'+layer)) + ".mlp.experts."
	var gateUp, down []byte
	c := model.Config
	for i := range c.Experts {
		parts := map[string]Tensor{}
		for _, which := range projections {
			tensor, err := model.Expert(layer, i, which)
			if err != nil {
				t.Fatal(err)
			}
			parts[which] = tensor
			if !together {
				tensors[prefix+string(rune('0'+i))+"."+which+"_proj.weight"] = rawTensor{"BF16", tensor.Shape,
					tensor.Data}
			}
		}
		gateUp = append(append(gateUp, parts["gate"].Data...), parts["up"].Data...)
		down = append(down, parts["down"].Data...)
	}
	if together {
		tensors[prefix+"gate_up_proj"] = rawTensor{"BF16", []int{c.Experts, 2 * c.ExpertFFN, c.Hidden}, gateUp}
		tensors[prefix+"down_proj"] = rawTensor{"BF16", []int{c.Experts, c.Hidden, c.ExpertFFN}, down}
	}
}

func TestExpertLayoutsAgree(t *testing.T) {
	apart, together := expertsDirectory(t, false), expertsDirectory(t, true)
	for _, ck := range []*Checkpoint{apart, together} {
		if err := ck.CheckTensors(); err != nil {
			t.Fatal(err)
		}
	}
	for l := range 2 {
		for i := range 8 {
			for _, which := range projections {
				a, errA := apart.Expert(l, i, which)
				b, errB := together.Expert(l, i, which)
				if errA != nil || errB != nil || !bytes.Equal(a.Data, b.Data) || !slices.Equal(a.Shape, b.Shape) {
					t.Fatalf("layer %d, expert %d, %s differ: %v %v", l, i, which, errA, errB)
				}
			}
		}
	}
	for _, bad := range []struct {
		layer, expert int
		which         string
	}{{0, 8, "gate"}, {0, -1, "gate"}, {2, 0, "gate"}, {0, 0, "middle"}} {
		if _, err := together.Expert(bad.layer, bad.expert, bad.which); err == nil {
			t.Errorf("expert %v exists", bad)
		}
	}
}

func TestTokenizerTooLargeForModel(t *testing.T) {
	ck := expertsDirectory(t, true)
	_, err := Convert(ck, &bytes.Buffer{}, ConvertOptions{Type: Q8_0})
	if err == nil || !strings.Contains(err.Error(), "the model has 512") {
		t.Errorf("a tokenizer with 1024 entries was taken for a model of 512: %v", err)
	}
}

func TestPreTokenizerNames(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"gpt2", `{"type": "ByteLevel", "use_regex": true}`, "gpt-2"},
		{"smollm",
			`{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel"}]}`, "smollm"},
		{"qwen",
			`{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}, {"type": "ByteLevel"}]}`, "qwen2"},
		{"own",
			`{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "x"}}, {"type": "ByteLevel"}]}`, "default"},
	} {
		var p hfPreTokenizer
		if err := json.Unmarshal([]byte(c.text), &p); err != nil {
			t.Fatal(err)
		}
		if got := p.name(); got != c.want || !p.has("ByteLevel") {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
