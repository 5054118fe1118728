//go:build !linux

package llamacpp

// largePages takes memory in whatever pages the system has.
func largePages(bytes int) ([]byte, error) { return make([]byte, bytes), nil }
