package simulate

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/sim"
)

// ErrDear says that a scaler misses objectives, or costs more than it may.
var ErrDear = errors.New("the scaler is not as good as it must be")

// ErrSlow says that a simulation took longer than it may.
var ErrSlow = errors.New("the simulation is not as fast as it must be")

func newScale() *cobra.Command {
	var bars sim.Bars
	var within time.Duration
	var asJSON bool
	by := sim.Whole
	cmd := &cobra.Command{
		Use:   "scale FILE",
		Short: "Judge the scaler of a scenario against others",
		Long: `Run a scenario whose pool is scaled in several ways: by the scaler, by the scaler with parts
switched off, by a clairvoyant scaler that knows the future, and with the workers of the peak
running all the time. The command fails if too few requests meet the objectives, or if the
cost is too high compared with the last two.

The clairvoyant scaler starts workers just in time for a fixed number of requests per second
for each worker: the cheapest number with which 99 % of the requests meet the objectives.

If a scenario is too large, --share, --pace and --count simulate parts of it, as parley sim
shard does. Costs and workers are extrapolated to the whole scenario, with an error. A bar is
met only if every value within the error meets it.`,
		Example: "  parley sim scale examples/sim/chat-day.yaml\n" +
			"  parley sim scale examples/sim/consumer-day.yaml --share 0.001 --pace 3 --count 4",
		Args: cli.Exactly(1, "the file of a scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := open(args[0])
			if err != nil {
				return err
			}
			begun := time.Now()
			a, err := sim.Ablate(s, by, sideBySide())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				err = cli.PrintJSON(cmd.OutOrStdout(), a)
			} else {
				printAblations(cmd.OutOrStdout(), a)
				if by != sim.Whole {
					printErrors(cmd.OutOrStdout(), a)
				}
			}
			took := time.Since(begun).Round(time.Second)
			fmt.Fprintf(cmd.ErrOrStderr(), "took %v\n", took)
			if !a.Met(bars) {
				err = errors.Join(err, fmt.Errorf("%w: want %.1f %% within objectives, and at most %g times the bill "+
					"of the clairvoyant and %g times that of the peak", ErrDear, 100*bars.Attained, bars.Clairvoyant,
					bars.Peak))
			}
			if within > 0 && took > within {
				err = errors.Join(err, fmt.Errorf("%w: it took %v, and may take %v", ErrSlow, took, within))
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&within, "within", 0, "fail if it takes longer than this `TIME`; 0 means no limit")
	cmd.Flags().Float64Var(&bars.Attained, "attained", 0.99, "require this `SHARE` of requests to meet the objectives")
	cmd.Flags().Float64Var(&bars.Clairvoyant, "clairvoyant", 1.15,
		"allow at most `TIMES` the cost of the clairvoyant scaler")
	cmd.Flags().Float64Var(&bars.Peak, "peak", 0.5,
		"allow at most `TIMES` the cost of running the workers of the peak all the time")
	cmd.Flags().Float64Var(&by.Share, "share", by.Share, "simulate this `SHARE` of users and workers")
	cmd.Flags().Float64Var(&by.Pace, "pace", by.Pace, "let days pass `TIMES` as fast")
	cmd.Flags().IntVar(&by.Count, "count", by.Count,
		"simulate `N` parts of each kind, at least 2 with --share or --pace")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// sideBySide returns a runner that does as many things at a time as there are processors.
func sideBySide() sim.Runner {
	width := runtime.GOMAXPROCS(0)
	return sim.Runner{Width: width, Each: func(n int, do func(i int)) {
		var all sync.WaitGroup
		var begun atomic.Int64
		for range min(n, width) {
			all.Go(func() {
				for i := begun.Add(1) - 1; i < int64(n); i = begun.Add(1) - 1 {
					do(int(i))
				}
			})
		}
		all.Wait()
	}}
}

func printAblations(w io.Writer, a *sim.Ablations) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "scaler\twithin objectives\treplicas\tcost\tof clairvoyant\tof peak\t")
	for _, row := range append(append([]sim.Ablation{a.Scaler}, a.Parts...), a.Clairvoyant, a.Peak) {
		fmt.Fprintf(table, "%s\t%.2f %%\t%.1f\t$%.2f\t%.2f\t%.2f\t\n", row.Name, 100*row.Attainment, row.Replicas,
			row.Dollars, row.Dollars/a.Clairvoyant.Dollars, row.Dollars/a.Peak.Dollars)
	}
	table.Flush()
}

// printErrors writes the errors of what is judged.
func printErrors(w io.Writer, a *sim.Ablations) {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "as it is\tvalue\toff by\tby chance\tby size\tby pace\t")
	for _, e := range []sim.Estimate{a.Attained, a.Bill, a.Times, a.OfPeak} {
		fmt.Fprintf(table, "%s\t%.5g\t± %.3g\t%.3g\t%.3g\t%.3g\t\n", e.Name, e.Value, e.Off(), e.Chance, e.Size,
			e.Pace)
	}
	table.Flush()
}
