package term

import (
	"errors"
	"os"
)

// An Event says what ended a [Device.Read] other than input.
type Event int

const (
	// Typed: there is input.
	Typed Event = iota
	// Silent: there was none for the time given.
	Silent
	// Resized: the screen has another size.
	Resized
	// Woken: Wake was called.
	Woken
)

// ErrNoTerminal says that there is no terminal to talk to.
var ErrNoTerminal = errors.New("not a terminal")

// Size returns the columns and rows of the screen, or what is usual where the
// terminal does not say.
func (d *Device) Size() (columns, rows int) {
	columns, rows = windowSize(d.out)
	if columns <= 0 || rows <= 0 {
		return 80, 24
	}
	return columns, rows
}

// Columns returns how wide the terminal behind a file is, and 0 if there is
// none.
func Columns(f *os.File) int {
	if !IsTerminal(f) {
		return 0
	}
	columns, _ := windowSize(f)
	if columns <= 0 {
		return 80
	}
	return columns
}

// Write writes to the screen.
func (d *Device) Write(p []byte) (int, error) { return d.out.Write(p) }
