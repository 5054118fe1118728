package gatewaycost

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"time"
)

// endPatience is how long a process may take to end before it is killed.
const endPatience = 10 * time.Second

// Processes are those of a run.
type Processes struct {
	ctx     context.Context
	running sync.WaitGroup
}

// NewProcesses returns one without processes. They are asked to end with ctx.
func NewProcesses(ctx context.Context) *Processes { return &Processes{ctx: ctx} }

// Command prepares a process that ends with the run, or with this program.
func (c *Processes) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, program, args...)
	EndWithMe(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endPatience
	return cmd
}

// Start starts a process, and calls ended when it is not any more.
func (c *Processes) Start(cmd *exec.Cmd, ended func(error)) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	c.running.Go(func() { ended(cmd.Wait()) })
	return nil
}

// Wait returns when all processes have ended, and write to none of their files any
// more.
func (c *Processes) Wait() { c.running.Wait() }
