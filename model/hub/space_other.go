//go:build !linux && !darwin

package hub

// FreeBytes is not known here; a full disk fails the write instead.
func FreeBytes(string) (int64, error) { return FileBytesMax, nil }
