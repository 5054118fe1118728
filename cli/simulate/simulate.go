package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
	"parley/sim"
	"parley/sim/cost"
	"parley/sim/traffic"
)

// New returns the command `parley sim`.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate a fleet under load with the queue, router and scheduler of production",
		Long: `Simulate a fleet in virtual time. The queue, the router, the block index, the scheduler and
the block account are those that run in production; only the time of a forward pass
comes from a model: from the data sheet of a device, or from measurements of yours
(parley bench calibrate). Nothing is computed or sent, so an hour of many workers takes
seconds, and the same scenario and seed give the same result.

A scenario is a YAML file. examples/sim has scenarios for common questions.`,
		Example: `  parley sim run examples/sim/chatbot.yaml
  parley sim run examples/sim/retries.yaml --html report.html
  parley sim compare examples/sim/retries.yaml examples/sim/retries-unqueued.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newRun(), newCompare(), newTruth(), newScale(), newShard())
	return cmd
}

func newRun() *cobra.Command {
	var asJSON bool
	var html string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run one scenario and print the results",
		Long: `Run one scenario and print the results: latency, rejected requests, goodput under the
objectives, cache hits, memory, replicas, cost, and what the bottleneck was when.`,
		Example: "  parley sim run examples/sim/rack.yaml --html rack.html",
		Args:    cli.Exactly(1, "the file of a scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := open(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") {
				s.Seed = seed
			}
			r, err := sim.Run(s)
			if err != nil {
				return err
			}
			if html != "" {
				if err := writePage(cmd, html, r); err != nil {
					return err
				}
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), r)
			}
			printResult(cmd.OutOrStdout(), r)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().StringVar(&html, "html", "", "write a report with charts to `FILE`, which needs no server")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed the random numbers with `NUMBER` instead of the scenario's seed")
	return cmd
}

// open reads a scenario and the files that it names, which are relative to it.
func open(path string) (*sim.Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := sim.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	beside := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(path), name)
	}
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Calibration != "" {
			if p.Cost, err = openCost(beside(p.Calibration)); err != nil {
				return nil, err
			}
		}
	}
	for i := range s.Traffic {
		if err := openTraffic(&s.Traffic[i], beside); err != nil {
			return nil, err
		}
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// openTraffic reads the files that traffic names.
func openTraffic(t *sim.TrafficSpec, beside func(name string) string) error {
	if r := t.Replay; r != nil {
		rows, err := load.OpenTrace(beside(r.File), traffic.Format(r.Format), r.Limit)
		if err != nil {
			return err
		}
		r.Give(rows)
	}
	if f := t.RateFile; f != nil {
		rates, err := load.OpenRates(beside(f.File))
		if err != nil {
			return err
		}
		f.Give(rates)
	}
	return nil
}

// openCost reads what parley bench calibrate wrote.
func openCost(path string) (*cost.Model, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var m cost.Model
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &m, nil
}

// writePage writes the report as one file.
func writePage(cmd *cobra.Command, path string, r *sim.Result) error {
	err := cli.WriteWhole(cmd.Context(), path, func(w io.Writer) error { return drawPage(w, r) })
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s: open it in a browser\n", path)
	}
	return err
}
