// Package weights reads and writes the files that hold a language model.
//
// A model on disk is three things: numbers that say how it is built
// ([Config]), named blocks of weights ([Tensor]), and the text side (a
// vocabulary and a chat template). Two file formats carry them: a directory in
// Hugging Face's layout (config.json, *.safetensors, tokenizer.json), and a
// single GGUF file. [Open] takes either and returns one [Checkpoint], in which
// tensors have GGUF's names (token_embd.weight, blk.0.attn_q.weight, ...) and
// shapes are written outermost first, so nothing above this package needs to
// know where a model came from.
//
// Files are memory-mapped: opening a 40 GB model costs no memory, and the Data
// of every tensor is a view that dies with [Checkpoint.Close].
//
// # Files are not trusted
//
// A model file usually comes from a third party. Every length, count and offset in
// it is compared with the number of bytes that are really there before it is
// used, so that the memory taken while reading is bounded by a small multiple
// of the file's size, and no file can make the reader panic or read outside
// its mapping. [Config] is checked the same way: a number outside the range any
// real model has, or two numbers that contradict each other, is an error that
// names the key. [Checkpoint.CheckTensors] then compares the tensors with what
// the architecture needs.
//
// # Two conventions for rotary positions
//
// Hugging Face's checkpoints rotate element i of a head together with element
// i+d/2. llama.cpp's converter reorders the rows of the query and key
// projections of Llama and Mistral models so that neighbours 2i and 2i+1
// rotate together. The weights do not show which it is, so
// [Rope.Interleaved] does: true for the GGUF architecture "llama", false for
// everything else. [Convert] does the same reordering.
//
// # Quantized blocks
//
// Quantized types pack 32 or 256 neighbouring values of a row into a block of
// small integers with a shared scale. The layouts are ggml's, so files move
// freely between Parley and llama.cpp. [Dequantize] and [Quantize] convert
// whole rows; they are portable Go and meant for loading, converting and
// checking, while the compute packages work on the blocks directly.
package weights
