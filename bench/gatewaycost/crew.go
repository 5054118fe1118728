package gatewaycost

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"time"
)

// crewPatience is how long a process may take to end before it is killed.
const crewPatience = 10 * time.Second

// A Crew is the processes of a run.
type Crew struct {
	ctx     context.Context
	running sync.WaitGroup
}

// NewCrew returns one without processes. They are asked to end with ctx.
func NewCrew(ctx context.Context) *Crew { return &Crew{ctx: ctx} }

// Command prepares a process that ends with the run, or with this program.
func (c *Crew) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, program, args...)
	EndWithMe(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = crewPatience
	return cmd
}

// Start starts a process, and calls ended when it is not any more.
func (c *Crew) Start(cmd *exec.Cmd, ended func(error)) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	c.running.Go(func() { ended(cmd.Wait()) })
	return nil
}

// Wait returns when all processes have ended, and write to none of their files any
// more.
func (c *Crew) Wait() { c.running.Wait() }
