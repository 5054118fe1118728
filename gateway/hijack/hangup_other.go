//go:build !linux

package hijack

// A hangupWatcher would see clients hang up, where a program can wait for many
// connections at once without a goroutine for each of them.
type hangupWatcher struct{}

func (*hangupWatcher) watch(*DetachedStream) bool { return false }

func (*hangupWatcher) unwatch(*DetachedStream) {}

func (*hangupWatcher) watched() (now int, ever uint64) { return 0, 0 }

func (*hangupWatcher) close() {}
