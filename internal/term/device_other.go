//go:build !linux && !darwin

package term

import (
	"os"
	"time"
)

// A Device is a terminal. There is none on this system yet: what needs one says
// so, and everything else works through pipes.
type Device struct{ out *os.File }

// IsTerminal reports whether a file is a terminal.
func IsTerminal(*os.File) bool { return false }

func windowSize(*os.File) (columns, rows int) { return 0, 0 }

// OpenDevice fails on this system.
func OpenDevice(_, _ *os.File) (*Device, error) { return nil, ErrNoTerminal }

// Close does nothing.
func (d *Device) Close() error { return nil }

// Restore does nothing.
func (d *Device) Restore() error { return nil }

// Edit fails on this system.
func (d *Device) Edit() error { return ErrNoTerminal }

// Listen fails on this system.
func (d *Device) Listen() error { return ErrNoTerminal }

// Wake does nothing.
func (d *Device) Wake() {}

// Read fails on this system.
func (d *Device) Read([]byte, time.Duration) (int, Event, error) { return 0, Silent, ErrNoTerminal }

// Suspend fails on this system.
func (d *Device) Suspend() error { return ErrNoTerminal }
