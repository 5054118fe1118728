package simulate

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/sim"
)

func newShard() *cobra.Command {
	var p sim.Shard
	var count int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "shard FILE",
		Short: "Simulate a part of a large scenario, and state the error",
		Long: `Simulate parts of a scenario that is too large to simulate whole: fleets with --share of its
users and workers, on days that pass --pace times as fast. Each part is simulated exactly. It
prints an estimate for the whole with its error: the sampling error (95 %, from parts with
different seeds), the error due to the size of the parts (the change with parts of half the
size), the error due to their pace (the change at twice the pace), and all three combined (the
root of the sum of their squares).`,
		Example: "  parley sim shard examples/sim/consumer-day.yaml --share 0.004 --pace 8",
		Args:    cli.Exactly(1, "the file of a scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.Validate(); err != nil {
				return errors.Join(err, cli.ErrUsage)
			}
			s, err := open(args[0])
			if err != nil {
				return err
			}
			begun := time.Now()
			rows, err := sim.Estimated(s, sim.Sampling{Shard: p, Count: count}, sideBySide())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), rows)
			}
			printEstimates(cmd.OutOrStdout(), rows)
			explainErrors(cmd.OutOrStdout(), p, count)
			fmt.Fprintf(cmd.ErrOrStderr(), "%d runs took %v\n", 3*count, time.Since(begun).Round(time.Second))
			return nil
		},
	}
	cmd.Flags().Float64Var(&p.Share, "share", 0.004, "simulate this `SHARE` of users and workers")
	cmd.Flags().Float64Var(&p.Pace, "pace", 8, "let days pass `TIMES` as fast")
	cmd.Flags().IntVar(&count, "count", 3, "simulate `N` parts of each kind")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// explainErrors says how the errors of the table are computed, and why they reach from the parts to
// the whole.
func explainErrors(w io.Writer, p sim.Shard, count int) {
	fmt.Fprintf(w, `
value      the mean of %d parts of %.3g of the fleet at a pace of %.3g, scaled up to the whole
by chance  half of the 95 %% interval of that mean: Student's t times the deviation of the parts / √%d
by size    the change with %d parts of half the size: an error that is inversely proportional to the
           size of a fleet is as large again between the parts and the whole
by pace    the change with %d parts at twice the pace: an error that is proportional to the pace is
           smaller than that between the parts and a day of its own length
off by     the root of the sum of the squares of the three
`, count, p.Share, p.Pace, count, count, count)
}

func printEstimates(w io.Writer, rows []sim.Estimate) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tvalue\toff by\tby chance\tby size\tby pace\t")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%.5g\t± %.3g\t%.3g\t%.3g\t%.3g\t\n", row.Name, row.Value, row.Off(), row.Chance,
			row.Size, row.Pace)
	}
	table.Flush()
}
