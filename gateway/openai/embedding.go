package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"parley"
)

// Bounds of a request for embeddings. Both are the interface's own.
const (
	inputsMax     = 2048
	dimensionsMax = 1 << 16
)

// An EmbeddingRequest is the body of POST /v1/embeddings.
type EmbeddingRequest struct {
	// Model is the name the client asked for; empty if it named none.
	Model string
	// Inputs has 1 to 2048 entries, none of which is an empty text.
	Inputs []Prompt
	// Base64 asks for each vector as its bytes instead of numbers: libraries do
	// so unasked, as it is a third of the size.
	Base64 bool
	// Dimensions is how many numbers of each vector are wanted, 0 for all.
	Dimensions int
}

// ParseEmbedding reads the body of a request for embeddings. An error is
// always a [parley.Error] that names the field at fault.
func ParseEmbedding(body []byte) (*EmbeddingRequest, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	f := doc.fields()
	r := &EmbeddingRequest{}
	f.text("model", &r.Model)
	r.Inputs = readPrompts(f, "input", inputsMax)
	for _, p := range r.Inputs {
		if !p.IsTokens && p.Text == "" {
			f.fail(withCode("empty_string",
				parley.Invalid(p.Param, "Invalid '%s': empty string. An input has at least one character.", p.Param)))
		}
	}
	format := ""
	f.oneOf("encoding_format", &format, "float", "base64")
	r.Base64 = format == "base64"
	f.integer("dimensions", 1, dimensionsMax, &r.Dimensions)
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

// CheckVocab refuses token ids that a vocabulary of size entries does not have.
func (r *EmbeddingRequest) CheckVocab(size int) error { return checkPrompts(r.Inputs, size) }

// CheckWidth refuses more dimensions than the model's vectors have.
func (r *EmbeddingRequest) CheckWidth(width int) error {
	if r.Dimensions <= width {
		return nil
	}
	return withCode("integer_above_max_value", parley.Invalid("dimensions",
		"Invalid 'dimensions': integer above maximum value. Expected a value <= %d, but got %d instead.", width,
		r.Dimensions))
}

// An EmbeddingList is the answer of POST /v1/embeddings.
type EmbeddingList struct {
	Object string         `json:"object"`
	Data   []Embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  EmbeddingUsage `json:"usage"`
}

// An Embedding is the vector of one input. Embedding is a list of numbers, or
// the base64 of their little-endian bytes.
type Embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// An EmbeddingUsage counts tokens. There is no output, so both are equal.
type EmbeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// Shape returns a model's vector as the client wants it: the first numbers of
// it, to the length 1. A vector of zeros, which has no direction, stays one.
func (r *EmbeddingRequest) Shape(index int, vector []float32) Embedding {
	if r.Dimensions > 0 {
		vector = vector[:r.Dimensions]
	}
	unit := normalized(vector)
	e := Embedding{Object: "embedding", Index: index, Embedding: unit}
	if r.Base64 {
		raw := make([]byte, 0, 4*len(unit))
		for _, x := range unit {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		e.Embedding = base64.StdEncoding.EncodeToString(raw)
	}
	return e
}

func normalized(v []float32) []float32 {
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	unit := make([]float32, len(v))
	if squares == 0 {
		return unit
	}
	scale := 1 / math.Sqrt(squares)
	for i, x := range v {
		unit[i] = float32(float64(x) * scale)
	}
	return unit
}
