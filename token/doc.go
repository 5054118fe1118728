// Package token turns text into the token ids a model was trained on, and back. A model is only as good as this
// translation: one id that differs from the tokenizer used in training and the answers get quietly worse, so the aim
// is the exact output of the reference implementations (Hugging Face tokenizers for tokenizer.json, llama.cpp for
// vocabularies inside GGUF).
//
// # From text to tokens
//
// A [Tokenizer] is a pipeline that is read from the file and runs in this order:
//
//  1. Added tokens such as <|im_start|> that match the text as written are cut
//     out; each is one id. (added.go)
//  2. What lies between them is normalized: Unicode composition, "▁" for
//     spaces, and so on. (normalize.go) Added tokens that match normalized
//     text are cut out next.
//  3. The rest is split into words: a pattern decides that " hello" is a
//     word and "123456" two. (split.go; patterns.go names the common
//     patterns, which split_known.go and split_cased.go have written out by
//     hand, regex.go runs every other pattern)
//  4. Each word becomes tokens: byte pair encoding joins the best-ranked pair
//     of neighbours until no known pair is left (bpe.go, bpe_long.go; bpe_build.go
//     and spm.go prepare the tables), or the most probable segmentation is
//     taken (unigram.go).
//  5. The ids that begin and end a sequence are put around it. (load_json.go,
//     load_gguf.go say which)
//
// # From tokens to text
//
// A chain of steps undoes the encoding (decode.go). The steps are written to run one token at a time, so that whole
// decoding ([Tokenizer.Decode]) and streaming ([Decoder]) are the same code and cannot disagree.
//
// # Speed
//
// Words repeat, so a bounded cache maps short words to their ids. A miss is merged in a flat array when the word is
// short, and by ranks in buckets when it is long: a megabyte without a single space costs about as much per byte as a
// megabyte of prose. No step looks at a byte more than a constant number of times, except patterns that are not known
// by name: those run on a backtracking engine under a time limit.
//
// # Bytes that are not UTF-8
//
// Nothing panics on them. Byte-level vocabularies encode them as they are and decoding gives them back as U+FFFD,
// [Tokenizer.Bytes] exactly. Vocabularies with byte fallback use one byte token each; all others use the unknown
// token.
//
// A Tokenizer is immutable and safe for concurrent use; a [Decoder] belongs to one stream.
package token
