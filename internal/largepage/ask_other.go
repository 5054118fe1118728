//go:build !linux

package largepage

// ask does nothing: other systems decide by themselves.
func ask(_, _ uintptr) {}
