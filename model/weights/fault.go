package weights

import (
	"errors"
	"fmt"
	"runtime/debug"

	"parley"
)

// errFileChanged is what a request gets when the model's file lost pages.
var errFileChanged = parley.Errorf(parley.Unavailable,
	"The model cannot be read: its file was changed in place or cut short while "+
		"it was served, or its disk failed. Restart the server. To replace a model file, write a new file and "+
		"rename it over the old one.")

// FaultError returns the error for a recovered panic value if the panic was a
// memory fault, and nil for every other value. A mapped file that is truncated
// loses pages that the program believes to have; reading one raises SIGBUS.
// It is a panic only in goroutines that called [debug.SetPanicOnFault].
func FaultError(recovered any) error {
	err, ok := recovered.(error)
	if !ok {
		return nil
	}
	if _, ok := errors.AsType[interface {
		error
		Addr() uintptr
	}](err); !ok {
		return nil
	}
	return errFileChanged
}

// PanicError returns the error for a recovered panic: with the stack for the log, and
// with a message for the caller if the model's file is the cause.
func PanicError(recovered any) error {
	if err := FaultError(recovered); err != nil {
		return fmt.Errorf("%w (%v)", err, recovered)
	}
	return parley.PanicError(recovered)
}

// CatchFault runs read, which reads mapped files, and returns a memory fault
// in it as an error. Other panics pass through.
func CatchFault(read func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		if p := recover(); p != nil {
			if err = FaultError(p); err == nil {
				panic(p)
			}
		}
	}()
	return read()
}
