package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/bench/ablation"
	"parley/internal/load"
)

// mechanismFlags are what bench mechanisms can be told.
type mechanismFlags struct {
	only               []string
	quick, json        bool
	trace, chart, keep string
}

func newMechanisms() *cobra.Command {
	f := &mechanismFlags{}
	cmd := &cobra.Command{
		Use:   "mechanisms",
		Short: "Measure what each mechanism is worth: off and on, side by side",
		Long: `Measure what each mechanism of the engine is worth on this machine: the same engine
with the mechanism off and with it on, in turns, beside what was published of it.
No server is needed. The run takes some 8 minutes on two processors and needs 4 GB
of memory; leave the machine alone meanwhile.

Each result is the median over the rounds of how many times better the engine was
with the mechanism, and the interval in which the true median lies with the
probability printed beside it. Each mechanism has a floor; the exit code is 1 if one
is missed.

Mechanisms: ` + strings.Join(ablation.Names(), ", ") + `.`,
		Example: `  parley-bench mechanisms
  parley-bench mechanisms --only batching,draft
  parley-bench mechanisms --quick --json
  parley-bench mechanisms --only eviction --trace conversation_trace.jsonl.gz
  parley-bench mechanisms --keep bench/results --chart docs/mechanisms.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "measure only the mechanisms of these `NAMES`, separated by commas")
	flags.BoolVar(&f.quick, "quick", false, "make fewer and shorter rounds, about 2 minutes in all")
	flags.StringVar(&f.trace, "trace", "",
		"compare what is evicted on the requests recorded in this `FILE` of Mooncake's format (default: "+
			"conversations made up)")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON, with every round")
	flags.StringVar(&f.keep, "keep", "", "keep the report in this `DIRECTORY`, as text and as JSON under today's date")
	flags.StringVar(&f.chart, "chart", "", "draw the results into this `FILE`, as SVG")
	return cmd
}

func (f *mechanismFlags) run(cmd *cobra.Command) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	options.Progress = progress(cmd.ErrOrStderr(), "mechanisms")
	report := &ablation.Report{
		Schema:  ablation.Schema,
		Program: program(),
		Machine: machineText(),
		Started: time.Now(),
		Quick:   f.quick,
	}
	report.Results, err = ablation.Run(cmd.Context(), options)
	report.Seconds = time.Since(report.Started).Round(time.Second).Seconds()
	if cmd.Context().Err() != nil {
		err = fmt.Errorf("the report is of a part of the run: %w", errInterrupted)
	}
	if len(report.Results) == 0 {
		return err
	}
	err = errors.Join(err, f.write(cmd.OutOrStdout(), report))
	if missed := report.Missed(); len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("below the floor: %s", strings.Join(missed, ", ")))
	}
	return err
}

// options reads what the flags name.
func (f *mechanismFlags) options() (o ablation.Options, err error) {
	if o.Mechanisms, err = ablation.Select(f.only); err != nil {
		return o, fmt.Errorf("--only: %w: %w", err, errUsage)
	}
	o.Quick = f.quick
	if f.trace != "" {
		o.Trace, err = load.OpenTrace(f.trace, "", 0)
	}
	return o, err
}

// write prints the report, keeps it and draws it, as the flags say.
func (f *mechanismFlags) write(out io.Writer, report *ablation.Report) error {
	asJSON := func(w io.Writer) error { return printJSON(w, report) }
	var errs []error
	if f.keep != "" {
		base := filepath.Join(f.keep, report.Started.UTC().Format(time.DateOnly)+"-mechanisms")
		errs = append(errs, os.MkdirAll(f.keep, 0o755), writeFile(base+".txt", report.WriteText),
			writeFile(base+".json", asJSON))
	}
	if f.chart != "" {
		errs = append(errs, writeFile(f.chart, report.Plot().WriteSVG))
	}
	if f.json {
		errs = append(errs, asJSON(out))
	} else {
		errs = append(errs, report.WriteText(out))
	}
	return errors.Join(errs...)
}
