package weights

import (
	"path/filepath"
	"strings"
	"testing"
)

const tinyGemmaConfig = `{"model_type": "gemma3", "eos_token_id": [2], "bos_token_id": 0, "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 7,
  "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024,
  "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "sliding_window": 64, "query_pre_attn_scalar": 100,
  "rope_scaling": {"rope_type": "linear", "factor": 8.0}}}`

const tinyMistralConfig = `{"model_type": "mistral", "eos_token_id": 2, "bos_token_id": 0, "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "sliding_window": 64, "tie_word_embeddings": true}`

// directoryOf writes a random model in Hugging Face's layout, with the names
// that the function gives its tensors.
func directoryOf(t *testing.T, shape, config string, name func(string) string) *Checkpoint {
	t.Helper()
	s, err := ShapeNamed(shape)
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Vocab, s.Config.TieEmbeddings = 1024, true
	model, err := ParseGGUF(randomOf(t, s, BF16))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "config.json"), []byte(config))
	copyFile(t, dir, "tiny-llama", "tokenizer.json")
	tensors := map[string]rawTensor{"vision_tower.patch.weight": {"U8", []int{4}, make([]byte, 4)}}
	for _, tensor := range model.Tensors() {
		tensors[name(tensor.Name)] = rawTensor{tensor.Type.String(), tensor.Shape, tensor.Data}
	}
	writeSafetensors(t, filepath.Join(dir, singleFile), tensors)
	ck, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

func gemmaName(name string) string {
	for hf, canonical := range gemmaNames {
		if strings.HasSuffix(name, "."+canonical+".weight") {
			number, _, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
			return "language_model.model.layers." + number + "." + hf + ".weight"
		}
	}
	return "language_model." + huggingFaceName(name)
}

func TestConvertGemma(t *testing.T) {
	source := directoryOf(t, "tiny-gemma3", tinyGemmaConfig, gemmaName)
	if err := source.CheckTensors(); err != nil {
		t.Fatal(err)
	}
	if source.Config.NormOffset != 1 || source.Config.AttnScale != 0.1 {
		t.Errorf("%+v", source.Config)
	}
	got := converted(t, source, Q8_0)
	compareTensors(t, source, got)
	checkSameModel(t, source, got)
	if _, there := got.Tensor("vision_tower.patch.weight"); there {
		t.Error("a tensor outside the language model was converted")
	}
}

func TestConvertMistral(t *testing.T) {
	source := directoryOf(t, "tiny-mistral", tinyMistralConfig, huggingFaceName)
	got := converted(t, source, Q8_0)
	compareTensors(t, source, got)
	checkSameModel(t, source, got)
	if got.Config.SlidingWindow != 64 || count(got.Config.Sliding) != 2 {
		t.Errorf("window %d, sliding %v", got.Config.SlidingWindow, got.Config.Sliding)
	}
}

func TestConvertExperts(t *testing.T) {
	source, err := ParseGGUF(randomGGUF(t, "tiny-qwen3moe", BF16))
	if err != nil {
		t.Fatal(err)
	}
	got := converted(t, source, Q8_0)
	compareTensors(t, source, got)
	requireEqual(t, "experts", got.Config, source.Config)
	if router, _ := got.Tensor("blk.0.ffn_gate_inp.weight"); router.Type != F32 {
		t.Errorf("the router is stored as %s", router.Type)
	}
}
