package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
	"parley/sim"
	"parley/sim/cost"
)

// ErrUntrue says that a simulation is further from a real run than it may be.
var ErrUntrue = errors.New("the simulation is not as near to the real run as it must be")

// Bars are how far a simulation may be from a real run: relative, but for that of hits,
// which is a difference of shares.
type bars struct{ ttft, tpot, hits, throughput float64 }

func newTruth() *cobra.Command {
	most := bars{}
	var logs []string
	var seeds int
	cmd := &cobra.Command{
		Use:   "truth FILE REPORT",
		Short: "Compare a scenario with a real run of the same load",
		Long: `Run a scenario and compare it with the report of a real run (parley bench --out): time to
the first token, time per output token, prompt tokens found in a cache, and output tokens
per second. It fails if one differs by more than its tolerance. The scenario must replay
the trace that the real run had, on workers whose passes were measured (parley bench
calibrate --log). Its numbers are means over several seeds.

With --log it names the cause of a difference: the cost model, if the forward passes in the logs
of the real run took longer or shorter than predicted, otherwise the simulation around them.`,
		Example: `  parley sim truth scenario.yaml real.json
  parley sim truth scenario.yaml real.json --log worker-1.log,worker-2.log`,
		Args: cli.Exactly(2, "the file of a scenario and the report of a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if seeds < 1 || seeds > 1000 {
				return fmt.Errorf("--seeds is %d: it must be 1 to 1000: %w", seeds, cli.ErrUsage)
			}
			s, err := open(args[0])
			if err != nil {
				return err
			}
			measured, err := openReport(args[1])
			if err != nil {
				return err
			}
			simulated, err := meanOf(s, seeds)
			if err != nil {
				return err
			}
			rows := compareTruth(simulated, measured, most)
			printTruth(cmd.OutOrStdout(), rows, measured)
			far := slices.ContainsFunc(rows, func(row truthRow) bool { return !row.holds() })
			if len(logs) > 0 {
				passes, err := passesOf(logs)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), blame(s.Pools[0].Cost, passes, far, most.tpot))
			}
			if far {
				return ErrUntrue
			}
			return nil
		},
	}
	cmd.Flags().Float64Var(&most.ttft, "ttft", 0.15, "let TTFT p50 and p95 be off by `SHARE`")
	cmd.Flags().Float64Var(&most.tpot, "tpot", 0.10, "let TPOT p50 and p95 be off by `SHARE`")
	cmd.Flags().Float64Var(&most.hits, "hits", 0.02, "let the share of cached prompt tokens differ by `SHARE`")
	cmd.Flags().Float64Var(&most.throughput, "throughput", 0.05, "let output tokens per second be off by `SHARE`")
	cmd.Flags().IntVar(&seeds, "seeds", 5, "run the scenario with `N` seeds")
	cmd.Flags().StringSliceVar(&logs, "log", nil, "compare the cost with the passes in the logs `FILES` of workers")
	return cmd
}

// meanOf runs a scenario with several seeds, and returns the means of what is compared.
func meanOf(s *sim.Scenario, seeds int) (*sim.Figures, error) {
	var mean sim.Figures
	n := float64(seeds)
	for range seeds {
		r, err := sim.Run(s)
		if err != nil {
			return nil, err
		}
		of := &r.Total
		for _, row := range [][2]*float64{
			{&mean.TTFT.P50, &of.TTFT.P50}, {&mean.TTFT.P95, &of.TTFT.P95}, {&mean.TPOT.P50, &of.TPOT.P50},
			{&mean.TPOT.P95, &of.TPOT.P95}, {&mean.HitRate, &of.HitRate}, {&mean.Throughput, &of.Throughput},
		} {
			*row[0] += *row[1] / n
		}
		s.Seed++
	}
	return &mean, nil
}

// passesOf reads the passes in the logs of workers.
func passesOf(paths []string) (all []cost.Sample, err error) {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, cost.ReadLog(text)...)
	}
	return all, nil
}

// blame says whether the cost of passes or what is around them makes a simulation differ.
func blame(model *cost.Model, passes []cost.Sample, far bool, most float64) string {
	if model == nil || len(passes) == 0 {
		return fmt.Sprintf("%d passes are in the logs, and the first pool has a calibration: %t; both are needed to "+
			"say how true the cost of passes is.", len(passes), model != nil)
	}
	off := model.ErrorOn(passes)
	said := fmt.Sprintf("Of %d real passes half are off the cost by less than %.1f %%, 95 %% by less than %.1f %%; "+
		"together by %+.1f %%.", off.Passes, 100*off.Median, 100*off.P95, 100*off.Total)
	switch {
	case math.Abs(off.Total) > most || off.Median > 2*most:
		return said + " The cost is not that of the real run: calibrate again, on a machine that does nothing else."
	case far:
		return said + " The cost holds, so what differs is around the passes."
	}
	return said
}

// openReport reads the report of a real run that is worth comparing with.
func openReport(path string) (*load.Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r load.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case r.Schema != load.Schema:
		return nil, fmt.Errorf("%s has schema %q: want %q, as parley bench --out writes it", path, r.Schema,
			load.Schema)
	case r.Requests.Completed == 0 || r.Tokens.Prompt == 0:
		return nil, fmt.Errorf("%s has %d completed requests with %d prompt tokens: there is nothing to compare", path,
			r.Requests.Completed, r.Tokens.Prompt)
	case r.Interrupted:
		return nil, fmt.Errorf("%s is of a run that was interrupted", path)
	}
	return &r, nil
}

// A truthRow is one number of both runs.
type truthRow struct {
	name                string
	unit                string
	measured, simulated float64
	// off is how far the simulation is from the real run, most how far it may be.
	off, most float64
}

func (r *truthRow) holds() bool { return math.Abs(r.off) <= r.most }

// compareTruth returns what is compared, all times in milliseconds and shares in percent.
func compareTruth(s *sim.Figures, r *load.Report, most bars) []truthRow {
	relative := func(name, unit string, measured, simulated, most float64) truthRow {
		off := math.Inf(1)
		if measured > 0 {
			off = simulated/measured - 1
		}
		return truthRow{
			name:      name,
			unit:      unit,
			measured:  measured,
			simulated: simulated,
			off:       off,
			most:      most,
		}
	}
	ms := func(m load.Millis) float64 { return float64(m) / 1e6 }
	hits := truthRow{
		name:      "cached share of prompts",
		unit:      "%",
		measured:  100 * float64(r.Tokens.Cached) / float64(r.Tokens.Prompt),
		simulated: 100 * s.HitRate,
		most:      most.hits,
	}
	hits.off = (hits.simulated - hits.measured) / 100
	return []truthRow{
		relative("TTFT p50", "ms", ms(r.Latency.TTFT.P50), 1e3*s.TTFT.P50, most.ttft),
		relative("TTFT p95", "ms", ms(r.Latency.TTFT.P95), 1e3*s.TTFT.P95, most.ttft),
		relative("TPOT p50", "ms", ms(r.Latency.TPOT.P50), 1e3*s.TPOT.P50, most.tpot),
		relative("TPOT p95", "ms", ms(r.Latency.TPOT.P95), 1e3*s.TPOT.P95, most.tpot),
		hits,
		relative("output tokens", "/s", r.Throughput.OutputTokens, s.Throughput, most.throughput),
	}
}

func printTruth(w io.Writer, rows []truthRow, r *load.Report) {
	fmt.Fprintf(w, "%d requests completed for real in %.0f s; %d rejected, %d failed.\n", r.Requests.Completed,
		float64(r.Elapsed)/1e9, r.Requests.Rejected, r.Requests.Failed)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\treal\tsimulated\toff by\tat most\t\t")
	for _, row := range rows {
		verdict := "ok"
		if !row.holds() {
			verdict = "TOO FAR"
		}
		unit := " %"
		if row.unit == "%" {
			unit = " points"
		}
		fmt.Fprintf(table, "%s\t%.2f %s\t%.2f %s\t%+.1f%s\t%.0f%s\t%s\t\n", row.name, row.measured, row.unit,
			row.simulated, row.unit, 100*row.off, unit, 100*row.most, unit, verdict)
	}
	table.Flush()
}
