package llamacpp

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// busyCore starts a program that keeps the last processor busy, and returns the
// function that ends it.
func (l *Lab) busyCore(ctx context.Context) (stop func(), err error) {
	cmd := exec.CommandContext(ctx, l.Self, "cpu", "--burn")
	hold, err := cmd.StdinPipe() // the program ends with it, also if this one dies
	if err != nil {
		return nil, err
	}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		hold.Close()
		_ = cmd.Wait() // it has nothing to say
	}
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		stop()
		return nil, fmt.Errorf("no processor could be kept busy: %w", err)
	}
	return stop, nil
}

// Burn keeps the last processor that this process may use busy until in ends.
// It writes a byte when it has begun.
func Burn(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	var allowed, last unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return err
	}
	for cpu, left := 0, allowed.Count(); left > 0; cpu++ {
		if allowed.IsSet(cpu) {
			if left--; left == 0 {
				last.Set(cpu)
			}
		}
	}
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		return err
	}
	if _, err := out.Write([]byte{'.'}); err != nil {
		return err
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, in) // an input that breaks has ended, too
		ended.Store(true)
	}()
	for turns := 0; !ended.Load(); turns++ { // nothing but work
	}
	return nil
}
