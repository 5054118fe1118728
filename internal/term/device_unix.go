//go:build linux || darwin

package term

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Device is the terminal that the program runs in. The caller closes it,
// which restores the terminal.
type Device struct {
	in, out *os.File
	found   unix.Termios
	// wake is a pipe: what is written to it ends a Read.
	wakeRead, wakeWrite *os.File
	resized             chan os.Signal
	watching            sync.WaitGroup
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

func windowSize(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// OpenDevice takes the terminal that in and out belong to.
func OpenDevice(in, out *os.File) (*Device, error) {
	found, err := unix.IoctlGetTermios(int(in.Fd()), getTermios)
	if err != nil || !IsTerminal(out) {
		return nil, ErrNoTerminal
	}
	d := &Device{in: in, out: out, found: *found, resized: make(chan os.Signal, 1)}
	if d.wakeRead, d.wakeWrite, err = os.Pipe(); err != nil {
		return nil, err
	}
	signal.Notify(d.resized, syscall.SIGWINCH)
	d.watching.Go(func() {
		for range d.resized {
			_, _ = d.wakeWrite.Write([]byte{byte(Resized)}) // a closed pipe wants no news
		}
	})
	return d, nil
}

// Close gives the terminal back.
func (d *Device) Close() error {
	signal.Stop(d.resized)
	close(d.resized)
	d.watching.Wait()
	return errors.Join(d.Restore(), d.wakeRead.Close(), d.wakeWrite.Close())
}

// Restore sets the terminal as it was found.
func (d *Device) Restore() error { return d.set(&d.found) }

// Edit sets the terminal so that every key arrives as it is pressed and nothing
// is shown by itself.
func (d *Device) Edit() error {
	mode := d.found
	mode.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON | unix.ISTRIP | unix.BRKINT
	mode.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	return d.set(&mode)
}

// Listen sets the terminal for the time while nothing is read: Ctrl-C
// interrupts the program, and other keys wait unseen for the next Edit. Neither
// they nor what is being shown are lost by Ctrl-C, hence NOFLSH.
func (d *Device) Listen() error {
	mode := d.found
	mode.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR
	mode.Lflag &^= unix.ECHO | unix.ICANON | unix.IEXTEN
	mode.Lflag |= unix.ISIG | unix.NOFLSH
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	return d.set(&mode)
}

func (d *Device) set(mode *unix.Termios) error {
	return unix.IoctlSetTermios(int(d.in.Fd()), setTermios, mode)
}

// Wake ends the Read that waits now, or the next one. It may be called from any
// goroutine until Close.
func (d *Device) Wake() {
	_, _ = d.wakeWrite.Write([]byte{byte(Woken)}) // a closed pipe wants no news
}

// Read waits for input, at most for wait if that is more than 0. A terminal
// that is gone is io.EOF.
func (d *Device) Read(buf []byte, wait time.Duration) (int, Event, error) {
	timeout := -1
	if wait > 0 {
		timeout = int(wait.Milliseconds())
	}
	polled := []unix.PollFd{{Fd: int32(d.wakeRead.Fd()), Events: unix.POLLIN},
		{Fd: int32(d.in.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polled, timeout)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, Silent, err
		case n == 0:
			return 0, Silent, nil
		}
		break
	}
	if polled[0].Revents != 0 {
		var why [1]byte
		_, err := d.wakeRead.Read(why[:])
		return 0, Event(why[0]), err
	}
	n, err := unix.Read(int(d.in.Fd()), buf)
	switch {
	case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
		return 0, Silent, nil
	case err != nil || n == 0:
		return 0, Silent, io.EOF
	}
	return n, Typed, nil
}

// stopWait is how long the system may take to stop a program that has asked for
// it. One without a shell that could continue it is never stopped.
const stopWait = 200 * time.Millisecond

// Suspend stops the program until its shell continues it.
func (d *Device) Suspend() error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := errors.Join(d.Restore(), unix.Kill(0, unix.SIGTSTP)); err != nil {
		return err
	}
	select { // the call above returns before the program has stopped
	case <-continued:
	case <-time.After(stopWait):
	}
	return nil
}
