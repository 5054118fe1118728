package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/model/f8"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
	// shardsMax is far above the number of files of any published model.
	shardsMax = 10_000
)

// openDirectory opens a checkpoint in Hugging Face's layout.
func openDirectory(dir string) (_ *Checkpoint, err error) {
	ck := &Checkpoint{Format: FormatSafetensors, Tokenizer: TokenizerSource{Dir: dir}}
	defer func() {
		if err != nil {
			err = errors.Join(err, ck.Close())
		}
	}()
	if ck.Config, err = readHFConfig(dir); err != nil {
		return nil, err
	}
	if ck.ChatTemplate, err = readChatTemplate(dir); err != nil {
		return nil, err
	}
	tensors, err := ck.openShards(dir)
	if err != nil {
		return nil, err
	}
	if tensors, err = attachQuantized(dir, tensors, ck.Config.Architecture); err != nil {
		return nil, err
	}
	for i := range tensors {
		tensors[i].Name = canonicalName(tensors[i].Name, ck.Config.Architecture)
	}
	if err := ck.add(tensors); err != nil {
		return nil, err
	}
	ck.Config.observe(ck)
	return ck, nil
}

// attachQuantized makes matrices of what a directory stores beside each other: codes, their scales and their zeros.
func attachQuantized(dir string, tensors []Tensor, architecture string) ([]Tensor, error) {
	text, err := readText(dir, "config.json")
	if err != nil {
		return nil, err
	}
	h, err := decodeHFConfig(text)
	if err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if h.int4 != nil {
		return joinPacked(tensors, h.int4)
	}
	return tensors, attachScales(tensors, architecture, h.f8)
}

// attachScales finds the scales of all E4M3 matrices that belong to the model.
// Tensors still have the names of the files. The scheme is nil if config.json
// has none.
func attachScales(tensors []Tensor, architecture string, scheme *f8.Scheme) error {
	byName := make(map[string]*Tensor, len(tensors))
	for i := range tensors {
		byName[tensors[i].Name] = &tensors[i]
	}
	for i := range tensors {
		t := &tensors[i]
		if canonicalName(t.Name, architecture) == t.Name {
			continue
		}
		scales := byName[t.Name+"_scale_inv"] // of fp8; not the inverse of anything
		if scales == nil {
			scales = byName[t.Name+"_scale"]
		}
		if err := t.attachScales(scales, scheme); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

func (t *Tensor) attachScales(scales *Tensor, scheme *f8.Scheme) error {
	switch {
	case t.Type != F8E4M3 && (scales == nil || !t.Type.Computable()):
		return nil
	case t.Type != F8E4M3:
		return fmt.Errorf("type %s has no scales, but %q is there", t.Type, scales.Name)
	case scheme == nil:
		return fmt.Errorf("type is %s, but config.json has no quantization_config that says how it is scaled", t.Type)
	case len(t.Shape) != 2:
		return fmt.Errorf("shape is %v: only matrices can have type %s", t.Shape, t.Type)
	case scales == nil:
		return fmt.Errorf("type is %s, but its scales are missing: neither %q nor %q is there", t.Type,
			t.Name+"_scale_inv", t.Name+"_scale")
	}
	if !slices.Contains([]DType{F32, BF16, F16}, scales.Type) {
		return fmt.Errorf("scales %q: type is %s: want F32, BF16 or F16", scales.Name, scales.Type)
	}
	stored, err := scales.Float32s()
	if err == nil {
		t.source, err = scheme.Source(t.Rows(), t.Cols(), scales.Shape, stored)
	}
	if err != nil {
		return fmt.Errorf("scales %q: %w", scales.Name, err)
	}
	return nil
}

// openShards maps the weights of a directory: one file, or those its index
// names.
func (c *Checkpoint) openShards(dir string) ([]Tensor, error) {
	index, err := readShardIndex(dir)
	if err != nil {
		return nil, err
	}
	if index == nil {
		if _, err := os.Stat(filepath.Join(dir, singleFile)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the directory holds neither %s nor %s", singleFile, indexFile)
		}
		return c.openShard(dir, singleFile)
	}
	var all []Tensor
	for _, shard := range index.shards {
		tensors, err := c.openShard(dir, shard)
		if err != nil {
			return nil, err
		}
		for _, t := range tensors {
			if want, ok := index.shardOf[t.Name]; !ok {
				return nil, fmt.Errorf("%s holds tensor %q, which %s does not list", shard, t.Name, indexFile)
			} else if want != shard {
				return nil, fmt.Errorf("tensor %q is in %s, but %s says %s", t.Name, shard, indexFile, want)
			}
			delete(index.shardOf, t.Name)
		}
		all = append(all, tensors...)
	}
	for name, shard := range index.shardOf {
		return nil, fmt.Errorf("tensor %q is not in %s, where %s says it is (%d tensors are missing)", name, shard,
			indexFile, len(index.shardOf))
	}
	return all, nil
}

func (c *Checkpoint) openShard(dir, name string) ([]Tensor, error) {
	data, err := c.mapPart(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	tensors, meta, err := parseSafetensors(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if c.meta == nil {
		c.meta = meta
	}
	return tensors, nil
}

// shardIndex says in which file each tensor lies.
type shardIndex struct {
	shards  []string
	shardOf map[string]string
}

func readShardIndex(dir string) (*shardIndex, error) {
	text, err := readText(dir, indexFile)
	if err != nil || text == nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("%s has no weight_map", indexFile)
	}
	shards := map[string]bool{}
	for tensor, shard := range index.WeightMap {
		if shard != filepath.Base(shard) || strings.ContainsAny(shard, `/\`) ||
			!strings.HasSuffix(shard, ".safetensors") {
			return nil,
				fmt.Errorf(
					"%s puts tensor %q into %q: a shard must be a .safetensors file in the model's own directory",
					indexFile, tensor, shard)
		}
		shards[shard] = true
	}
	if len(shards) > shardsMax {
		return nil, fmt.Errorf("%s names %d shards, more than the %d allowed", indexFile, len(shards), shardsMax)
	}
	names := make([]string, 0, len(shards))
	for s := range shards {
		names = append(names, s)
	}
	slices.Sort(names)
	return &shardIndex{names, index.WeightMap}, nil
}

// readChatTemplate finds the chat template of a directory in the places where
// it has been kept over the years, newest first.
func readChatTemplate(dir string) (string, error) {
	text, err := readText(dir, "chat_template.jinja")
	if err != nil || text != nil {
		return string(text), err
	}
	for _, file := range []string{"chat_template.json", "tokenizer_config.json"} {
		text, err := readText(dir, file)
		if err != nil {
			return "", err
		}
		template, err := templateIn(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		if template != "" {
			return template, nil
		}
	}
	return "", nil
}

// templateIn reads the key chat_template, which is a text or a list of named
// ones.
func templateIn(text []byte) (string, error) {
	if text == nil {
		return "", nil
	}
	var file struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return "", err
	}
	if len(file.Template) == 0 || string(file.Template) == "null" {
		return "", nil
	}
	var single string
	if json.Unmarshal(file.Template, &single) == nil {
		return single, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(file.Template, &named); err != nil {
		return "", fmt.Errorf("chat_template is neither a text nor a list of named templates: %w", err)
	}
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", nil
}
