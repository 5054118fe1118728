package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"parley/bench/schemas"
)

// schemasFlags are what bench schemas can be told.
type schemasFlags struct {
	options   schemas.Options
	all, json bool
}

func newSchemas() *cobra.Command {
	f := &schemasFlags{}
	cmd := &cobra.Command{
		Use:   "schemas DIRECTORY...",
		Short: "Measure structured output on folders of JSON schemas",
		Long: `Measure structured output on folders of JSON schemas: how many are accepted in strict
mode, how long one takes to compile, and whether random answers under each accepted
schema satisfy it, by an independent validator. A file is a schema, or a schema with
examples as in MaskBench, or a list of those as in the JSON-Schema-Test-Suite. Nothing
of these collections is part of Parley: fetch guidance-ai/jsonschemabench and
json-schema-org/JSON-Schema-Test-Suite and name their folders.

The bars: 90 % of the schemas outside of the test suite accepted, a median of 10 ms,
no invalid answer. The exit code is 1 if one is missed.`,
		Example: "  parley-bench schemas jsonschemabench/data JSON-Schema-Test-Suite/tests",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.options.Roots = args
			return f.run(cmd)
		},
	}
	cmd.Flags().IntVar(&f.options.Answers, "answers", 10_000, "write at least `N` answers")
	cmd.Flags().Uint64Var(&f.options.Seed, "seed", 1, "draw with this `NUMBER`")
	cmd.Flags().BoolVar(&f.all, "all", false, "list every failure and every reason for a refusal")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

func (f *schemasFlags) run(cmd *cobra.Command) error {
	if f.options.Answers < 0 {
		return fmt.Errorf("--answers is %d: it must be at least 0: %w", f.options.Answers, errUsage)
	}
	report, err := schemas.Run(cmd.Context(), f.options, progress(cmd.ErrOrStderr(), "schemas"))
	if err != nil {
		return err
	}
	if f.json {
		err = printJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.WriteText(cmd.OutOrStdout(), f.all)
	}
	if missed := report.Missed(f.options.Answers); len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("missed: %s", strings.Join(missed, ", ")))
	}
	return err
}
