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

	"parley/bench/index"
)

// indexFlags are what bench index can be told.
type indexFlags struct {
	options index.Options
	keep    string
	json    bool
}

func newIndex() *cobra.Command {
	f := &indexFlags{}
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Measure the router's index of who holds which block",
		Long: `Measure the router's index of who holds which block of context: how many blocks of
events it takes in a second on one processor, from workers that use our names and
from those that have names of their own; how long the lookup of a prompt of 128K
tokens lasts, and hashing it; what a block costs in memory; and what an idle index
costs. What memory alone would cost stands beside it.

Events are measured from the decoded event on, as the router takes them: numbers of
batches checked, tokens hashed where the engine has names of its own, tables changed.
Each worker is full: a batch stores a prompt of 32 blocks and evicts the oldest one
from its end. Not measured is what comes before, the connection and the decoding.

Each measurement has a bar; the exit code is 1 if one is missed. Other programs that
run meanwhile take its caches away: it needs an idle machine. Where the machine is a
virtual one, another may take half of a core for a while. Rounds in which that shows, by
a piece of other work before and after them, do not count, and stand beside the rest.`,
		Example: "  parley-bench index\n  parley-bench index --workers 8 --blocks 65536\n  parley-bench index " +
			"--keep bench/results",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().IntVar(&f.options.Workers, "workers", 100, "let `N` workers publish events")
	cmd.Flags().IntVar(&f.options.Blocks, "blocks", 20_000, "give each of them `N` blocks")
	cmd.Flags().IntVar(&f.options.Rounds, "rounds", 200,
		"measure `N` times with the core to itself, and take the median")
	cmd.Flags().StringVar(&f.keep, "keep", "", "keep the report in this `DIRECTORY`, under today's date")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

func (f *indexFlags) run(cmd *cobra.Command) error {
	if f.options.Workers < 1 || f.options.Blocks < 128 || f.options.Rounds < 1 {
		return fmt.Errorf("--workers and --rounds must be at least 1 and --blocks 128: %w", errUsage)
	}
	report, err := index.Run(cmd.Context(), f.options)
	if err != nil {
		return err
	}
	report.Program, report.Machine = program(), machineText()
	err = f.write(cmd.OutOrStdout(), report)
	if missed := report.Missed(); len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("missed: %s", strings.Join(missed, ", ")))
	}
	return err
}

// write prints the report and keeps it, as the flags say.
func (f *indexFlags) write(out io.Writer, report *index.Report) error {
	var errs []error
	if f.keep != "" {
		base := filepath.Join(f.keep, report.Started.UTC().Format(time.DateOnly)+"-index")
		errs = append(errs, os.MkdirAll(f.keep, 0o755), writeFile(base+".txt", report.WriteText))
	}
	if f.json {
		return errors.Join(append(errs, printJSON(out, report))...)
	}
	return errors.Join(append(errs, report.WriteText(out))...)
}
