package gateway

import (
	"crypto/rand"
	"encoding/hex"
)

// randomSuffix returns the random part of an id.
func randomSuffix() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
