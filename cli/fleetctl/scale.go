package fleetctl

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley"
	"parley/cli"
	"parley/cli/remote"
)

// processName names this process for people and for other machines.
func processName() string {
	host, err := os.Hostname()
	return fmt.Sprintf("process %d on %s", os.Getpid(), cmp.Or(host, fmt.Sprint(err)))
}

func newFleetScale() *cobra.Command {
	s := &remote.Command{}
	flags := &scaleFlags{}
	external := &externalActuator{asked: -1}
	inCluster := &podFlags{}
	var sleep, advise, all bool
	var role, pool string
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Let the load decide how many workers a server has",
		Long: `Watch a server and keep as many workers as its load needs. Every two seconds, the number is
computed from the request rate, the expected wait, the memory in use, the time of day and the
measured time that a worker takes to be ready, but not from the utilisation of devices.
Workers sleep and wake (--sleep), are started and stopped by Kubernetes (--kubernetes), or by
a program or service of yours:

  --command   runs with the number in PARLEY_WORKERS and the reason in PARLEY_REASON
  --webhook   gets {"workers": N, "why": TEXT, "expected_requests_per_second": RATE}

Both are called when the number changes, and again after a failure. With --kubernetes, run a
scaler next to each gateway: a lease in the namespace decides which one acts, and another takes
over if it fails. Elsewhere the first scaler acts, and another one stands by until the first has
ended or has been silent for 30 seconds. /admin and the metrics of the server show how many workers
are wanted and why. --advise only reports this, for an HPA or KEDA that reads the metrics.
To start and stop processes on this machine, use parley fleet up --max.` + fleetTokenHelp,
		Example: "  parley fleet scale --min 1 --max 6 --sleep\n" +
			"  parley fleet scale --max 8 --kubernetes deployment/vllm --namespace llm\n" +
			"  parley fleet scale --max 8 --command 'aws autoscaling set-desired-capacity --auto-scaling-group-name " +
			"w --desired-capacity $PARLEY_WORKERS'\n" +
			"  parley fleet scale --max 8 --webhook http://127.0.0.1:9000/scale",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.Max == 0 {
				return fmt.Errorf("--max is 0: it must be at least 1: %w", cli.ErrUsage)
			}
			if role := parley.WorkerRole(role); role != "" && role != parley.RolePrefill && role != parley.RoleDecode {
				return fmt.Errorf("--role is %s: want %s or %s: %w", role, parley.RolePrefill, parley.RoleDecode,
					cli.ErrUsage)
			}
			scaler, err := flags.scaler()
			if err != nil {
				return err
			}
			c, err := Client(s)
			if err != nil {
				return err
			}
			of := &gateways{client: c}
			if all {
				of.lookup = net.DefaultResolver.LookupHost
			}
			a := &autoscaler{
				gateways: of,
				scaler:   scaler,
				role:     parley.WorkerRole(role),
				readings: readings{pool: pool},
				reporter: reporter{config: flags.Config},
				memory:   scalerMemory{path: flags.memory},
			}
			a.memory.recall(scaler, cmd.ErrOrStderr())
			switch {
			case advise:
				a.actuator = advisor{}
				a.targets("advice")
			case sleep:
				a.actuator = &sleepers{order: of.order, woken: map[string]time.Time{}}
				a.targets("sleepers")
			case inCluster.target != "":
				pods, err := inCluster.pods(of.order)
				if err != nil {
					return err
				}
				a.actuator = pods
				a.targets(pods.target.String())
				defer pods.release()
			case external.webhook != "":
				a.actuator = external
				a.targets("webhook")
			default:
				a.actuator = external
				a.targets("command")
			}
			if inCluster.target == "" && !advise {
				a.reporter.scaler = processName()
			}
			if _, err := a.step(cmd.Context(), time.Now()); errors.Is(err, remote.ErrNoFleet) {
				return err
			}
			a.tell = cmd.OutOrStdout()
			a.run(cmd.Context())
			return nil
		},
	}
	s.Add(cmd)
	flags.add(cmd.Flags())
	cmd.Flags().StringVar(&role, "role", "",
		"scale the workers of `ROLE` alone, prefill or decode: run one scaler for each")
	cmd.Flags().StringVar(&pool, "pool", "",
		"scale the workers of the pool `NAME` alone, by its requests: run one scaler for each")
	cmd.Flags().BoolVar(&sleep, "sleep", false, "put workers to sleep and wake them")
	cmd.Flags().BoolVar(&advise, "advise", false,
		"change nothing: report how many workers are wanted, as metrics for another autoscaler")
	cmd.Flags().StringVar(&external.command, "command", "", "run `COMMAND` to change the number of workers")
	cmd.Flags().StringVar(&external.webhook, "webhook", "", "post to `URL` to change the number of workers")
	cmd.Flags().BoolVar(&all, "all-addresses", false,
		"look at the gateways at every address of the name in --url, as those of a headless service")
	inCluster.add(cmd.Flags())
	cmd.MarkFlagsOneRequired("sleep", "command", "webhook", "kubernetes", "advise")
	cmd.MarkFlagsMutuallyExclusive("sleep", "command", "webhook", "kubernetes", "advise")
	return cmd
}
