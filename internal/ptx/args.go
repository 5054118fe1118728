package ptx

import (
	"encoding/binary"
	"math"
)

// U64 returns the bytes of a 64-bit argument, such as a device address.
func U64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// U32 returns the bytes of a 32-bit argument.
func U32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// I32 returns the bytes of a signed 32-bit argument.
func I32(v int32) []byte { return U32(uint32(v)) }

// F32 returns the bytes of a float argument.
func F32(v float32) []byte { return U32(math.Float32bits(v)) }
