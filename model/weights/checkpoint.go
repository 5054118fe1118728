package weights

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/internal/mapfile"
)

// A Format is the kind of file a checkpoint was read from.
type Format string

// The formats [Open] reads.
const (
	FormatSafetensors Format = "safetensors"
	FormatGGUF        Format = "gguf"
)

// A File is one of the files a checkpoint consists of.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// A Checkpoint is an opened model. It may be read by many goroutines at once.
type Checkpoint struct {
	Format Format
	// Path is what was opened; empty for a model parsed from memory.
	Path   string
	Config Config
	// ChatTemplate is the Jinja text that renders a conversation, or empty.
	ChatTemplate string
	// Tokenizer says where the vocabulary is.
	Tokenizer TokenizerSource
	// Files lists the files that hold weights.
	Files []File

	tensors []Tensor
	byName  map[string]int
	meta    map[string]any
	unmap   []func() error
	mapped  [][]byte
}

// A TokenizerSource says where the vocabulary of a checkpoint lies: in the
// files of a directory, or in the metadata of a GGUF file.
type TokenizerSource struct {
	// Dir holds tokenizer.json and tokenizer_config.json; it is empty for a
	// GGUF file.
	Dir  string
	meta map[string]any
}

// Meta returns a value of the GGUF file's metadata. See [Checkpoint.Meta].
func (s TokenizerSource) Meta(key string) (any, bool) {
	v, ok := s.meta[key]
	return v, ok
}

// Open opens a model: a directory in Hugging Face's layout, or a GGUF file (of
// a model cut in parts, the first one).
func Open(path string) (*Checkpoint, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	open := openGGUF
	if st.IsDir() {
		open = openDirectory
	} else if strings.EqualFold(filepath.Ext(path), ".safetensors") {
		return nil, fmt.Errorf("open model %s: name the directory that also holds config.json, not the weights file",
			path)
	}
	ck, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", path, err)
	}
	ck.Path = path
	return ck, nil
}

// Close unmaps the files. No tensor's Data may be used after it.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, unmap := range c.unmap {
		errs = append(errs, unmap())
	}
	c.unmap, c.mapped = nil, nil
	return errors.Join(errs...)
}

// Tensors returns all tensors, in the order of the files. They describe the model: what is not in the files as it is
// computed with, such as Scales, comes from [Tensor.Loaded], since that of a whole model takes memory.
func (c *Checkpoint) Tensors() []Tensor { return slices.Clone(c.tensors) }

// Tensor returns the tensor with the canonical name.
func (c *Checkpoint) Tensor(name string) (Tensor, bool) {
	t, ok := c.Listed(name)
	return t.Loaded(), ok
}

// Listed is Tensor as it is among [Checkpoint.Tensors].
func (c *Checkpoint) Listed(name string) (Tensor, bool) {
	i, ok := c.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return c.tensors[i], true
}

// Meta returns a value of the file's metadata: of a GGUF file, a number, bool
// or string of the stored width, or a slice of them; of safetensors, the
// strings of its __metadata__.
func (c *Checkpoint) Meta(key string) (any, bool) {
	v, ok := c.meta[key]
	return v, ok
}

// MetaKeys returns the keys of the metadata in alphabetical order.
func (c *Checkpoint) MetaKeys() []string {
	keys := make([]string, 0, len(c.meta))
	for k := range c.meta {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Bytes returns the size of all files that hold weights.
func (c *Checkpoint) Bytes() int64 {
	var n int64
	for _, f := range c.Files {
		n += f.Bytes
	}
	return n
}

// Expert returns one projection ("gate", "up" or "down") of one expert as a
// matrix, whether the file stores the experts of a layer together or apart.
// Nothing is copied but what [Tensor.Loaded] makes.
func (c *Checkpoint) Expert(layer, expert int, which string) (Tensor, error) {
	t, err := c.ListedExpert(layer, expert, which)
	return t.Loaded(), err
}

// ListedExpert is Expert as [Checkpoint.Listed] returns it.
func (c *Checkpoint) ListedExpert(layer, expert int, which string) (Tensor, error) {
	if expert < 0 || expert >= c.Config.Experts {
		return Tensor{}, fmt.Errorf("expert %d of layer %d: the model has experts 0 to %d", expert, layer,
			c.Config.Experts-1)
	}
	if !slices.Contains(projections, which) {
		return Tensor{}, fmt.Errorf("unknown projection %q: use gate, up or down", which)
	}
	name := expertName(layer, expert, which)
	if t, ok := c.Listed(name); ok {
		return t, nil
	}
	if t, ok := c.Listed(fusedName(layer, which)); ok && isFused(t, c.Config.Experts) {
		return t.slab(name, expert, t.Shape[0], t.Shape[1:]), nil
	}
	gateUp, ok := c.Listed(fusedName(layer, "gate_up"))
	if !ok || which == "down" || !isFused(gateUp, c.Config.Experts) || gateUp.Shape[1]%2 != 0 {
		return Tensor{}, fmt.Errorf("tensor %s of expert %d is missing", fusedName(layer, which), expert)
	}
	half := 2 * expert
	if which == "up" {
		half++
	}
	return gateUp.slab(name, half, 2*gateUp.Shape[0], []int{gateUp.Shape[1] / 2, gateUp.Shape[2]}), nil
}

var projections = []string{"gate", "up", "down"}

func isFused(t Tensor, experts int) bool { return len(t.Shape) == 3 && t.Shape[0] == experts }

func expertName(layer, expert int, which string) string {
	return fmt.Sprintf("blk.%d.ffn_%s.%d.weight", layer, which, expert)
}

func fusedName(layer int, which string) string {
	return fmt.Sprintf("blk.%d.ffn_%s_exps.weight", layer, which)
}

// add appends tensors, refusing a name that is already there.
func (c *Checkpoint) add(tensors []Tensor) error {
	if c.byName == nil {
		c.byName = make(map[string]int, len(tensors))
	}
	for _, t := range tensors {
		if _, dup := c.byName[t.Name]; dup {
			return fmt.Errorf("tensor %q appears twice", t.Name)
		}
		c.byName[t.Name] = len(c.tensors)
		c.tensors = append(c.tensors, t)
	}
	return nil
}

// Forget gives back the memory of all parts of the files that were read. Their
// data stays valid: what is read again comes back from the file.
func (c *Checkpoint) Forget() {
	for _, data := range c.mapped {
		mapfile.Forget(data)
	}
}

// mapPart maps one file of the checkpoint until Close.
func (c *Checkpoint) mapPart(path string) ([]byte, error) {
	data, unmap, err := mapfile.Open(path)
	if err != nil {
		return nil, err
	}
	c.unmap, c.mapped = append(c.unmap, unmap), append(c.mapped, data)
	c.Files = append(c.Files, File{Name: filepath.Base(path), Bytes: int64(len(data))})
	return data, nil
}

// tensorRange is the place of a tensor's data, for the check that none overlap.
type tensorRange struct {
	name       string
	start, end int64
}

func checkOverlap(spans []tensorRange) error {
	slices.SortFunc(spans, func(a, b tensorRange) int {
		if a.start != b.start {
			return int(min(max(a.start-b.start, -1), 1))
		}
		return int(min(max(a.end-b.end, -1), 1))
	})
	for i := 1; i < len(spans); i++ {
		a, b := spans[i-1], spans[i]
		if b.start < a.end {
			return fmt.Errorf("tensors %q (bytes %d to %d) and %q (bytes %d to %d) overlap", a.name, a.start, a.end,
				b.name, b.start, b.end)
		}
	}
	return nil
}
