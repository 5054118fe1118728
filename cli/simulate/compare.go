package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/stat"
	"parley/sim"
)

// A figure is a number that two scenarios are compared by.
type figure struct {
	Name string `json:"name"`
	of   func(r *sim.Result) float64
	// A and B are medians over the seeds.
	A float64 `json:"a"`
	B float64 `json:"b"`
	// Ratio is the median of B over A, seed by seed, and Low to High its interval.
	// All are 0 if a number is.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Coverage is how sure the interval is.
	Coverage float64 `json:"coverage"`
}

func figures() []figure {
	return []figure{
		{Name: "within objectives", of: func(r *sim.Result) float64 { return r.Total.Attainment }},
		{Name: "goodput, requests/s", of: func(r *sim.Result) float64 { return r.Total.Goodput }},
		{Name: "throughput, tokens/s", of: func(r *sim.Result) float64 { return r.Total.Throughput }},
		{Name: "TTFT p50, s", of: func(r *sim.Result) float64 { return r.Total.TTFT.P50 }},
		{Name: "TTFT p95, s", of: func(r *sim.Result) float64 { return r.Total.TTFT.P95 }},
		{Name: "TTFT p99, s", of: func(r *sim.Result) float64 { return r.Total.TTFT.P99 }},
		{Name: "TPOT p50, s", of: func(r *sim.Result) float64 { return r.Total.TPOT.P50 }},
		{Name: "TPOT p95, s", of: func(r *sim.Result) float64 { return r.Total.TPOT.P95 }},
		{Name: "gap p99, s", of: func(r *sim.Result) float64 { return r.Fleet.Gap.P99 }},
		{Name: "queue p95, s", of: func(r *sim.Result) float64 { return r.Total.Queue.P95 }},
		{Name: "rejected, given up", of: func(r *sim.Result) float64 {
			return float64(r.Total.Rejected + r.Total.HungUp)
		}},
		{Name: "prompt tokens cached", of: func(r *sim.Result) float64 { return r.Total.HitRate }},
		{Name: "KV memory in use", of: func(r *sim.Result) float64 { return r.Fleet.KV }},
		{Name: "replicas", of: func(r *sim.Result) float64 { return r.Fleet.Count }},
		{Name: "cost, $", of: func(r *sim.Result) float64 { return r.Fleet.Dollars }},
	}
}

func newCompare() *cobra.Command {
	var asJSON bool
	var seeds int
	cmd := &cobra.Command{
		Use:   "compare A.yaml B.yaml",
		Short: "Compare two scenarios over several seeds, with intervals",
		Long: `Run two scenarios with the same seeds and print for each number the medians of A and B,
the median of B over A, seed by seed, and the interval in which that median lies. If the
interval contains 1, the scenarios show no clear difference. A 95 % interval needs at
least seven seeds.`,
		Example: "  parley sim compare examples/sim/retries.yaml examples/sim/retries-unqueued.yaml",
		Args:    cli.Exactly(2, "the files of two scenarios"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if seeds < 1 || seeds > 1000 {
				return fmt.Errorf("--seeds is %d: it must be 1 to 1000: %w", seeds, cli.ErrUsage)
			}
			rows, err := compare(args[0], args[1], seeds)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), rows)
			}
			printFigures(cmd.OutOrStdout(), args, rows, seeds)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().IntVar(&seeds, "seeds", 7, "run each scenario with `N` seeds")
	return cmd
}

// compare runs two scenarios with the same seeds.
func compare(pathA, pathB string, seeds int) ([]figure, error) {
	rows := figures()
	a, b := make([][]float64, len(rows)), make([][]float64, len(rows))
	for seed := range seeds {
		for _, side := range []struct {
			path string
			to   [][]float64
		}{{pathA, a}, {pathB, b}} {
			s, err := open(side.path)
			if err != nil {
				return nil, err
			}
			s.Seed = uint64(seed + 1)
			r, err := sim.Run(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.path, err)
			}
			for i := range rows {
				side.to[i] = append(side.to[i], rows[i].of(r))
			}
		}
	}
	for i := range rows {
		rows[i].judge(a[i], b[i])
	}
	return rows, nil
}

func (f *figure) judge(a, b []float64) {
	f.A, f.B = stat.Median(a), stat.Median(b)
	ratios, err := stat.Ratios(b, a)
	if err != nil {
		return // nothing to divide by
	}
	interval := stat.MedianInterval(ratios, 0.95)
	f.Ratio, f.Low, f.High, f.Coverage = stat.Median(ratios), interval.Low, interval.High, interval.Coverage
}

func printFigures(out io.Writer, paths []string, rows []figure, seeds int) {
	fmt.Fprintf(out, "A is %s, B is %s; %d seeds.\n\n", paths[0], paths[1], seeds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tA\tB\tB/A\tinterval")
	for _, f := range rows {
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t", f.Name, f.A, f.B)
		switch {
		case f.Ratio == 0:
			fmt.Fprintln(w, "-")
		case f.Low <= 1 && f.High >= 1:
			fmt.Fprintf(w, "%.3f\t%.3f to %.3f\tno clear difference\n", f.Ratio, f.Low, f.High)
		default:
			fmt.Fprintf(w, "%.3f\t%.3f to %.3f\n", f.Ratio, f.Low, f.High)
		}
	}
	w.Flush()
	if len(rows) > 0 && rows[len(rows)-1].Coverage > 0 {
		fmt.Fprintf(out, "\nThe intervals hold the median with a probability of %.0f %%.\n",
			100*rows[len(rows)-1].Coverage)
	}
}
