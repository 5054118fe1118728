package model

// loadQwen2 loads Qwen2 and Qwen2.5: a Llama with biases on the query, key and
// value projections, which its checkpoints carry, and sliding windows in the
// upper layers of a few variants.
func loadQwen2(l *loader) (architecture, error) {
	return loadDecoder(l, l.mlp)
}
