package weights

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

const (
	ggufMagic        = "GGUF"
	ggufVersion      = 3
	ggufAlignment    = 32
	ggufAlignmentMax = 1 << 20
	ggufDimsMax      = 4
	ggufNameMax      = 1 << 16
	ggufPartsMax     = 10_000
	// ggufHeadMax bounds metadata and tensor list, so that the memory they
	// take has a limit even in a very large file.
	ggufHeadMax = 1 << 30
)

// ParseGGUF reads a GGUF model that is already in memory. The tensors are
// views of data, which must not change while the checkpoint is used.
func ParseGGUF(data []byte) (*Checkpoint, error) {
	part, err := parseGGUF(data)
	if err != nil {
		return nil, fmt.Errorf("read gguf: %w", err)
	}
	ck := &Checkpoint{Format: FormatGGUF, Files: []File{{Bytes: int64(len(data))}}}
	if err := ck.finishGGUF([]*ggufPart{part}); err != nil {
		return nil, fmt.Errorf("read gguf: %w", err)
	}
	return ck, nil
}

// partName matches the name of one file of a model that is cut in parts.
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

func openGGUF(path string) (_ *Checkpoint, err error) {
	ck := &Checkpoint{Format: FormatGGUF}
	defer func() {
		if err != nil {
			err = errors.Join(err, ck.Close())
		}
	}()
	paths, err := partPaths(path)
	if err != nil {
		return nil, err
	}
	var parts []*ggufPart
	for _, p := range paths {
		data, err := ck.mapPart(p)
		if err != nil {
			return nil, err
		}
		part, err := parseGGUF(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(p), err)
		}
		parts = append(parts, part)
	}
	if err := ck.finishGGUF(parts); err != nil {
		return nil, err
	}
	return ck, nil
}

// partPaths returns the paths of all parts of the model whose first part is
// path.
func partPaths(path string) ([]string, error) {
	m := partName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return []string{path}, nil
	}
	number, _ := strconv.Atoi(m[2])
	count, _ := strconv.Atoi(m[3])
	if number != 1 || count < 1 || count > ggufPartsMax {
		return nil, fmt.Errorf("this is part %d of %d: open part 00001", number, count)
	}
	paths := make([]string, count)
	for i := range paths {
		paths[i] = filepath.Join(filepath.Dir(path), fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, count))
		if _, err := os.Stat(paths[i]); err != nil {
			return nil, fmt.Errorf("part %d of %d is missing: %w", i+1, count, err)
		}
	}
	return paths, nil
}

// finishGGUF turns parsed parts into the checkpoint. The first part carries
// the metadata of the model.
func (c *Checkpoint) finishGGUF(parts []*ggufPart) error {
	c.meta = parts[0].meta
	c.Tokenizer = TokenizerSource{meta: c.meta}
	for _, p := range parts {
		if err := c.add(p.tensors); err != nil {
			return err
		}
	}
	if count, ok := ggufInt(c.meta, "split.count"); ok && count != int64(len(parts)) && count != 0 {
		return fmt.Errorf("split.count says %d parts, %d were opened", count, len(parts))
	}
	config, err := readGGUFConfig(c)
	if err != nil {
		return err
	}
	c.Config = config
	c.Config.observe(c)
	c.ChatTemplate, _ = c.meta["tokenizer.chat_template"].(string)
	return nil
}

// CheckGGUFHead refuses a GGUF file by its first bytes if they name an architecture that
// is not supported. Metadata that is cut off is not a mistake.
func CheckGGUFHead(head []byte) error {
	r := &ggufReader{data: head, file: head}
	if err := r.header(); err != nil {
		return err
	}
	for range r.metaCount {
		key, err := r.str(ggufNameMax)
		if err != nil {
			return nil
		}
		kind, err := r.u32()
		if err != nil {
			return nil
		}
		value, err := r.value(kind, 0)
		if err != nil {
			return nil
		}
		if name, ok := value.(string); ok && key == "general.architecture" {
			if !slices.Contains(Architectures(), name) {
				return errUnknownArchitecture(name)
			}
			return nil
		}
	}
	return nil
}

// ggufPart is what one GGUF file holds.
type ggufPart struct {
	meta    map[string]any
	tensors []Tensor
}

func parseGGUF(data []byte) (*ggufPart, error) {
	r := &ggufReader{data: data[:min(len(data), ggufHeadMax)], file: data}
	if err := r.header(); err != nil {
		return nil, err
	}
	part := &ggufPart{}
	var err error
	if part.meta, err = r.metadata(); err != nil {
		return nil, err
	}
	entries, err := r.tensorEntries()
	if err != nil {
		return nil, err
	}
	part.tensors, err = r.placeTensors(entries, part.meta)
	return part, err
}

// ggufEntry is a line of the tensor list, before its place is checked.
type ggufEntry struct {
	name   string
	dtype  DType
	shape  []int
	offset uint64
}

func (r *ggufReader) tensorEntries() ([]ggufEntry, error) {
	entries := make([]ggufEntry, 0, r.tensorCount)
	for i := range r.tensorCount {
		e, err := r.tensorEntry()
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d in the tensor list: %w", i+1, r.tensorCount, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (r *ggufReader) tensorEntry() (ggufEntry, error) {
	name, err := r.str(ggufNameMax)
	if err != nil {
		return ggufEntry{}, err
	}
	dims, err := r.u32()
	if err != nil {
		return ggufEntry{}, err
	}
	if dims > ggufDimsMax {
		return ggufEntry{}, fmt.Errorf("tensor %q has %d dimensions, more than the %d allowed", name, dims, ggufDimsMax)
	}
	shape := make([]int, dims)
	for i := range shape {
		d, err := r.u64()
		if err != nil {
			return ggufEntry{}, err
		}
		if d < 1 || d > math.MaxInt64 || int64(d) > math.MaxInt {
			return ggufEntry{}, fmt.Errorf("tensor %q: dimension %d is %d", name, i, d)
		}
		shape[len(shape)-1-i] = int(d)
	}
	dtype, err := r.u32()
	if err != nil {
		return ggufEntry{}, err
	}
	offset, err := r.u64()
	if err != nil {
		return ggufEntry{}, err
	}
	if dtype >= uint32(typeBool) {
		return ggufEntry{}, fmt.Errorf("tensor %q: unknown type %d", name, dtype)
	}
	return ggufEntry{name, DType(dtype), shape, offset}, nil
}

// placeTensors finds the data of every entry and checks that it lies inside
// the file, aligned, and apart from the others.
func (r *ggufReader) placeTensors(entries []ggufEntry, meta map[string]any) ([]Tensor, error) {
	alignment, err := ggufFileAlignment(meta)
	if err != nil {
		return nil, err
	}
	start := (r.pos + alignment - 1) / alignment * alignment
	body := r.file[min(start, len(r.file)):]
	tensors := make([]Tensor, 0, len(entries))
	spans := make([]tensorRange, 0, len(entries))
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if seen[e.name] {
			return nil, fmt.Errorf("tensor %q appears twice", e.name)
		}
		seen[e.name] = true
		size, err := tensorBytes(e.dtype, e.shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.name, err)
		}
		if e.offset%uint64(alignment) != 0 {
			return nil, fmt.Errorf("tensor %q: offset %d is not a multiple of the alignment %d", e.name, e.offset,
				alignment)
		}
		if e.offset > uint64(len(body)) || uint64(size) > uint64(len(body))-e.offset {
			return nil,
				fmt.Errorf(
					"tensor %q: %d bytes at offset %d lie outside the %d bytes of data: the file is cut or damaged",
					e.name, size, e.offset, len(body))
		}
		from, to := int64(e.offset), int64(e.offset)+size
		tensors = append(tensors, Tensor{Name: e.name, Type: e.dtype, Shape: e.shape, Data: body[from:to:to]})
		spans = append(spans, tensorRange{e.name, from, to})
	}
	return tensors, checkOverlap(spans)
}

func ggufFileAlignment(meta map[string]any) (int, error) {
	if _, ok := meta["general.alignment"]; !ok {
		return ggufAlignment, nil
	}
	n, ok := ggufInt(meta, "general.alignment")
	if !ok || n < 1 || n > ggufAlignmentMax || n&(n-1) != 0 {
		return 0, fmt.Errorf("general.alignment is %v: want a power of two up to %d", meta["general.alignment"],
			ggufAlignmentMax)
	}
	return int(n), nil
}
