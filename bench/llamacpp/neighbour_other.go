//go:build !linux

package llamacpp

import (
	"context"
	"errors"
	"io"
)

var errNoPinning = errors.New("a program can be tied to a processor on Linux only: leave this check out with --only")

func (l *Lab) busyCore(context.Context) (func(), error) { return nil, errNoPinning }

// Burn needs Linux.
func Burn(io.Reader, io.Writer) error { return errNoPinning }
