package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Terminal runs a program as if a user sat in front of it.
type Terminal struct {
	t       *testing.T
	master  *os.File
	command *exec.Cmd
	mu      sync.Mutex
	screen  *Screen
	raw     strings.Builder
	changed chan struct{} // one is sent after each piece of output
	ended   chan struct{} // closed when the program has closed the terminal
}

// StartTerminal starts a command in a terminal of columns and rows. The test
// ends it.
func StartTerminal(t *testing.T, columns, rows int, command *exec.Cmd) *Terminal {
	t.Helper()
	master, slave := openPTY(t)
	x := &Terminal{
		t:       t,
		master:  master,
		command: command,
		screen:  NewScreen(columns, rows),
		changed: make(chan struct{}, 1),
		ended:   make(chan struct{}),
	}
	x.setSize(columns, rows)
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go x.read()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = master.Close()
		<-x.ended
		if t.Failed() {
			t.Logf("the screen:\n%s", x.Text())
		}
	})
	return x
}

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	control, err := master.SyscallConn() // Fd would take the file from the poller, and Close would wait
	if err != nil {
		t.Fatal(err)
	}
	var number int
	err2 := control.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func (x *Terminal) setSize(columns, rows int) {
	x.t.Helper()
	control, err := x.master.SyscallConn()
	if err != nil {
		x.t.Fatal(err)
	}
	err2 := control.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
	})
	if err != nil || err2 != nil {
		x.t.Fatal(err, err2)
	}
}

func (x *Terminal) read() {
	defer close(x.ended)
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		if n > 0 {
			x.mu.Lock()
			_, _ = x.screen.Write(buf[:n])
			x.raw.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.changed <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// Type sends keys to the program.
func (x *Terminal) Type(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// Resize changes the size of the terminal.
func (x *Terminal) Resize(columns, rows int) {
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	x.setSize(columns, rows)
}

// Text returns what the screen shows.
func (x *Terminal) Text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.Text()
}

// Raw returns every byte that the program has written.
func (x *Terminal) Raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.raw.String()
}

// terminalWaitMax is when a test gives up waiting for the screen. Nothing takes
// that long; a busy machine may.
const terminalWaitMax = 3 * time.Minute

// Wait returns what the screen shows once that satisfies the test, or fails it.
func (x *Terminal) Wait(what string, satisfied func(text string) bool) string {
	x.t.Helper()
	deadline := time.After(terminalWaitMax)
	for {
		text := x.Text()
		if satisfied(text) {
			return text
		}
		select {
		case <-x.changed:
		case <-x.ended:
			if text = x.Text(); satisfied(text) {
				return text
			}
			x.t.Fatalf("the program ended before there was %s", what)
		case <-deadline:
			x.t.Fatalf("there was no %s", what)
		}
	}
}

// WaitFor waits until the screen shows a text, which may be broken between
// words.
func (x *Terminal) WaitFor(wanted string) string {
	x.t.Helper()
	return x.Wait(fmt.Sprintf("%q", wanted), func(text string) bool {
		return strings.Contains(text, wanted) || strings.Contains(strings.ReplaceAll(text, "\n", " "), wanted)
	})
}

// Exit waits for the end of the program and of what it wrote, and returns its exit code.
func (x *Terminal) Exit() int {
	x.t.Helper()
	done := make(chan error, 1)
	go func() {
		err := x.command.Wait()
		<-x.ended // all that it wrote is read
		done <- err
	}()
	select {
	case <-done:
		return x.command.ProcessState.ExitCode()
	case <-time.After(terminalWaitMax):
		x.t.Fatal("the program did not end")
		return -1
	}
}
