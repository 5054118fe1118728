// Package supervise runs programs as parts of one service: it writes their output to
// log files, starts a part again that was killed, and explains why one ended.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrEnded says that a program exited unexpectedly.
var ErrEnded = errors.New("a process of the fleet exited")

// A Program is one that is run several times, with different arguments.
type Program struct {
	// Path is the executable file, Name what its log calls it.
	Path, Name string
	// LogDir is where each part has its log.
	LogDir string
	// Env is the environment of all parts.
	Env []string
	// Pause is how long a part that ended stays away, for people to see it.
	Pause time.Duration
}

const (
	// stopWait is how long a part may take to end when it is interrupted.
	stopWait = 10 * time.Second
	// shownLog is how much of a log an error shows.
	shownLog = 500
)

// Keep runs a part, and again when it has ended, until ctx does. A part that gives up
// the first time would do so again: its error is returned.
func (p *Program) Keep(ctx context.Context, part string, args []string) error {
	for first := true; ctx.Err() == nil; first = false {
		err := p.Run(ctx, part, args)
		exit, ok := errors.AsType[*exec.ExitError](err)
		if first && ctx.Err() == nil && (!ok || exit.Exited()) { // and was not killed
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.Pause):
		}
	}
	return nil
}

// Run runs a part until it ends, or interrupts it when ctx ends. It always returns an
// error, which is [ErrEnded] with the end of the part's log.
func (p *Program) Run(ctx context.Context, part string, args []string) error {
	path := filepath.Join(p.LogDir, part+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintln(log, p.Name, strings.Join(args, " "))
	c := exec.CommandContext(ctx, p.Path, args...)
	c.Env = p.Env
	c.Stdout, c.Stderr = log, log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = stopWait
	err = c.Run()
	text, _ := os.ReadFile(path)
	return fmt.Errorf("%w: %s (%w); the end of %s:\n%s", ErrEnded, part, err, path, text[max(0, len(text)-shownLog):])
}

// WithSecret returns this process's environment with a secret added. Arguments of a
// process can be seen by every user of the machine, its environment only by its own.
func WithSecret(variable, secret string) []string { return append(os.Environ(), variable+"="+secret) }

// FreeAddress returns an address of this machine that is not in use.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), errors.Join(l.Close())
}
