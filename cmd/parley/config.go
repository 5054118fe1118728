package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"parley/cli/settings"
)

func newConfig() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print a sample configuration file",
		Long: `Print a configuration file for parley serve --config with every setting in it, commented
out, with its meaning and its default.`,
		Example: "  parley config > parley.yaml\n  parley serve --config parley.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), settings.SampleFile())
			return err
		},
	}
}
