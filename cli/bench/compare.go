package bench

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
)

func newBenchCompare() *cobra.Command {
	var asJSON bool
	var seed uint64
	cmd := &cobra.Command{
		Use:   "compare A.json B.json",
		Short: "Compare two runs, with confidence intervals",
		Long: `Compare two reports that parley bench --out wrote. For each number it prints A, B,
B over A, and the interval in which that ratio would lie in 95 of 100 repetitions
of both runs (bootstrap over requests, and over slices of time for rates). If the
interval contains 1, the runs show no clear difference. Percentiles with fewer
than five requests beyond them are left out: p90 takes 50 requests, p99 takes 500.

A single run cannot show what changes between runs, such as a warm cache or a busy
machine. Measure A, B, A, B to see that.`,
		Example: "  parley bench compare before.json after.json",
		Args:    cli.Exactly(2, "two reports, as parley bench --out writes them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := OpenReport(args[0])
			if err != nil {
				return err
			}
			b, err := OpenReport(args[1])
			if err != nil {
				return err
			}
			changes := load.Compare(a, b, seed)
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), judged(changes))
			}
			printComparison(cmd.OutOrStdout(), args, a, b, changes)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed the bootstrap with `NUMBER`")
	return cmd
}

// OpenReport reads a report that bench stored.
func OpenReport(path string) (*load.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := load.ReadReport(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// A judgedChange is a change with what it means, for JSON.
type judgedChange struct {
	load.Change
	Verdict load.Significance `json:"verdict"`
}

func judged(changes []load.Change) (out []judgedChange) {
	for _, c := range changes {
		out = append(out, judgedChange{c, c.Verdict()})
	}
	return out
}

func printComparison(out io.Writer, paths []string, a, b *load.Report, changes []load.Change) {
	for i, r := range []*load.Report{a, b} {
		fmt.Fprintf(out, "%c  %s: %s, %s\n   %s\n", 'A'+i, paths[i], r.Target.Model, loadText(&r.Load),
			outcomeText(&r.Requests))
	}
	if !a.Load.Same(b.Load) || a.Target.Send != b.Target.Send {
		fmt.Fprintln(out, "note: the runs had different loads")
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tA\tB\tunit\tB/A\t95% interval\tB is\t")
	for _, c := range changes {
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%s\t%.3f\t%.3f - %.3f\t%s\t\n", c.Metric, c.A, c.B, c.Unit, c.Ratio, c.Low,
			c.High, c.Verdict())
	}
	w.Flush()
}
