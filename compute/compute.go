// Package compute is the contract between a model and the device it runs on.
//
// A [Backend] offers about fifteen coarse operations over ragged batches: one
// call covers every sequence of a step, whatever their number and lengths, so
// a device sees the same few launches for one stream as for a hundred. The
// backend owns all device memory: weights, activations, and the paged
// key/value pool.
//
// Three promises hold for every backend:
//
//   - A row's arithmetic depends on that row alone: never on how many rows ran
//     beside it, on the chunking of a prompt, or on which blocks hold its
//     context. Attention is partitioned by position only. So a request gives
//     the same bits however it is scheduled.
//   - One physical block is contiguous across layers, so that it can be moved
//     in one copy.
//   - No operation allocates once the buffers exist.
//
// compute/cpu holds the plain definition of each operation; any other
// implementation is right when it agrees with that one.
package compute

import (
	"fmt"

	"parley"
	"parley/model/weights"
)

// A Step is what one forward pass computes: some new tokens for each of
// several sequences. It is made by the engine and read by the backend.
type Step struct {
	// Tokens are the new tokens of all sequences, one row each, in the order of Seqs.
	// One that is less than 0 is that which the step before chose; see [Chosen].
	Tokens []parley.Token
	// Seqs split the rows between sequences, without gaps.
	Seqs []Seq
	// Outputs are the rows whose logits are wanted, ascending.
	Outputs []int32
	// Hidden, if not nil, is where the last hidden state of every row is written.
	Hidden []float32
}

// Chosen stands for the token that the device chose for an output row of the step
// before this one.
func Chosen(output int) parley.Token { return parley.Token(-1 - output) }

// A Seq is the share of one sequence in a [Step].
type Seq struct {
	// Row is the first of the sequence's rows, Rows how many it has.
	Row, Rows int
	// Past is how many tokens of the sequence are already in the pool; the
	// sequence's first row stands at position Past.
	Past int
	// Blocks lists the physical blocks of the sequence in order of position.
	// It covers at least Past+Rows tokens.
	Blocks []int32
}

// A Weight is a matrix (or a vector, with one row) in device memory.
type Weight interface {
	// Dims returns the number of rows (outputs) and columns (inputs).
	Dims() (rows, cols int)
}

// A Buffer is device memory for activations: up to Rows rows of Cols float32.
type Buffer interface {
	Dims() (rows, cols int)
}

// A Projection is one output of [Backend.Linear]: Out = in·Wᵀ + Bias.
// Bias may be nil.
type Projection struct {
	Out     Buffer
	W, Bias Weight
}

// A Rope describes a rotary position encoding. Pair i of a head is turned by
// position·InvFreq[i], and cosine and sine are multiplied by Scale.
type Rope struct {
	InvFreq []float32 // [headDim/2]
	Scale   float32
	// Interleaved pairs dimension 2i with 2i+1; otherwise i goes with i+headDim/2.
	Interleaved bool
}

// A Heads says how the columns of query, key and value buffers are divided.
type Heads struct {
	Query, KV, Dim int
}

// QKV are the inputs of one layer's attention, before rotation.
type QKV struct {
	Q, K, V Buffer // [rows, Query*Dim], [rows, KV*Dim], [rows, KV*Dim]
	Heads   Heads
	// QNorm and KNorm, if not nil, are RMS norms over each head's Dim values, applied first.
	QNorm, KNorm Weight
	NormEps      float32
	NormOffset   float32
}

// An Attention says how the rows of a layer look back.
type Attention struct {
	Heads Heads
	// Scale multiplies the dot products.
	Scale float32
	// Window, if positive, is how many positions a row sees, itself included.
	Window int
}

// An Activation is the function inside a gated MLP.
type Activation uint8

// The activations that models use.
const (
	SiLU Activation = iota
	GELUTanh
)

// An MLP is down·(act(gate·x) ⊙ up·x), each matrix followed by its bias. The
// biases are all nil or none is.
type MLP struct {
	Gate, Up, Down             Weight
	GateBias, UpBias, DownBias Weight
	Act                        Activation
}

// Experts are the MLPs of a mixture, of which each row uses the TopK that the
// router scores highest. Row weights are the softmax over all experts, divided
// by their sum over the chosen ones if NormTopK is set. The chosen experts'
// outputs are added in the order of their numbers.
type Experts struct {
	Router   Weight
	MLPs     []MLP
	TopK     int
	NormTopK bool
}

// A Limits bounds a step, so that a backend can take its scratch memory once.
type Limits struct {
	// Rows is the most rows a step has, Outputs the most logit rows.
	Rows, Outputs int
	// Width is the widest activation a backend must hold for one row inside an operation.
	Width int
	// Experts is how many experts a row may use at once; 0 without a mixture.
	Experts int
}

// A Backend computes on one device. It is used by one goroutine at a time.
//
// The caller makes all weights, buffers and the pool first, then for each
// step calls Begin and the operations. Operations may run asynchronously;
// Logits waits for all of them.
type Backend interface {
	// Name says what the backend is, for people: device and instruction set.
	Name() string

	// Upload copies or maps a tensor into device memory, in whatever layout
	// suits the device. The tensor's bytes must stay valid until Close.
	Upload(t weights.Tensor) (Weight, error)
	// UploadTable is Upload for a matrix whose rows are looked up by Embed, and
	// which nothing is multiplied with.
	UploadTable(t weights.Tensor) (Weight, error)
	// NewBuffer takes device memory for activations.
	NewBuffer(rows, cols int) (Buffer, error)
	// Reserve takes the scratch memory that steps within the limits need.
	Reserve(l Limits) error
	// NewKV takes the memory of the key/value pool. A backend has one pool.
	NewKV(s KVShape) error
	// CopyBlocks copies whole blocks of the pool: dst[i] becomes equal to src[i].
	CopyBlocks(dst, src []int32)
	// ReadBlock copies the bytes of a block of the pool that begin at an offset
	// into dst, and WriteBlock bytes that were read back into it, into the same
	// block or another. A block has the shape's BlockBytes. What the bytes mean
	// is the backend's affair: only a pool of the same backend, layers, heads,
	// head size and type may take them.
	ReadBlock(dst []byte, block int32, at int)
	WriteBlock(block int32, at int, src []byte)
	// Close gives all memory back.
	Close() error

	// Begin makes step the one that the following operations compute, with
	// the rotary encodings its layers use.
	Begin(step *Step, ropes []Rope)
	// Embed sets each row of dst to scale times the table's row of its token.
	Embed(dst Buffer, table Weight, scale float32)
	// Norm sets dst to the RMS norm of src, times (w + offset). dst may be src.
	Norm(dst, src Buffer, w Weight, eps, offset float32)
	// Linear computes several projections of the same input.
	Linear(src Buffer, ps []Projection)
	// RopeStore normalises and rotates queries in place, normalises and
	// rotates keys, and stores keys and values in the pool, each token's
	// rounded to the pool's type by itself.
	RopeStore(layer, rope int, x *QKV)
	// Attend sets dst to the attention of the step's rows over their context.
	Attend(layer int, dst, q Buffer, a *Attention)
	// GatedMLP sets dst to m applied to src.
	GatedMLP(dst, src Buffer, m *MLP)
	// Mixture sets dst to the weighted experts of e applied to src.
	Mixture(dst, src Buffer, e *Experts)
	// Add adds src to dst.
	Add(dst, src Buffer)
	// ReadRows writes the step's rows of src to dst, one after the other, and
	// returns when they are there to be read.
	ReadRows(dst []float32, src Buffer)
	// Logits writes one row of table·x for each output row of the step into
	// dst, [len(Outputs)][vocab], and returns when it is there to be read.
	Logits(dst []float32, src Buffer, table Weight)
}

// Validate reports what is wrong with the step: rows that do not add up,
// contexts that their blocks do not cover, blocks outside the pool.
func (s *Step) Validate(blocks int) error {
	row := 0
	for i := range s.Seqs {
		q := &s.Seqs[i]
		if q.Row != row || q.Rows <= 0 || q.Past < 0 {
			return fmt.Errorf("compute: sequence %d has rows %d+%d after %d tokens, wanted rows from %d", i, q.Row,
				q.Rows, q.Past, row)
		}
		if len(q.Blocks)*BlockTokens < q.Past+q.Rows {
			return fmt.Errorf("compute: sequence %d has %d blocks for %d tokens", i, len(q.Blocks), q.Past+q.Rows)
		}
		for _, b := range q.Blocks {
			if b < 0 || int(b) >= blocks {
				return fmt.Errorf("compute: sequence %d uses block %d of %d", i, b, blocks)
			}
		}
		row += q.Rows
	}
	if row != len(s.Tokens) {
		return fmt.Errorf("compute: %d tokens for %d rows", len(s.Tokens), row)
	}
	for i, r := range s.Outputs {
		if r < 0 || int(r) >= row || (i > 0 && r <= s.Outputs[i-1]) {
			return fmt.Errorf("compute: output %d wants row %d of %d", i, r, row)
		}
	}
	return nil
}
