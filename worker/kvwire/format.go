package kvwire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Version is that of the protocol. Workers of different versions exchange nothing.
const Version = 3

// A Format is everything but its name that the bytes of a block depend on.
type Format struct {
	// Version is that of the protocol.
	Version int `json:"version"`
	// Weights is a fingerprint of the model's weights and shape.
	Weights string `json:"weights"`
	// Arithmetic names the kernels and their numerics, KVType how keys and values are kept.
	Arithmetic string `json:"arithmetic"`
	KVType     string `json:"kv_type"`
	// BlockTokens and BlockBytes are the size of a block.
	BlockTokens int `json:"block_tokens"`
	BlockBytes  int `json:"block_bytes"`
}

// Difference says in what two formats differ, first things first; empty if they do not.
func (l *Format) Difference(other *Format) string {
	for _, row := range []struct{ what, a, b string }{
		{"version of the protocol", fmt.Sprint(l.Version), fmt.Sprint(other.Version)},
		{"weights", l.Weights, other.Weights},
		{"arithmetic", l.Arithmetic, other.Arithmetic},
		{"KV type", l.KVType, other.KVType},
		{"tokens in a block", fmt.Sprint(l.BlockTokens), fmt.Sprint(other.BlockTokens)},
		{"bytes of a block", fmt.Sprint(l.BlockBytes), fmt.Sprint(other.BlockBytes)},
	} {
		if row.a != row.b {
			return row.what
		}
	}
	return ""
}

// Digest returns a short name of the format: workers whose formats have the same one can
// exchange blocks.
func (l *Format) Digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", *l))
	return hex.EncodeToString(sum[:16])
}
