package weights

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// rawTensor is a tensor to be written to a safetensors file.
type rawTensor struct {
	dtype string
	shape []int
	data  []byte
}

func writeSafetensors(t testing.TB, path string, tensors map[string]rawTensor) {
	t.Helper()
	header := map[string]any{}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		r := tensors[name]
		header[name] = map[string]any{"dtype": r.dtype, "shape": r.shape,
			"data_offsets": []int{len(data), len(data) + len(r.data)}}
		data = append(data, r.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, safetensorsFile(string(text), data))
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, dir string, elem ...string) {
	t.Helper()
	data, err := os.ReadFile(testkit.Golden(elem...))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, filepath.Base(testkit.Golden(elem...))), data)
}

// shardedGolden cuts the tensors of a golden checkpoint into two files with an
// index, and returns the directory, the index and what each shard holds.
func shardedGolden(t testing.TB) (dir string, index map[string]string, shards map[string]map[string]rawTensor) {
	t.Helper()
	dir = t.TempDir()
	data, err := os.ReadFile(testkit.Golden("tiny-llama", singleFile))
	if err != nil {
		t.Fatal(err)
	}
	tensors, _, err := parseSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	index, shards = map[string]string{}, map[string]map[string]rawTensor{}
	for i, tensor := range tensors {
		shard := fmt.Sprintf("model-%05d-of-00002.safetensors", i%2+1)
		if shards[shard] == nil {
			shards[shard] = map[string]rawTensor{}
		}
		index[tensor.Name] = shard
		shards[shard][tensor.Name] = rawTensor{tensor.Type.String(), tensor.Shape, tensor.Data}
	}
	copyFile(t, dir, "tiny-llama", "config.json")
	for name, tensors := range shards {
		writeSafetensors(t, filepath.Join(dir, name), tensors)
	}
	return dir, index, shards
}

func writeIndex(t testing.TB, dir string, index map[string]string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, indexFile), text)
}

func TestShardedEqualsSingle(t *testing.T) {
	dir, index, _ := shardedGolden(t)
	writeIndex(t, dir, index)
	ck, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	if err := ck.CheckTensors(); err != nil {
		t.Fatal(err)
	}
	single := openGolden(t, "tiny-llama")
	for _, want := range single.Tensors() {
		got, ok := ck.Tensor(want.Name)
		if !ok || !slices.Equal(got.Data, want.Data) || !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s differs in the sharded checkpoint", want.Name)
		}
	}
	if len(ck.Files) != 2 {
		t.Errorf("files %v", ck.Files)
	}
}

func TestShardIndexHostile(t *testing.T) {
	const q = "model.layers.0.self_attn.q_proj.weight"
	for _, c := range []struct {
		name string
		edit func(t *testing.T, dir string, index map[string]string)
		want string
	}{
		{"shard missing", func(t *testing.T, dir string, index map[string]string) {
			if err := os.Remove(filepath.Join(dir, index[q])); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
		{"shard outside", func(_ *testing.T, _ string, index map[string]string) {
			index[q] = "../secret.safetensors"
		}, "own directory"},
		{"absolute shard", func(_ *testing.T, _ string, index map[string]string) {
			index[q] = "/etc/x.safetensors"
		}, "own directory"},
		{"backslashes", func(_ *testing.T, _ string, index map[string]string) {
			index[q] = `..\x.safetensors`
		}, "own directory"},
		{"index names itself", func(_ *testing.T, _ string, index map[string]string) {
			index[q] = indexFile
		}, "own directory"},
		{"empty shard name", func(_ *testing.T, _ string, index map[string]string) { index[q] = "" }, "own directory"},
		{"tensor elsewhere", func(_ *testing.T, _ string, index map[string]string) {
			other := map[string]string{"model-00001-of-00002.safetensors": "model-00002-of-00002.safetensors",
				"model-00002-of-00002.safetensors": "model-00001-of-00002.safetensors"}
			index[q] = other[index[q]]
		}, "is in"},
		{"tensor nowhere", func(_ *testing.T, _ string, index map[string]string) {
			index["model.extra"] = "model-00001-of-00002.safetensors"
		}, `"model.extra" is not in`},
		{"tensor not listed", func(_ *testing.T, _ string, index map[string]string) {
			delete(index, q)
		}, "does not list"},
		{"shard is no safetensors", func(t *testing.T, dir string, index map[string]string) {
			writeFile(t, filepath.Join(dir, index[q]), []byte("GGUF"))
		}, "too short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, index, _ := shardedGolden(t)
			c.edit(t, dir, index)
			writeIndex(t, dir, index)
			_, err := Open(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestOpenRefused(t *testing.T) {
	empty := t.TempDir()
	configOnly := t.TempDir()
	copyFile(t, configOnly, "tiny-llama", "config.json")
	noFile := filepath.Join(t.TempDir(), "x.gguf")
	writeFile(t, noFile, nil)
	for _, c := range []struct{ name, path, want string }{
		{"nothing there", filepath.Join(empty, "nothing"), "no such file"},
		{"empty directory", empty, "no config.json"},
		{"no weights", configOnly, "neither model.safetensors nor"},
		{"weights file", testkit.Golden("tiny-llama", singleFile), "name the directory"},
		{"other file", testkit.Golden("tiny-llama", "config.json"), "not a gguf file"},
		{"empty file", noFile, "is empty"},
	} {
		if _, err := Open(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCheckTensorsReports(t *testing.T) {
	dir, index, shards := shardedGolden(t)
	const missing, bent, odd = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight",
		"model.norm.weight"
	delete(shards[index[missing]], missing)
	r := shards[index[bent]][bent]
	r.shape = []int{r.shape[1], r.shape[0]}
	shards[index[bent]][bent] = r
	r = shards[index[odd]][odd]
	r.dtype = "I16"
	shards[index[odd]][odd] = r
	for name, tensors := range shards {
		writeSafetensors(t, filepath.Join(dir, name), tensors)
	}
	delete(index, missing)
	writeIndex(t, dir, index)
	ck, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	err = ck.CheckTensors()
	if err == nil {
		t.Fatal("a damaged checkpoint passed")
	}
	for _, want := range []string{"blk.0.attn_q.weight [256 256] is missing",
		"blk.1.ffn_up.weight has shape [256 512]: want [512 256]", "output_norm.weight has type I16"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if problems := Describe(ck).Problems; len(problems) != 3 {
		t.Errorf("problems %q", problems)
	}
}

func TestChatTemplatePlaces(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"jinja file", "chat_template.jinja", "{{ a }}", "{{ a }}"},
		{"text", "tokenizer_config.json", `{"chat_template": "{{ b }}"}`, "{{ b }}"},
		{"named", "tokenizer_config.json",
			`{"chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "{{ c }}"}]}`,
			"{{ c }}"},
		{"own json", "chat_template.json", `{"chat_template": "{{ d }}"}`, "{{ d }}"},
		{"none", "tokenizer_config.json", `{}`, ""},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, c.file), []byte(c.text))
		got, err := readChatTemplate(dir)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}
