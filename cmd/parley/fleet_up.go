package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// An upPlan is a gateway and its workers on this machine.
type upPlan struct {
	program string // this one
	addr    string
	workers int
	models  []string
	dir     string // of logs and data
}

func newFleetUp() *cobra.Command {
	p := &upPlan{}
	cmd := &cobra.Command{
		Use: "up", Short: "Start a gateway and workers on this machine, and watch them",
		Long: `Start a gateway and workers on this machine, each a process of its own, and watch
them until Ctrl-C, which ends all of them. Try what happens when one is killed: its
answers go on with another one.`,
		Example: "  parley fleet up\n  parley fleet up --workers 5 --model polly\n  kill -9 $(pgrep -f 'parley worker' | head -1)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&p.addr, "addr", "127.0.0.1:8080", "the gateway listens on this `ADDRESS`")
	cmd.Flags().IntVar(&p.workers, "workers", 3, "start `N` workers")
	cmd.Flags().StringSliceVar(&p.models, "model", []string{"polly-mini"}, "serve this `MODEL`, as serve and worker take it")
	cmd.Flags().StringVar(&p.dir, "dir", "", "keep logs and data in this `DIRECTORY` (default: a temporary one)")
	return cmd
}

func (p *upPlan) run(ctx context.Context, out io.Writer) (err error) {
	if p.workers < 1 {
		return errNoWorkers
	}
	if p.program, err = os.Executable(); err != nil {
		return err
	}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "parley-fleet-"); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	var processes []*exec.Cmd
	defer func() {
		stop()
		for _, c := range processes {
			_ = c.Wait() // it was told to end
		}
	}()
	start := func(name string, args ...string) error {
		c, err := p.start(ctx, name, args)
		if err == nil {
			processes = append(processes, c)
		}
		return err
	}
	front := []string{"serve", "--addr", p.addr, "--data", filepath.Join(p.dir, "gateway")}
	for i := range p.workers {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		if err := start(fmt.Sprintf("worker-%d", i+1), append([]string{"worker", "--addr", address, "--data", filepath.Join(p.dir, fmt.Sprint("worker-", i+1))}, p.modelFlags()...)...); err != nil {
			return err
		}
		front = append(front, "--worker", "http://"+address)
	}
	if err := start("gateway", append(front, p.modelFlags()...)...); err != nil {
		return err
	}
	fmt.Fprintf(out, "A gateway on http://%s and %d workers; logs are in %s\n", p.addr, p.workers, p.dir)
	return p.watch(ctx, out)
}

// watch shows the fleet as soon as the gateway answers.
func (p *upPlan) watch(ctx context.Context, out io.Writer) error {
	c, err := newClient("http://" + p.addr)
	if err != nil {
		return err
	}
	for until := time.Now().Add(upMax); ; {
		if _, err = c.standings(ctx); err == nil {
			return watchFleet(ctx, c, out)
		}
		if time.Now().After(until) {
			return fmt.Errorf("the gateway did not start within %v; see the logs in %s: %w", upMax, p.dir, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// upMax is how long a fleet may take to start.
const upMax = 2 * time.Minute

func (p *upPlan) modelFlags() (flags []string) {
	for _, m := range p.models {
		flags = append(flags, "--model", m)
	}
	return flags
}

// start runs this program again, with its output in a file.
func (p *upPlan) start(ctx context.Context, name string, args []string) (*exec.Cmd, error) {
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fmt.Fprintln(log, "parley", strings.Join(args, " "))
	c := exec.CommandContext(ctx, p.program, args...)
	c.Stdout, c.Stderr = log, log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	return c, c.Start()
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), errors.Join(l.Close())
}
