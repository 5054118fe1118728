//go:build !linux && !darwin

package library

import "math"

// roomFor does not know how to ask this system, so a full disk shows when it
// is full.
func roomFor(string) (int64, error) { return math.MaxInt64, nil }
