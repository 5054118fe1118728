package fleetctl

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parley/cli"
	"parley/cli/remote"
	"parley/fleet"
	"parley/fleet/kube"
	"parley/fleet/scale"
)

// Pods are workers that Kubernetes starts and ends. Several processes may look after the same
// ones: the one that holds the lease acts. Workers are called as their pods are, as the
// gateway does that finds them by a service.
type pods struct {
	target  kube.Target
	cluster *kube.Cluster
	lease   *kube.Lease
	order   func(ctx context.Context, worker, verb string) error
	clock   func() time.Time // nothing is asked for after the end of the lease

	seen    kube.Scale
	holder  string               // of the lease, "" if it is not known
	leaving map[string]time.Time // since when a pod is drained
	since   time.Time            // when there should be more
	ready   time.Duration        // that it took until there were
}

// observe measures how long it takes until as many workers are up as were asked for.
func (p *pods) observe(_ context.Context, workers []fleet.Standing, now time.Time) (int, time.Duration) {
	up := 0
	for _, w := range workers {
		if w.State == fleet.Up {
			up++
		}
	}
	if !p.since.IsZero() && up >= p.seen.Wanted {
		p.ready, p.since = now.Sub(p.since), time.Time{}
	}
	return max(0, p.seen.Wanted-up), p.ready
}

// set changes the replicas if this process holds the lease. Pods that are to leave are drained
// first, and end when they have no answer under way.
func (p *pods) set(ctx context.Context, want scale.Sizing, workers []fleet.Standing, now time.Time) (err error) {
	if p.seen, err = p.cluster.Scale(ctx, p.target); err != nil {
		return err
	}
	until, holder, err := p.lease.Hold(ctx, now)
	held := p.holder == p.lease.Identity
	if p.holder = holder; err != nil || !now.Before(until) {
		return errors.Join(err, p.forget(ctx, workers))
	}
	if !held {
		p.adopt(workers, now)
	}
	ctx, cancel := context.WithTimeout(ctx, until.Sub(p.clock()))
	defer cancel()
	victims := p.victims(workers, p.seen.Wanted-want.Workers)
	for pod := range p.leaving {
		if !slices.ContainsFunc(victims, func(w fleet.Standing) bool { return w.Name == pod }) {
			if err := p.stay(ctx, pod, workers); err != nil {
				return err
			}
		}
	}
	idle, err := p.drain(ctx, victims, now)
	if err != nil || want.Workers == p.seen.Wanted || !idle {
		return err
	}
	if err := p.cluster.SetReplicas(ctx, p.target, p.seen, want.Workers); err != nil {
		return err
	}
	if want.Workers > p.seen.Wanted {
		p.since = now
	}
	p.seen.Wanted = want.Workers
	clear(p.leaving)
	return nil
}

// victims returns the n workers that leave: those with the highest numbers where pods have
// numbers, else those that leave already and then those with the fewest answers.
func (p *pods) victims(workers []fleet.Standing, n int) []fleet.Standing {
	if n <= 0 {
		return nil
	}
	var own []fleet.Standing
	for _, w := range workers {
		name, found := strings.CutPrefix(w.Name, p.target.Name+"-")
		number, err := strconv.Atoi(name)
		if found && !p.target.Numbered() || err == nil && number >= p.seen.Wanted-n {
			own = append(own, w)
		}
	}
	if p.target.Numbered() {
		return own
	}
	slices.SortStableFunc(own, func(a, b fleet.Standing) int {
		_, left := p.leaving[a.Name]
		_, right := p.leaving[b.Name]
		if left != right {
			return map[bool]int{true: -1, false: 1}[left]
		}
		return a.Answering - b.Answering
	})
	return own[:min(n, len(own))]
}

// drain has workers take no more requests, and reports whether all are idle or had time
// enough: what they then still answer continues on others.
func (p *pods) drain(ctx context.Context, victims []fleet.Standing, now time.Time) (idle bool, err error) {
	idle = true
	for _, w := range victims {
		since, leaves := p.leaving[w.Name]
		if !leaves {
			since = now
			if !p.target.Numbered() {
				if err := p.cluster.EndFirst(ctx, w.Name, true); err != nil {
					return false, err
				}
			}
			if err := p.order(ctx, w.Name, "drain?within="+drainWithin.String()); err != nil {
				return false, err
			}
			p.leaving[w.Name] = now
		}
		// The state of one that is drained now is from before.
		idle = idle && leaves && (w.Answering+w.Running+w.Waiting == 0 || now.Sub(since) > 2*drainWithin)
	}
	return idle, nil
}

// stay takes back that a pod leaves.
func (p *pods) stay(ctx context.Context, pod string, workers []fleet.Standing) error {
	if slices.ContainsFunc(workers, func(w fleet.Standing) bool { return w.Name == pod }) {
		if err := p.order(ctx, pod, "resume"); err != nil {
			return err
		}
		if !p.target.Numbered() {
			if err := p.cluster.EndFirst(ctx, pod, false); err != nil {
				return err
			}
		}
	}
	delete(p.leaving, pod)
	return nil
}

// adopt takes over the workers that another process, which ended, has drained.
func (p *pods) adopt(workers []fleet.Standing, now time.Time) {
	for _, w := range workers {
		if strings.HasPrefix(w.Name, p.target.Name+"-") && w.State == fleet.Draining {
			p.leaving[w.Name] = now
		}
	}
}

// forget lets workers that were to leave work on: another process decides about them now.
func (p *pods) forget(ctx context.Context, workers []fleet.Standing) (err error) {
	for pod := range p.leaving {
		if slices.ContainsFunc(workers, func(w fleet.Standing) bool { return w.Name == pod }) {
			err = errors.Join(err, p.order(ctx, pod, "resume"))
		}
	}
	clear(p.leaving)
	return err
}

// release gives the lease back. What waits for it would otherwise wait until its end.
func (p *pods) release() {
	ctx, cancel := context.WithTimeout(context.Background(), remote.AskWait)
	defer cancel()
	_ = p.lease.Release(ctx) // it ends by itself
}

// standsBy returns which process scales, "" if that is this one or not known.
func (p *pods) standsBy() string {
	if p.holder == p.lease.Identity {
		return ""
	}
	return p.holder
}

// podFlags say what Kubernetes scales.
type podFlags struct {
	target, namespace, config string
}

func (f *podFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "kubernetes", "",
		"change the replicas of `KIND/NAME`: a deployment, statefulset or leaderworkerset")
	flags.StringVar(&f.namespace, "namespace", "", "look for it in this `NAMESPACE` (default: the pod's own)")
	flags.StringVar(&f.config, "kubeconfig", "",
		"use the kubeconfig `FILE` (default: the pod's service account, $KUBECONFIG, ~/.kube/config)")
}

// leaseLasts is how long another process waits for the one that scales.
const leaseLasts = 15 * time.Second

// pods returns the actuator.
func (f *podFlags) pods(order func(ctx context.Context, worker, verb string) error) (*pods, error) {
	target, err := kube.ParseTarget(f.target)
	if err != nil {
		return nil, fmt.Errorf("--kubernetes: %w: %w", err, cli.ErrUsage)
	}
	cluster, err := f.cluster()
	if err != nil {
		return nil, err
	}
	cluster.Namespace = cmp.Or(f.namespace, cluster.Namespace)
	if cluster.Namespace == "" {
		return nil, fmt.Errorf("the namespace of %v is not known: set --namespace: %w", target, cli.ErrUsage)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return &pods{
		target:  target,
		cluster: cluster,
		order:   order,
		clock:   time.Now,
		leaving: map[string]time.Time{},
		lease: &kube.Lease{
			Cluster:  cluster,
			Name:     "parley-scale-" + target.Kind + "-" + target.Name,
			Identity: host + "_" + rand.Text(),
			Duration: leaseLasts,
		},
	}, nil
}

// cluster finds the cluster: that of the flag, of the pod, or of kubectl.
func (f *podFlags) cluster() (*kube.Cluster, error) {
	if f.config != "" {
		return kube.Load(f.config)
	}
	cluster, err := kube.InPod()
	if !errors.Is(err, kube.ErrNotInPod) {
		return cluster, err
	}
	if file := os.Getenv("KUBECONFIG"); file != "" {
		return kube.Load(file)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	return kube.Load(filepath.Join(home, ".kube", "config"))
}
