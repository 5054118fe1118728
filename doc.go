// Package parley holds the nouns of the platform: what a request is, what
// comes back, how a block of context is named, and which errors a caller can
// meet. Every other package speaks in these words, and this one imports
// nothing but the standard library.
//
// A prompt travels down the folders in the order they are listed in
// ARCHITECTURE.md: the gateway parses it and turns it into tokens, a worker
// takes the tokens, an engine computes, and the answer comes back as a stream
// of deltas. Text exists only above the [Worker] line; below it there are
// only token ids.
package parley

// A Token is the number of one entry of a model's vocabulary.
type Token int32
