package parley

import (
	"fmt"
	"runtime/debug"
)

// PanicError returns the value p of a recovered panic as an error that says where it
// came from.
func PanicError(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
