// Package parley defines the types that all other packages share: requests,
// deltas of answers, names of cached blocks, and errors. It imports only the
// standard library.
//
// A prompt passes the folders in the order of ARCHITECTURE.md: the gateway
// parses it and turns it into tokens, a worker takes the tokens, an engine
// computes, and the answer returns as a stream of deltas. The code above
// [Worker] handles text, the code below it handles token ids; only foreign
// engines that take no ids are sent text.
package parley

// A Token is the number of one entry of a model's vocabulary.
type Token int32
