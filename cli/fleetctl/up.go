package fleetctl

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/cli/remote"
	"parley/internal/dirlock"
	"parley/internal/supervise"
	"parley/worker/host"
)

// An upPlan is a gateway and its workers on this machine.
type upPlan struct {
	addr    string
	workers int
	devices []string // of the workers, one for each; none means the default for all
	models  []string
	dir     string // of logs and data
	scale   scaleFlags
}

func newFleetUp() *cobra.Command {
	p := &upPlan{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a gateway and workers on this machine, and watch them",
		Long: `Start a gateway and workers on this machine, each in its own process, and show them until
Ctrl-C, which stops all of them. Try killing a worker: its answers continue on another one,
and it is restarted after five seconds. On a machine with several GPUs, --devices all starts
one worker for each. With --max the number of workers follows the load: they register when
they start and are drained before they stop.`,
		Example: "  parley fleet up\n  parley fleet up --workers 5 --model polly\n  parley fleet up --min 1 --max 6\n" +
			"  parley fleet up --devices all " +
			"--model PATH\n  kill -9 $(pgrep -f 'parley worker' | head -1)",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&p.addr, "addr", "127.0.0.1:8080", "have the gateway listen on `ADDRESS`")
	cmd.Flags().IntVar(&p.workers, "workers", 3, "start `N` workers")
	p.scale.add(cmd.Flags())
	cmd.Flags().StringSliceVar(&p.devices, "devices", nil,
		"start one worker for each of these `DEVICES`, as cuda:0,cuda:1, or all: one for each GPU")
	cmd.MarkFlagsMutuallyExclusive("workers", "devices", "max")
	cmd.Flags().StringSliceVar(&p.models, "model", []string{"polly-mini"},
		"serve this `MODEL`, as serve and worker take it")
	cmd.Flags().StringVar(&p.dir, "dir", "",
		"keep logs and data in this `DIRECTORY` (default: a temporary one, which is "+
			"removed after a clean shutdown)")
	return cmd
}

func (p *upPlan) run(ctx context.Context, out io.Writer) (err error) {
	if p.devices, err = workerDevices(p.devices, host.GPUs); err != nil {
		return err
	}
	if len(p.devices) > 0 {
		p.workers = len(p.devices)
	}
	if p.workers < 1 {
		return errNoWorkers
	}
	program := supervise.Program{Name: "parley", Pause: upAgain,
		Env: supervise.WithSecret("PARLEY_WORKER_KEY", rand.Text())}
	if program.Path, err = os.Executable(); err != nil {
		return err
	}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "parley-fleet-"); err != nil {
			return err
		}
		defer func() {
			if err == nil { // else its logs say why
				err = os.RemoveAll(p.dir)
			}
		}()
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	lock, err := dirlock.Lock(p.dir)
	if errors.Is(err, dirlock.ErrInUse) {
		return fmt.Errorf("--dir: %s: %w: end that one first, or use another directory", p.dir, err)
	}
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	defer lock.Close()
	program.LogDir = p.dir
	ctx, stop := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop(nil)
	front := []string{"serve", "--addr", p.addr, "--data", filepath.Join(p.dir, "gateway")}
	if p.scale.Max > 0 {
		return p.runScaled(ctx, out, &parts, stop, program, front)
	}
	for i := range p.workers {
		address, err := supervise.FreeAddress()
		if err != nil {
			return err
		}
		name := fmt.Sprint("worker-", i+1)
		args := p.workerArgs(name, address)
		if len(p.devices) > 0 {
			args = append(args, "--device", p.devices[i])
		}
		parts.Go(func() { stop(program.Keep(ctx, name, args)) })
		front = append(front, "--worker", "http://"+address)
	}
	parts.Go(func() { stop(program.Run(ctx, "gateway", append(front, p.modelFlags()...))) })
	fmt.Fprintf(out, "Starting a gateway on http://%s and %d workers; logs are in %s\n", p.addr, p.workers, p.dir)
	return p.watch(ctx, out, func() string { return "" })
}

// runScaled starts a gateway and as many workers as a scaler wants.
func (p *upPlan) runScaled(ctx context.Context, out io.Writer, parts *sync.WaitGroup, stop context.CancelCauseFunc,
	program supervise.Program, front []string) error {
	scaler, err := p.scale.scaler()
	if err != nil {
		return err
	}
	client, err := remote.New("http://" + p.addr)
	if err != nil {
		return err
	}
	program.Env = append(program.Env, "PARLEY_FLEET_JOIN_TOKEN="+rand.Text())
	front = append(front, "--pools", `[{name: local, workers: [{register: true, networks: [127.0.0.0/8]}]}]`)
	parts.Go(func() { stop(program.Run(ctx, "gateway", append(front, p.modelFlags()...))) })
	of := &gateways{client: client}
	workers := &localWorkers{
		program: program,
		args: func(name, address string) []string {
			return append(p.workerArgs(name, address), "--register", "http://"+p.addr)
		},
		order: of.order,
		ctx:   ctx,
		ended: stop,
	}
	a := &autoscaler{
		gateways: of,
		scaler:   scaler,
		actuator: workers,
		reporter: reporter{config: p.scale.Config, target: "processes"},
		memory:   scalerMemory{path: cmp.Or(p.scale.memory, filepath.Join(p.dir, "scaler.json"))},
	}
	a.memory.recall(scaler, out)
	parts.Go(func() {
		a.run(ctx)
		workers.all.Wait()
	})
	fmt.Fprintf(out, "Starting a gateway on http://%s and %d to %d workers; logs are in %s\n", p.addr, p.scale.Min,
		p.scale.Max, p.dir)
	return p.watch(ctx, out, a.String)
}

// workerArgs returns the arguments of a worker that listens on an address.
func (p *upPlan) workerArgs(name, address string) []string {
	return append([]string{"worker", "--addr", address, "--data", filepath.Join(p.dir, name)}, p.modelFlags()...)
}

// workerDevices returns the device of each worker: those that are named, or every GPU.
func workerDevices(named []string, gpus func() ([]string, error)) ([]string, error) {
	if len(named) == 1 && named[0] == "all" {
		return gpus()
	}
	for _, name := range named {
		if _, err := host.ParseDevice(name); err != nil {
			return nil, fmt.Errorf("--devices: %w: %w", err, cli.ErrUsage)
		}
	}
	return named, nil
}

// upAgain is how long a worker that ended stays away, for people to see it.
const upAgain = 5 * time.Second

// watch shows the fleet as soon as the gateway answers.
func (p *upPlan) watch(ctx context.Context, out io.Writer, news func() string) error {
	c, err := remote.New("http://" + p.addr)
	if err != nil {
		return err
	}
	for until := time.Now().Add(upMax); ; {
		workers, err := Standings(ctx, c)
		if err == nil && (len(workers) > 0 || p.scale.Max > 0 && p.scale.Min == 0) {
			break
		}
		if time.Now().After(until) {
			return fmt.Errorf("the gateway did not start within %v; see the logs in %s: %w", upMax, p.dir, err)
		}
		select {
		case <-ctx.Done():
			return whyEnded(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	try := fmt.Sprintf(
		"Chat with it on %s or with `parley chat --url http://%s`, or kill a worker mid-answer: kill -9 $(pgrep -f "+
			"'parley worker' | head -1)\n", remote.PageLink(c.Root, "/"), p.addr)
	if err := watchFleet(ctx, c, out, try, news); err != nil {
		return err
	}
	return whyEnded(ctx)
}

// whyEnded is nil if people wanted it.
func whyEnded(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, supervise.ErrEnded) {
		return cause
	}
	return nil
}

// upMax is how long a fleet may take to start.
const upMax = 2 * time.Minute

func (p *upPlan) modelFlags() (flags []string) {
	for _, m := range p.models {
		flags = append(flags, "--model", m)
	}
	return flags
}
