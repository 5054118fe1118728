package weights

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
)

// ConvertOptions say how [Convert] writes a model.
type ConvertOptions struct {
	// Type is the type of all matrices; see [Convert].
	Type DType
	// Name, Description and License become general.name and so on.
	Name, Description, License string
	// Progress, if given, is called with the bytes of weights written so far.
	Progress func(done, total int64)
}

// Convert writes a checkpoint as a GGUF file that Parley and llama.cpp read.
// Matrices, the embedding and the output projection included, are stored as
// the given type; norms, biases and routers stay F32. With Q4_K and Q5_K the
// vocabulary's matrices are stored as Q6_K. A matrix whose rows do not fit the
// type's blocks is stored as another type, and listed in the result.
//
// The vocabulary of a directory must be a byte-level BPE in tokenizer.json,
// which is also stored whole under tokenizer.huggingface.json.
func Convert(ck *Checkpoint, w io.Writer, opts ConvertOptions) ([]Fallback, error) {
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
	g := NewGGUFWriter(w)
	meta := append(generalMeta(&ck.Config, opts), configMeta(&ck.Config, opts.Type)...)
	if err := declare(g, append(meta, text...), plan, freqFactorsOf(&ck.Config)); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	c := &converter{ck: ck, g: g, progress: opts.Progress}
	if err := c.write(plan); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return fallbacks, nil
}

func generalMeta(c *Config, opts ConvertOptions) []metaEntry {
	list := []metaEntry{
		{"general.architecture", ggufArchitecture(c.Architecture)},
		{"general.type", "model"},
	}
	for _, e := range []metaEntry{{"general.name", opts.Name}, {"general.description", opts.Description}, {"general.license", opts.License}} {
		if e.value != "" {
			list = append(list, e)
		}
	}
	return list
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
}

func (c *converter) write(plan []plannedTensor) error {
	if err := writeFreqFactors(c.g, freqFactorsOf(&c.ck.Config)); err != nil {
		return err
	}
	for _, p := range plan {
		if err := c.g.WriteTensor(p.name, func(w io.Writer) error { return c.writeTensor(w, p) }); err != nil {
			return err
		}
	}
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
	out := make([]byte, atOnce*rowBytes)
	for from := 0; from < rows; from += atOnce {
		n := min(atOnce, rows-from)
		if err := c.convertRows(out[:n*rowBytes], t, p, from, n); err != nil {
			return err
		}
		if _, err := w.Write(out[:n*rowBytes]); err != nil {
			return err
		}
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

// convertRows converts n rows on all processors.
func (c *converter) convertRows(out []byte, t Tensor, p plannedTensor, from, n int) error {
	workers := min(n, runtime.GOMAXPROCS(0))
	errs := make([]error, workers)
	rowBytes := len(out) / n
	var group sync.WaitGroup
	for k := range workers {
		group.Go(func() {
			row := make([]float32, t.Cols())
			for i := k * n / workers; i < (k+1)*n/workers && errs[k] == nil; i++ {
				errs[k] = c.convertRow(out[i*rowBytes:(i+1)*rowBytes], t, p, from+i, row)
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

func (c *converter) convertRow(dst []byte, t Tensor, p plannedTensor, i int, row []float32) error {
	src := t.Row(c.sourceRow(p, i))
	offset := float32(0)
	if p.class == classNorms {
		offset = c.ck.Config.NormOffset
	}
	if t.Type == p.dtype && offset == 0 {
		copy(dst, src)
		return nil
	}
	if err := Dequantize(row, t.Type, src); err != nil {
		return err
	}
	for j := range row {
		row[j] += offset
	}
	return Quantize(dst, p.dtype, row)
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
