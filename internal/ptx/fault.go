package ptx

import (
	"fmt"

	"parley/internal/ptx/arith"
)

// A Fault is an error of a kernel, with the place where it happened.
type Fault struct {
	Kernel      string
	Block       Dim
	Thread      Dim
	Line        int
	Instruction string
	Address     uint64
	HasAddress  bool
	Reason      string
}

// Error returns the fault in one line.
func (f *Fault) Error() string {
	at := ""
	if f.HasAddress {
		at = fmt.Sprintf(" at address %#x", f.Address)
	}
	return fmt.Sprintf("ptx: kernel %s, block %v, thread %v, line %d: %s%s [%s]",
		f.Kernel, [3]int(f.Block), [3]int(f.Thread), f.Line, f.Reason, at, f.Instruction)
}

// fault ends the launch with an error at the current instruction.
func (w *warp) fault(lane int, format string, args ...any) {
	panic(w.newFault(lane, format, args...))
}

// faultAt is fault for a memory access.
func (w *warp) faultAt(lane int, addr uint64, format string, args ...any) {
	f := w.newFault(lane, format, args...)
	f.Address, f.HasAddress = addr, true
	panic(f)
}

func (w *warp) newFault(lane int, format string, args ...any) *Fault {
	in := &w.k.code[w.pc]
	return &Fault{
		Kernel:      w.k.Name,
		Block:       w.b.at,
		Thread:      w.thread(lane),
		Line:        int(in.line),
		Instruction: in.text,
		Reason:      fmt.Sprintf(format, args...),
	}
}

// thread returns the position of a lane's thread in its block.
func (w *warp) thread(lane int) Dim {
	t, d := w.id*arith.WarpSize+lane, w.b.run.block
	return Dim{t % d[0], t / d[0] % d[1], t / (d[0] * d[1])}
}
