package fleetctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"parley"
	"parley/cli"
	"parley/cli/remote"
	"parley/fleet"
	"parley/fleet/scale"
)

// An autoscaler keeps the workers of gateways as many as a scaler wants. It sees the gateways
// through their metrics and lists of workers, and acts through an actuator.
type autoscaler struct {
	gateways *gateways
	scaler   *scale.Scaler
	actuator actuator
	role     parley.WorkerRole // the workers that it scales; all if empty
	readings readings
	reporter reporter
	memory   scalerMemory
	// said is the latest line about it: the goroutine that scales writes it for others.
	said atomic.Pointer[string]
	tell io.Writer // each line that differs from the one before; may be nil
}

// An actuator starts and ends workers.
type actuator interface {
	// observe takes in the workers that the gateway knows. It returns how many were started
	// and are not up yet, and how long a worker takes to be ready, 0 if that is not known.
	observe(ctx context.Context, workers []fleet.Standing, now time.Time) (starting int, ready time.Duration)
	// set brings the workers to the number that is wanted, or begins to.
	set(ctx context.Context, want scale.Sizing, workers []fleet.Standing, now time.Time) error
}

// scaleEvery is how often the scaler looks.
const scaleEvery = 2 * time.Second

// run scales until ctx ends. A gateway that does not answer is asked again.
func (a *autoscaler) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		want, err := a.step(ctx, now)
		line := fmt.Sprintf("Workers wanted: %d, because %s.\n", want.Workers, want.Why)
		if other := a.standsBy(); other != "" {
			line = fmt.Sprintf("Standing by: %s scales %s.\n", other, a.reporter.target)
		}
		if a.standsBy() == "" {
			err = errors.Join(err, a.memory.save(ctx, a.scaler, now, false))
		}
		if err != nil {
			line = fmt.Sprintf("Scaling: %v\n", err)
		}
		if last := a.said.Swap(&line); a.tell != nil && (last == nil || *last != line) {
			fmt.Fprint(a.tell, now.Format(time.TimeOnly), " ", line)
		}
		select {
		case <-ctx.Done():
		case <-time.After(scaleEvery):
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remote.AskWait)
	defer cancel()
	if a.standsBy() != "" {
		return
	}
	err := errors.Join(a.reporter.end(ctx, a.gateways), a.memory.save(ctx, a.scaler, time.Now(), true))
	if err != nil && a.tell != nil {
		fmt.Fprintln(a.tell, err)
	}
}

// step looks once and acts, and returns what it wants.
func (a *autoscaler) step(ctx context.Context, now time.Time) (want scale.Sizing, err error) {
	ctx, cancel := context.WithTimeout(ctx, remote.AskWait)
	defer cancel()
	workers, err := a.gateways.look(ctx, &a.readings)
	if err != nil {
		return want, err
	}
	if a.readings.pool != "" {
		workers = slices.DeleteFunc(workers, func(w fleet.Standing) bool { return w.Pool != a.readings.pool })
	}
	part := scale.PoolPart{Name: a.role, DecodeKV: kvOf(ofRole(workers, parley.RoleDecode))}
	if a.role != "" {
		workers = ofRole(workers, a.role)
	}
	starting, ready := a.actuator.observe(ctx, workers, now)
	if ready > 0 {
		a.scaler.Ready(ready)
	}
	state := part.See(a.readings.state(workers, starting))
	a.reporter.see(&state, now)
	want = a.scaler.Plan(state, now)
	if !a.reporter.leads(now) {
		a.reporter.report(ctx, a.gateways, &state, want, ready, "", nil, now)
	}
	if !a.reporter.leads(now) {
		return want, nil
	}
	err = a.actuator.set(ctx, want, workers, now)
	a.reporter.report(ctx, a.gateways, &state, want, ready, a.standsBy(), err, now)
	return want, err
}

// targets adds the pool and the role to what is scaled, so that a gateway can tell the reports
// of several scalers apart.
func (a *autoscaler) targets(what string) {
	for _, part := range []string{a.readings.pool, string(a.role)} {
		if part != "" {
			what += " " + part
		}
	}
	a.reporter.target = what
}

// ofRole returns the workers of a role.
func ofRole(workers []fleet.Standing, role parley.WorkerRole) (out []fleet.Standing) {
	for i := range workers {
		if workers[i].Role == role {
			out = append(out, workers[i])
		}
	}
	return out
}

// kvOf returns the share of their memory that workers use, 0 if none is up.
func kvOf(workers []fleet.Standing) float64 {
	var used, capacity int
	for i := range workers {
		if w := &workers[i]; w.State == fleet.Up {
			used, capacity = used+w.UsedTokens, capacity+w.CapacityTokens
		}
	}
	return float64(used) / float64(max(1, capacity))
}

// standsBy returns which process scales, if it is another one.
func (a *autoscaler) standsBy() string {
	if p, ok := a.actuator.(*pods); ok {
		return p.standsBy()
	}
	return a.reporter.leader
}

// String says what is wanted and why, in one line.
func (a *autoscaler) String() string {
	if line := a.said.Load(); line != nil {
		return *line
	}
	return ""
}

// scaleFlags are what the commands that scale have in common.
type scaleFlags struct {
	scale.Config
	memory string
}

func (f *scaleFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.Min, "min", 1, "keep at least `N` workers; 0 stops all of them when there are no requests")
	flags.IntVar(&f.Max, "max", 0, "scale with the load, to at most `N` workers")
	flags.DurationVar(&f.Wait, "wait", 500*time.Millisecond, "let requests wait at most `DURATION` in the queue")
	flags.DurationVar(&f.Steady, "steady", 5*time.Minute, "stop a worker when fewer were enough for `DURATION`")
	flags.DurationVar(&f.Idle, "idle", 10*time.Minute,
		"with --min 0, stop all workers after `DURATION` without requests")
	flags.DurationVar(&f.Day, "day", 24*time.Hour, "expect the load to repeat itself after `DURATION`")
	flags.StringVar(&f.memory, "memory", "",
		"store the learned load by time of day and week in `FILE`, for the next start")
	flags.Float64Var(&f.Price, "price", 0, "price of a worker per hour, an `AMOUNT`")
	flags.Float64Var(&f.Budget, "budget", 0, "limit the price of all workers per hour to `AMOUNT`")
}

func (f *scaleFlags) scaler() (*scale.Scaler, error) {
	s, err := scale.New(f.Config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, cli.ErrUsage)
	}
	return s, nil
}
