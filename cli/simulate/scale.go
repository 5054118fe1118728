package simulate

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
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
		Long: `Run a scenario whose pool is scaled: with the scaler as it is, with parts of it switched off,
with one that knows the future, and with as many workers as the peak needs, all the time. It fails
if too few requests are within the objectives, or the cost is too high compared with the last two.

The scaler that knows the future is the cheapest that has 99 % within the objectives, of those that keep
a fixed number of requests per second for each worker, and start workers just in time.

If a scenario is too large, --share, --pace and --count simulate parts of it, as parley sim shard does. Costs
and workers are scaled up to the whole scenario, with the errors of the scaler's figures. A bar is met only if
every value within the error of its figure meets it.`,
		Example: "  parley sim scale examples/sim/chat-day.yaml\n" +
			"  parley sim scale examples/sim/consumer-day.yaml --share 0.001 --pace 3 --count 4",
		Args: cli.Exactly(1, "the file of a scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := open(args[0])
			if err != nil {
				return err
			}
			begun := time.Now()
			a, err := sim.Ablate(s, by, sideBySide)
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
	cmd.Flags().DurationVar(&within, "within", 0, "fail if it takes longer than this `TIME`; 0 lets it")
	cmd.Flags().Float64Var(&bars.Attained, "attained", 0.99, "want this `SHARE` of requests within the objectives")
	cmd.Flags().Float64Var(&bars.Clairvoyant, "clairvoyant", 1.15,
		"pay at most `TIMES` what the clairvoyant scaler does")
	cmd.Flags().Float64Var(&bars.Peak, "peak", 0.5,
		"pay at most `TIMES` what the workers of the peak cost all the time")
	cmd.Flags().Float64Var(&by.Share, "share", by.Share, "simulate this `SHARE` of users and workers")
	cmd.Flags().Float64Var(&by.Pace, "pace", by.Pace, "let days pass `TIMES` as fast")
	cmd.Flags().IntVar(&by.Count, "count", by.Count,
		"simulate `N` parts of each kind, at least 2 with --share or --pace")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// sideBySide does n things, as many at a time as there are processors.
func sideBySide(n int, do func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			do(i)
		})
	}
	all.Wait()
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
