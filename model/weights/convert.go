package weights

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// ConvertOptions say how [Convert] writes a model.
type ConvertOptions struct {
	// Type is the type of all matrices; see [Convert].
	Type DType
	// Name, Description and License become general.name and so on. Where they
	// are empty, a GGUF file keeps its own.
	Name, Description, License string
	// Progress, if given, is called with the bytes of weights written so far.
	Progress func(done, total int64)
}

// Convert writes a checkpoint as a GGUF file that Parley and llama.cpp read.
// Matrices, the embedding and the output projection included, are stored as
// the given type; norms, biases and routers stay F32. Q4_K and Q5_K stand for
// the mixes that llama.cpp calls Q4_K_M and Q5_K_M: the vocabulary's matrices,
// and in half of the layers the values of attention and the way down of the
// feed-forward part, are stored as Q6_K. A matrix whose rows do not fit the
// type's blocks is stored as another type, and listed in the result.
//
// The vocabulary of a directory must be a byte-level BPE in tokenizer.json,
// which is also stored whole under tokenizer.huggingface.json.
func Convert(ck *Checkpoint, w io.Writer, opts ConvertOptions) ([]Fallback, error) {
	c, err := PlanConversion(ck, opts)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(w); err != nil {
		return nil, err
	}
	return c.Fallbacks, nil
}

// A Conversion is a file that [Convert] would write, before a byte of it is
// written: so that its size can be compared with the room there is.
type Conversion struct {
	// FileBytes is the exact size of the file.
	FileBytes int64
	// Fallbacks are the tensors that will not have the type asked for.
	Fallbacks []Fallback

	ck       *Checkpoint
	meta     []metaEntry
	tensors  []plannedTensor
	progress func(done, total int64)
}

// PlanConversion decides what [Conversion.Write] writes. The checkpoint must
// stay open until then.
func PlanConversion(ck *Checkpoint, opts ConvertOptions) (*Conversion, error) {
	if err := ck.CheckTensors(); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	plan, fallbacks, err := planStorage(&ck.Config, opts.Type)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	text, err := tokenizerMeta(ck)
	if err != nil {
		return nil, fmt.Errorf("convert: tokenizer: %w", err)
	}
	meta := append(generalMeta(&ck.Config, opts), configMeta(&ck.Config, opts.Type)...)
	meta = append(meta, keptMeta(ck, meta)...)
	c := &Conversion{
		Fallbacks: fallbacks,
		ck:        ck,
		meta:      append(meta, text...),
		tensors:   plan,
		progress:  opts.Progress,
	}
	g, err := c.declared(io.Discard)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	c.FileBytes = g.FileBytes()
	return c, nil
}

// declared returns a writer that knows everything but the data.
func (c *Conversion) declared(w io.Writer) (*GGUFWriter, error) {
	g := NewGGUFWriter(w)
	return g, declare(g, c.meta, c.tensors, freqFactorsOf(&c.ck.Config))
}

// Write writes the file, some rows at a time and on all processors, and says
// what became of the weights. It rejects weights that are NaN or too
// large for the type.
func (c *Conversion) Write(w io.Writer) ([]StoredType, error) {
	g, err := c.declared(w)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	run := &converter{ck: c.ck, g: g, progress: c.progress, stored: map[DType]*tally{}}
	if err := run.write(c.tensors); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return storedOf(run.stored), nil
}

func generalMeta(c *Config, opts ConvertOptions) []metaEntry {
	list := []metaEntry{
		{"general.architecture", ggufArchitecture(c.Architecture)},
		{"general.type", "model"},
	}
	for _, e := range []metaEntry{{"general.name", opts.Name}, {"general.description", opts.Description},
		{"general.license", opts.License}} {
		if e.value != "" {
			list = append(list, e)
		}
	}
	return list
}

// keptMeta returns what a GGUF file says about itself (author, tags, where it
// is from) and nothing in list overrules.
func keptMeta(ck *Checkpoint, list []metaEntry) (kept []metaEntry) {
	if ck.Format != FormatGGUF {
		return nil
	}
	for _, key := range ck.MetaKeys() {
		taken := slices.ContainsFunc(list, func(e metaEntry) bool { return e.key == key })
		if strings.HasPrefix(key, "general.") && key != "general.alignment" && !taken {
			kept = append(kept, metaEntry{key, ck.meta[key]})
		}
	}
	return kept
}

// declare says what a file will hold: metadata, the frequency factors if there
// are any, and the planned tensors.
func declare(g *GGUFWriter, meta []metaEntry, plan []plannedTensor, freqFactors []float32) error {
	for _, e := range meta {
		if err := g.Meta(e.key, e.value); err != nil {
			return err
		}
	}
	if freqFactors != nil {
		if err := g.Declare("rope_freqs.weight", F32, []int{len(freqFactors)}); err != nil {
			return err
		}
	}
	for _, p := range plan {
		if err := g.Declare(p.name, p.dtype, p.shape); err != nil {
			return err
		}
	}
	return nil
}

// writeFreqFactors writes rope_freqs.weight, if the model has it.
func writeFreqFactors(g *GGUFWriter, factors []float32) error {
	if factors == nil {
		return nil
	}
	return g.WriteTensor("rope_freqs.weight", func(w io.Writer) error {
		data := make([]byte, 4*len(factors))
		if err := Quantize(data, F32, factors); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	})
}

// A converter streams the tensors of a checkpoint into a file.
type converter struct {
	ck       *Checkpoint
	g        *GGUFWriter
	progress func(done, total int64)
	done     int64
	stored   map[DType]*tally
}

func (c *converter) write(plan []plannedTensor) error {
	if err := writeFreqFactors(c.g, freqFactorsOf(&c.ck.Config)); err != nil {
		return err
	}
	for _, p := range plan {
		c.stored[p.dtype] = c.stored[p.dtype].with(p)
		if err := c.g.WriteTensor(p.name, func(w io.Writer) error { return c.writeTensor(w, p) }); err != nil {
			return err
		}
	}
	c.report(c.g.DataBytes() - c.done) // what lies between the tensors
	return c.g.Close()
}

func (c *converter) writeTensor(w io.Writer, p plannedTensor) error {
	if !p.isExperts() {
		t, _ := c.ck.Tensor(p.name)
		return c.writeMatrix(w, t, p)
	}
	for i := range c.ck.Config.Experts {
		t, err := c.ck.Expert(p.layer, i, p.which())
		if err != nil {
			return err
		}
		if err := c.writeMatrix(w, t, p); err != nil {
			return err
		}
	}
	return nil
}

// writeMatrix converts some rows at a time, so that memory stays small
// whatever the size of the tensor.
func (c *converter) writeMatrix(w io.Writer, t Tensor, p plannedTensor) error {
	const elementsAtOnce = 1 << 20
	t = biasAsColumn(t)
	rows, cols := t.Rows(), t.Cols()
	rowBytes := p.dtype.RowBytes(cols)
	atOnce := min(rows, max(1, elementsAtOnce/cols))
	out, lost := make([]byte, atOnce*rowBytes), make([]loss, atOnce)
	for from := 0; from < rows; from += atOnce {
		n := min(atOnce, rows-from)
		if err := c.convertRows(out[:n*rowBytes], lost[:n], t, p, from); err != nil {
			return err
		}
		if _, err := w.Write(out[:n*rowBytes]); err != nil {
			return err
		}
		c.stored[p.dtype].add(lost[:n])
		c.report(int64(n * rowBytes))
	}
	return nil
}

// biasAsColumn returns a vector as a matrix of one column, so that a bias is
// reordered as the rows of its matrix are.
func biasAsColumn(t Tensor) Tensor {
	if len(t.Shape) == 1 && strings.HasSuffix(t.Name, ".bias") {
		t.Shape = []int{t.Shape[0], 1}
	}
	return t
}

func (c *converter) report(n int64) {
	c.done += n
	if c.progress != nil {
		c.progress(c.done, c.g.DataBytes())
	}
}

// convertRows converts the rows from the given one on, on all processors.
func (c *converter) convertRows(out []byte, lost []loss, t Tensor, p plannedTensor, from int) error {
	n := len(lost)
	workers := min(n, runtime.GOMAXPROCS(0))
	errs := make([]error, workers)
	rowBytes := len(out) / n
	var group sync.WaitGroup
	for k := range workers {
		group.Go(func() {
			row := rowConverter{c, t, p, make([]float32, t.Cols()), make([]float32, t.Cols())}
			for i := k * n / workers; i < (k+1)*n/workers && errs[k] == nil; i++ {
				lost[i], errs[k] = row.convert(out[i*rowBytes:(i+1)*rowBytes], from+i)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A rowConverter converts rows of one matrix, one after the other.
type rowConverter struct {
	*converter
	t              Tensor
	p              plannedTensor
	values, stored []float32
}

// convert writes row i as it will be stored, and says what that lost.
func (r *rowConverter) convert(dst []byte, i int) (loss, error) {
	from := r.sourceRow(r.p, i)
	if err := r.t.ReadRow(r.values, from); err != nil {
		return loss{}, err
	}
	offset := float32(0)
	if r.p.class == classNorms {
		offset = r.ck.Config.NormOffset
	}
	for j := range r.values {
		r.values[j] += offset
	}
	if r.t.Type == r.p.dtype && offset == 0 {
		copy(dst, r.t.Row(from))
	} else if err := Quantize(dst, r.p.dtype, r.values); err != nil {
		return loss{}, err
	}
	if err := Dequantize(r.stored, r.p.dtype, dst); err != nil {
		return loss{}, err
	}
	lost := lossOf(r.values, r.stored)
	if !lost.isFinite() {
		return loss{}, fmt.Errorf("row %d has a weight that is NaN or too large for %s", i, r.p.dtype)
	}
	return lost, nil
}

// sourceRow returns which row of the checkpoint becomes row i of the file:
// GGUF wants the queries and keys of Llama and Mistral models with the two
// halves of each head interleaved.
func (c *converter) sourceRow(p plannedTensor, i int) int {
	config := &c.ck.Config
	if config.Rope.Interleaved || ggufArchitecture(config.Architecture) != ArchLlama || !isQueryOrKey(p.name) {
		return i
	}
	head, within := i/config.HeadDim, i%config.HeadDim
	return head*config.HeadDim + within%2*(config.HeadDim/2) + within/2
}

func isQueryOrKey(name string) bool {
	return strings.Contains(name, ".attn_q.") || strings.Contains(name, ".attn_k.")
}
