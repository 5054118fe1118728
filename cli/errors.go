package cli

import "errors"

var (
	// ErrUsage marks a command line that cannot be understood.
	ErrUsage = errors.New("see --help")
	// ErrInterrupted marks work that the user ended before it was complete.
	ErrInterrupted = errors.New("interrupted")
)
