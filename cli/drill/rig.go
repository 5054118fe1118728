package drill

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"parley/cli/remote"
	"parley/internal/supervise"
)

// A drillPlan is what a drill is practised on.
type drillPlan struct {
	addr    string // of the gateway; empty for a free one
	workers int
	pause   time.Duration // before and after the failure
}

// A drillRig is a gateway to be harmed, its workers, and what is measured.
type drillRig struct {
	*remote.Client
	report  DrillReport
	pause   time.Duration
	workers []*drillWorker
	key     string // of the workers
}

// A drillWorker is a worker of a drill's own.
type drillWorker struct {
	process *exec.Cmd
	client  *remote.Client
	// killed is set by a drill that wants it dead.
	killed bool
}

// practise runs a drill on a fleet of its own.
func (d *drill) practise(ctx context.Context, plan drillPlan) (report *DrillReport, err error) {
	dir, err := os.MkdirTemp("", "parley-drill-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	address := plan.addr
	if address == "" {
		if address, err = supervise.FreeAddress(); err != nil {
			return nil, err
		}
	}
	c, err := remote.New("http://" + address)
	if err != nil {
		return nil, err
	}
	rig := &drillRig{Client: c, pause: plan.pause, key: rand.Text(),
		report: DrillReport{Drill: d.Name, Workers: plan.workers, Held: true}}
	front := append([]string{"serve", "--addr", address, "--data", filepath.Join(dir, "gateway"), "--model", "polly",
		"--log-level", "error"}, d.flags...)
	if plan.workers == 0 {
		front = append(front, d.engine...)
	}
	defer rig.stopWorkers()
	for i := range plan.workers {
		place, err := rig.startWorker(ctx, filepath.Join(dir, fmt.Sprint("worker-", i+1)), d.engine)
		if err != nil {
			return nil, err
		}
		front = append(front, "--worker", "http://"+place)
	}
	var log bytes.Buffer
	server, err := startSelf(ctx, &log, rig.key, front)
	if err != nil {
		return nil, err
	}
	err = rig.awaitReady(ctx)
	if err == nil {
		err = d.run(ctx, rig)
	}
	_ = server.Process.Signal(os.Interrupt)
	if ended := server.Wait(); ended != nil && ctx.Err() == nil {
		rig.check(false, fmt.Sprintf("the server exits cleanly (%v: %s)", ended, lastLine(log.String())))
	}
	return &rig.report, err
}

// startSelf runs this program again, with the key of the workers. It is interrupted when
// ctx ends.
func startSelf(ctx context.Context, log *bytes.Buffer, key string, args []string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, exe, args...)
	c.Env, c.Stderr = supervise.WithSecret("PARLEY_WORKER_KEY", key), log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	return c, c.Start()
}

// startWorker starts a worker, and returns where it listens.
func (r *drillRig) startWorker(ctx context.Context, dir string, flags []string) (string, error) {
	address, err := supervise.FreeAddress()
	if err != nil {
		return "", err
	}
	c, err := remote.New("http://" + address)
	if err != nil {
		return "", err
	}
	process, err := startSelf(ctx, &bytes.Buffer{}, r.key, append([]string{"worker", "--addr", address, "--data", dir,
		"--model", "polly", "--log-level", "error"}, flags...))
	if err != nil {
		return "", err
	}
	r.workers = append(r.workers, &drillWorker{process: process, client: c})
	return address, nil
}

// kill ends a worker as a crash does.
func (r *drillRig) kill(i int) {
	r.workers[i].killed = true
	_ = r.workers[i].process.Process.Kill() // it may be dead
}

func (r *drillRig) stopWorkers() {
	for _, w := range r.workers {
		if !w.killed {
			_ = w.process.Process.Signal(os.Interrupt) // it may have ended
		}
		_ = w.process.Wait() // how it ended is of no interest any more
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// awaitReady waits until the gateway answers and has all its workers.
func (r *drillRig) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := r.Get(ctx, "/readyz"); err == nil && r.up(ctx) >= len(r.workers) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the fleet for the drill was not ready within a minute")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// up counts the workers that the gateway sends work to.
func (r *drillRig) up(ctx context.Context) (n int) {
	now, err := remote.Picture(ctx, r.Client)
	if err != nil {
		return 0
	}
	for i := range now.Workers {
		if now.Workers[i].State == "up" {
			n++
		}
	}
	return n
}

// counted adds up a counter of the gateway and of its workers.
func (r *drillRig) counted(ctx context.Context, name string) (sum float64, err error) {
	all := []*remote.Client{r.Client}
	for _, w := range r.workers {
		if !w.killed {
			all = append(all, w.client)
		}
	}
	for _, c := range all {
		text, err := c.Get(ctx, "/metrics")
		if err != nil {
			return 0, err
		}
		for _, m := range remote.ParseMetrics(text) {
			if m.Name == name {
				sum += m.Value
			}
		}
	}
	return sum, nil
}
